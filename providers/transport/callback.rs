//! Notices to addresses that a client chose: one POST out, and whether the receiver took it.
//!
//! A stranger's address must not lead into our own network. Literal addresses are judged when the text is read, names
//! at every try, after they are resolved, and the connection goes to the very address that was judged: a name that
//! answers differently a moment later gains nothing. No redirect is followed, no proxy taken, no connection kept.

mod address;
mod resolve;
#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;

use super::TransportError;
use super::classify::{find, tls_error, without_names};
use crate::retry_after::retry_after;
use address::is_public;
use resolve::{Forbidden, Guarded, Lookup, System};

/// For one try: DNS, TCP, TLS, request, and the head of the answer.
pub const LONGEST_TRY: Duration = Duration::from_secs(10);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Longer addresses are refused by some hop or other anyway.
pub const LONGEST_URL: usize = 2048;

/// An address that no notice will be sent to, whatever it resolves to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    #[error("is no address: write one like https://example.com/hooks/interlock")]
    Unreadable,
    #[error("must begin with https://")]
    NotHttps,
    #[error("must begin with https:// or http://")]
    NotHttp,
    #[error("must not hold a user or a password: the signature is what tells you who calls")]
    Credentials,
    #[error("is longer than {LONGEST_URL} bytes")]
    TooLong,
    #[error("is in a private or reserved range, which is not called")]
    Private,
}

/// An address as it is stored and called: normalised, and judged as far as its text goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallbackUrl(reqwest::Url);

impl CallbackUrl {
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

/// Why a notice was not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missed {
    /// Where an answer arrived.
    pub status: Option<u16>,
    /// In our own words: neither the address nor anything that the receiver said.
    pub message: String,
    /// The receiver's wish.
    pub retry_after: Option<Duration>,
    /// The receiver says that nobody will ever listen there again.
    pub is_gone: bool,
}

/// Sends notices. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Sender {
    client: reqwest::Client,
    allow_private: bool,
}

impl Sender {
    /// With `allow_private`, plain http and addresses of one's own network are called too.
    pub fn new(allow_private: bool) -> Result<Sender, TransportError> {
        Self::with(Arc::new(System), allow_private)
    }

    fn with(lookup: Arc<dyn Lookup>, allow_private: bool) -> Result<Sender, TransportError> {
        let client = super::cautious()
            .gzip(false)
            .https_only(!allow_private)
            .dns_resolver(Arc::new(Guarded { lookup, allow_private }))
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(LONGEST_TRY)
            // A kept connection would go to an address that was judged some time ago.
            .pool_max_idle_per_host(0)
            .build()
            .map_err(|error| {
                super::setting("callbacks", &format!("no client can be built: {}", error.without_url()))
            })?;
        Ok(Sender { client, allow_private })
    }

    /// Reads an address and judges it as far as its text goes. A name is judged at each try.
    pub fn read(&self, text: &str) -> Result<CallbackUrl, UrlError> {
        let url = reqwest::Url::parse(text).map_err(|_| UrlError::Unreadable)?;
        match (url.scheme(), self.allow_private) {
            ("https", _) | ("http", true) => {}
            (_, true) => return Err(UrlError::NotHttp),
            (_, false) => return Err(UrlError::NotHttps),
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(UrlError::Credentials);
        }
        if url.as_str().len() > LONGEST_URL {
            return Err(UrlError::TooLong);
        }
        // Whatever way a literal was written (`0x7f.1`, `2130706433`), parsing has made the usual form of it.
        let host = url.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() {
            return Err(UrlError::Unreadable);
        }
        match host.parse::<IpAddr>() {
            Ok(literal) if !self.allow_private && !is_public(literal) => Err(UrlError::Private),
            Ok(_) | Err(_) => Ok(CallbackUrl(url)),
        }
    }

    /// Posts `body` once. `Ok`: the receiver took it, with this status.
    pub async fn post(&self, url: &str, headers: Vec<(&'static str, String)>, body: Bytes) -> Result<u16, Missed> {
        // Read again: what was allowed when it was stored may be forbidden by now.
        let url = self.read(url).map_err(|error| Missed::because(format!("the address {error}")))?;
        let mut builder = self.client.post(url.0).body(body).header("content-type", "application/json");
        for (name, value) in headers {
            builder = builder.header(name, value);
        }
        let request = builder.build().map_err(|_| Missed::because("the request could not be built"))?;
        let answer = self.client.execute(request).await.map_err(|error| Missed::because(lost(&error)))?;
        let status = answer.status();
        if status.is_success() {
            return Ok(status.as_u16());
        }
        Err(Missed {
            status: Some(status.as_u16()),
            message: format!("the receiver answered {}", status.as_u16()),
            retry_after: retry_after(answer.headers()),
            is_gone: status == StatusCode::GONE,
        })
    }
}

impl Missed {
    fn because(message: impl Into<String>) -> Missed {
        Missed { status: None, message: message.into(), retry_after: None, is_gone: false }
    }
}

/// What is told to the owner of the notice.
fn lost(error: &reqwest::Error) -> String {
    if find::<Forbidden>(error).is_some() {
        return Forbidden.to_string();
    }
    match (error.is_connect(), error.is_timeout()) {
        (true, true) => format!("no connection within {CONNECT_TIMEOUT:?}"),
        (true, false) if error.is_dns() => "the host's name could not be resolved".to_owned(),
        (true, false) => match tls_error(error) {
            Some(tls) => format!("the TLS handshake failed: {}", without_names(tls)),
            None => "the receiver could not be connected to".to_owned(),
        },
        (false, true) => format!("no answer within {LONGEST_TRY:?}"),
        (false, false) => "the connection broke before an answer".to_owned(),
    }
}
