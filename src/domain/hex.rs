//! Bytes as text, two lower-case digits each: hashes, keys and tokens are shown like this.

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
