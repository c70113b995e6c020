//! Ids of calls on the wire of a provider that did not make them. An id only ties a result to its call, so where one
//! does not fit, another is made from it: the same each time, with a hash against two becoming one.

use std::borrow::Cow;

/// The id where it fits; else its beginning, with `_` for what is not allowed, and a hash of all of it. `longest` is in
/// bytes, at least 57.
pub(crate) fn fitting(id: &str, longest: usize, allowed: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !id.is_empty() && id.len() <= longest && id.chars().all(&allowed) {
        return Cow::Borrowed(id);
    }
    let fnv = id
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let readable: String = id.chars().take(40).map(plain).collect();
    Cow::Owned(format!("{readable}_{fnv:016x}"))
}
