//! `[callbacks]`: what notices are signed with, and whether they may go into our own network.

use super::{Checker, raw};
use crate::config::Callbacks;
use crate::domain::notice::SigningKey;

impl Checker {
    pub(super) fn callbacks(&mut self, raw: &raw::Callbacks) -> Callbacks {
        let setting = "callbacks.secret";
        let secret = self.secret(setting, raw.secret.as_deref());
        let key = secret.as_ref().and_then(|secret| SigningKey::parse(secret.expose()));
        if secret.is_some() && key.is_none() {
            let cure = "make one with: echo \"whsec_$(openssl rand -base64 32)\"";
            self.problem(
                setting,
                format!("is no Standard Webhooks secret (whsec_ and 24 to 64 bytes in base64); {cure}"),
            );
        }
        Callbacks { key, allow_private: raw.allow_private.unwrap_or(false) }
    }
}
