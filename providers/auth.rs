//! Where a provider wants its key: the one place that writes it into a header.

use http::header::AUTHORIZATION;
use http::{HeaderName, HeaderValue};

use crate::adapter::{CallContext, Unsupported};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Auth {
    /// `Authorization: Bearer KEY`.
    Bearer,
    /// A header of its own, which holds the key and nothing else.
    Header(&'static str),
}

impl Auth {
    /// The header with the configured key; `None` where no key is configured.
    pub(crate) fn header(self, context: &CallContext<'_>) -> Result<Option<(HeaderName, HeaderValue)>, Unsupported> {
        let Some(key) = context.api_key else { return Ok(None) };
        let (name, value) = match self {
            Auth::Bearer => (AUTHORIZATION, format!("Bearer {}", key.expose())),
            Auth::Header(name) => (HeaderName::from_static(name), key.expose().to_owned()),
        };
        Ok(Some((name, crate::openai::secret_header(&value)?)))
    }
}
