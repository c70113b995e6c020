//! The one way to a provider, and the only user of the HTTP client: one request out, one answer in.
//!
//! It never retries, never follows a redirect, takes no proxy from the environment, and holds no clock but the one for
//! connecting: the caller owns the others, and goes on listening when they have struck. Every error is reduced to what
//! it proves (`classify.rs`); no text of an error names an address or a key.

mod ask;
pub mod callback;
mod classify;
#[cfg(test)]
mod http_stack;
mod sign;
mod tls;

use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use bytes::{Bytes, BytesMut};
use http::Method;
use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};

use crate::adapter::{Head, UpstreamRequest};
use crate::failure::{Failure, Proof};
use crate::json::Json;

pub use sign::Signing;

/// No answer may be longer than this, decoded.
pub const MAX_ANSWER: usize = 32 * 1024 * 1024;

/// Where a provider is, and how to connect to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// `https://api.openai.com/v1`: an adapter's path is appended to it.
    pub base_url: String,
    /// For DNS, TCP and TLS together. When it strikes, nothing of the request was sent: that is why the caller's own
    /// timeouts must be longer, since after those nobody knows.
    pub connect_timeout: Duration,
    /// How long an idle connection is kept; a little less than the provider keeps it. Zero keeps none: every call then
    /// connects anew, and none can fail on a connection that died while idle.
    pub pool_idle_timeout: Duration,
    /// Who signs each request, where the provider wants signatures instead of a key.
    pub signing: Option<Signing>,
}

impl Endpoint {
    /// With the default times: 5 s to connect, 30 s idle.
    pub fn new(base_url: impl Into<String>) -> Self {
        Endpoint {
            base_url: base_url.into(),
            connect_timeout: Duration::from_secs(5),
            pool_idle_timeout: Duration::from_secs(30),
            signing: None,
        }
    }
}

/// A setting that no client can be built from.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {message}")]
pub struct TransportError {
    /// The setting's name: `base_url`, `connect_timeout`.
    pub field: &'static str,
    pub message: String,
}

/// A connection pool to one provider.
#[derive(Debug, Clone)]
pub struct Transport {
    client: reqwest::Client,
    /// Without a slash at its end.
    base: String,
    signing: Option<Signing>,
    /// The address asked first, which is nearly every one: parsed once.
    usual: Arc<OnceLock<(String, reqwest::Url)>>,
}

impl Transport {
    pub fn new(endpoint: &Endpoint) -> Result<Self, TransportError> {
        let base = checked_base(&endpoint.base_url)?;
        if endpoint.connect_timeout.is_zero() {
            return Err(setting("connect_timeout", "must be longer than zero"));
        }
        let pooled = if endpoint.pool_idle_timeout.is_zero() { 0 } else { usize::MAX };
        let client = cautious()
            .tcp_nodelay(true)
            .tcp_keepalive(Duration::from_secs(30))
            .connect_timeout(endpoint.connect_timeout)
            .pool_idle_timeout(endpoint.pool_idle_timeout)
            .pool_max_idle_per_host(pooled)
            .build()
            .map_err(|error| setting("base_url", &format!("no client can be built: {}", error.without_url())))?;
        Ok(Transport { client, base, signing: endpoint.signing.clone(), usual: Arc::default() })
    }

    /// Sends the request once, and waits for the head of the answer, for as long as it takes.
    pub async fn send(&self, mut request: UpstreamRequest) -> Result<Response, Failure> {
        let Some(address) = self.address(&request.path) else { return Err(classify::not_built()) };
        if let Some(signing) = &self.signing {
            signing.sign(address.as_str(), &mut request, SystemTime::now())?;
        }
        let mut sent = reqwest::Request::new(Method::POST, address);
        sent.headers_mut().extend(request.headers);
        *sent.body_mut() = Some(request.body.into());
        let response = self.client.execute(sent).await.map_err(|error| classify::sending(&error))?;
        let head = Head { status: response.status(), headers: response.headers().clone() };
        Ok(Response { head, body: response })
    }

    fn address(&self, path: &str) -> Option<reqwest::Url> {
        if let Some((usual, address)) = self.usual.get()
            && usual == path
        {
            return Some(address.clone());
        }
        let address = reqwest::Url::parse(&format!("{}{path}", self.base)).ok()?;
        let _ = self.usual.set((path.to_owned(), address.clone()));
        Some(address)
    }
}

/// An answer whose head has arrived.
#[derive(Debug)]
pub struct Response {
    pub head: Head,
    body: reqwest::Response,
}

impl Response {
    /// The next piece of the body, decoded; `None` at its end. Where the body is not delimited, its end and a cut are
    /// the same to see: [`Response::is_delimited`].
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, Failure> {
        self.body.chunk().await.map_err(|error| classify::reading(&error, &self.head))
    }

    /// Whether the answer says where it ends (a length, or chunks). Otherwise the connection's end is all there is,
    /// and only the protocol's own terminal event can show that nothing is missing.
    pub fn is_delimited(&self) -> bool {
        let headers = &self.head.headers;
        headers.contains_key(CONTENT_LENGTH)
            || headers.contains_key(TRANSFER_ENCODING)
            || matches!(self.head.status.as_u16(), 204 | 304)
    }

    /// The whole body, at most `limit` bytes and never more than [`MAX_ANSWER`], decoded.
    ///
    /// A body that is not delimited is taken only if it is one complete JSON document, whose last bracket is a terminal
    /// event of its own. (A compressed body counts as not delimited, because decoding takes its length away.)
    pub async fn whole(mut self, limit: usize) -> Result<(Head, Bytes), Failure> {
        let limit = limit.min(MAX_ANSWER);
        let mut body = BytesMut::new();
        while let Some(chunk) = self.chunk().await? {
            if body.len() + chunk.len() > limit {
                return Err(self.unknown("answer_too_large", format!("the answer is longer than {limit} bytes")));
            }
            body.extend_from_slice(&chunk);
        }
        self.check_whole(&body)?;
        Ok((self.head, body.freeze()))
    }

    /// Whether `body`, all that came, is the whole answer as far as can be told (see [`Response::whole`]).
    pub fn check_whole(&self, body: &[u8]) -> Result<(), Failure> {
        let whole =
            self.is_delimited() || Json::parse_with_loose_logprobs(body).is_ok_and(|json| json.as_object().is_some());
        if whole {
            return Ok(());
        }
        let message = "the answer has no length and is no complete JSON: it may have been cut";
        Err(self.unknown("answer_without_length", message))
    }

    fn unknown(&self, reason: &'static str, message: impl AsRef<str>) -> Failure {
        let failure = Failure::new(Proof::Unknown, reason, message);
        Failure { status: Some(self.head.status.as_u16()), ..failure }
    }
}

/// What every client here has in common: it sends once, to where it was told, with nobody in between. The HTTP client's
/// own defaults send a POST up to three times, replay it along a redirect, and take a proxy from the environment.
fn cautious() -> reqwest::ClientBuilder {
    reqwest::Client::builder()
        .retry(reqwest::retry::never())
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .http1_only()
        .referer(false)
        .user_agent(concat!("interlock/", env!("CARGO_PKG_VERSION")))
        .tls_backend_preconfigured(tls::config().clone())
}

fn setting(field: &'static str, message: &str) -> TransportError {
    TransportError { field, message: message.to_owned() }
}

/// The text is not repeated in the message: a password may stand in it.
fn checked_base(text: &str) -> Result<String, TransportError> {
    let wrong = |message| Err(setting("base_url", message));
    let Ok(url) = reqwest::Url::parse(text) else {
        return wrong("is no address: write one like https://api.example.com/v1");
    };
    if !matches!(url.scheme(), "http" | "https") {
        return wrong("must begin with https:// or http://");
    }
    if url.host_str().is_none_or(str::is_empty) {
        return wrong("names no host");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return wrong("must not hold a user or a password: set api_key");
    }
    if url.query().is_some() || url.fragment().is_some() {
        return wrong("must not hold ? or #: paths are appended to it");
    }
    Ok(url.as_str().trim_end_matches('/').to_owned())
}
