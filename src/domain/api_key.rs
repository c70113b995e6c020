//! API keys: `ilk_<public>_<secret>_<checksum>`, 256 random bits of secret, all hex.
//!
//! The prefix lets scanners find a leaked key, the checksum turns typos away before the database is asked, and only
//! the secret's hash is ever stored.

use std::fmt;

use sha2::{Digest, Sha256};

use super::hex::hex;

const PREFIX: &str = "ilk";
const PUBLIC_BYTES: usize = 6;
const SECRET_BYTES: usize = 32;

/// A key just made, to be shown once.
pub struct FreshKey {
    pub public_id: String,
    pub secret_sha256: [u8; 32],
    text: String,
}

impl FreshKey {
    /// From random bytes that the caller drew.
    pub fn from_random(random: [u8; PUBLIC_BYTES + SECRET_BYTES]) -> Self {
        let (public, secret) = random.split_at(PUBLIC_BYTES);
        let (public_id, secret) = (hex(public), hex(secret));
        let body = format!("{PREFIX}_{public_id}_{secret}");
        let text = format!("{body}_{:08x}", crc32fast::hash(body.as_bytes()));
        FreshKey { public_id, secret_sha256: Sha256::digest(secret.as_bytes()).into(), text }
    }

    /// The key itself, for the one who will use it.
    pub fn reveal(&self) -> &str {
        &self.text
    }
}

impl fmt::Debug for FreshKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FreshKey({}_{}_…)", PREFIX, self.public_id)
    }
}

/// A key as presented: its public part, and the hash of the secret to compare in constant time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PresentedKey {
    pub public_id: String,
    pub secret_sha256: [u8; 32],
}

impl PresentedKey {
    /// `None`: this cannot be a key that was made here.
    pub fn parse(text: &str) -> Option<Self> {
        let (body, checksum) = text.rsplit_once('_')?;
        if checksum.len() != 8 || format!("{:08x}", crc32fast::hash(body.as_bytes())) != checksum {
            return None;
        }
        let mut parts = body.split('_');
        let (prefix, public_id, secret) = (parts.next()?, parts.next()?, parts.next()?);
        let sized = public_id.len() == PUBLIC_BYTES * 2 && secret.len() == SECRET_BYTES * 2 && parts.next().is_none();
        (prefix == PREFIX && sized).then(|| PresentedKey {
            public_id: public_id.to_owned(),
            secret_sha256: Sha256::digest(secret.as_bytes()).into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_back_and_a_typo_is_turned_away() {
        let key = FreshKey::from_random([7; 38]);
        let presented = PresentedKey::parse(key.reveal()).expect("its own key");
        assert_eq!(presented.public_id, key.public_id);
        assert_eq!(presented.secret_sha256, key.secret_sha256);
        let typo = key.reveal().replacen('7', "8", 1);
        assert_eq!(PresentedKey::parse(&typo), None);
        assert_eq!(PresentedKey::parse("sk-live-something"), None);
        assert!(!format!("{key:?}").contains(&"07".repeat(32)));
    }
}
