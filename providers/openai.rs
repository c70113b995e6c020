//! OpenAI chat completions, and everybody who speaks them: the adapter is one, its [`Row`] says where a provider departs.
//!
//! Clients speak this protocol too, so a request and an answer pass through with as little changed as possible:
//! `model` on the way there, nothing on the way back unless the answer contradicts itself. So do the chunks of a stream.

mod arguments;
mod conversation;
pub mod failure;
#[cfg(test)]
mod lookup_tests;
pub mod reply;
pub mod request;
mod stored;
pub mod stream;
mod tokenizer;

pub(crate) use stored::METADATA_KEY;

use std::borrow::Cow;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONNECTION, CONTENT_TYPE};
use http::{HeaderName, HeaderValue};

use crate::adapter::{Adapter, CallContext, Head, Rendered, StreamDecoder, Unsupported, UpstreamRequest};
use crate::canonical::{Answer, Request};
use crate::compatible::{ChatPath, Row};
use crate::dialects::embeddings;
use crate::failure::Failure;
use crate::json::Json;
use crate::lookup::{LookupAnswer, LookupRequest, Way};
use crate::stream::read_collected;

/// Rises with every change of what is sent or of how an answer is read.
const REVISION: u32 = 4;

/// Speaks OpenAI chat completions to the provider that its row describes.
#[derive(Debug, Clone)]
pub struct OpenAi {
    row: Row,
}

impl OpenAi {
    pub fn new(row: Row) -> Self {
        OpenAi { row }
    }

    /// Of the operation `/chat/completions` or `/embeddings`.
    fn path(&self, operation: &'static str, model: &str) -> Result<Cow<'static, str>, Unsupported> {
        let path = match self.row.path {
            ChatPath::Plain => Cow::Borrowed(operation),
            ChatPath::Deployment => Cow::Owned(format!("/openai/deployments/{}{operation}", request::in_path(model)?)),
        };
        Ok(match &self.row.api_version {
            None => path,
            Some(version) => Cow::Owned(format!("{path}?api-version={version}")),
        })
    }
}

impl Adapter for OpenAi {
    fn name(&self) -> &'static str {
        self.row.name
    }

    fn version(&self) -> String {
        match self.row.lookup {
            None => format!("{}/{REVISION}", self.row.name),
            Some(way) => format!("{}/{REVISION}+{}", self.row.name, way.as_str()),
        }
    }

    fn embeds(&self) -> bool {
        true
    }

    fn to_upstream(&self, request: &Request, context: &CallContext<'_>) -> Result<UpstreamRequest, Unsupported> {
        if embeddings::is_asked(request) {
            let body = embeddings::write(request, context.model);
            return post(&self.row, &self.path("/embeddings", context.model)?, JSON, body, context);
        }
        request::refuse(&self.row, request)?;
        let marked = match self.row.lookup {
            Some(Way::Stored) => Some(stored::mark(request, context.attempt_id)?),
            Some(Way::Conversation | Way::Background) | None => None,
        };
        let body = request::to_upstream(&self.row, marked.as_ref().unwrap_or(request), context.model);
        let path = self.path("/chat/completions", context.model)?;
        let mut upstream = post(&self.row, &path, accept(request), body, context)?;
        upstream.headers.extend(closing(&self.row, request));
        if self.row.lookup == Some(Way::Conversation) && request.stream {
            upstream.headers.push((conversation::HEADER, id_header(context.attempt_id)?));
        }
        Ok(upstream)
    }

    fn from_upstream(&self, request: &Request, head: &Head, body: &Bytes) -> Result<Answer, Failure> {
        if embeddings::is_asked(request) {
            return embeddings::read(head, body);
        }
        // A stream that was collected first: the same answer as if it had been read as it came.
        if request.stream {
            return read_collected(stream::decoder(&self.row, request, head)?, body);
        }
        reply::read(&self.row, head, body)
    }

    fn from_failure(&self, head: &Head, body: &[u8]) -> Failure {
        failure::read(&self.row, head, body)
    }

    fn stream_decoder(&self, request: &Request, head: &Head) -> Option<Result<Box<dyn StreamDecoder>, Failure>> {
        Some(stream::decoder(&self.row, request, head))
    }

    fn to_count(&self, request: &Request, context: &CallContext<'_>) -> Option<Result<UpstreamRequest, Unsupported>> {
        let body = request::write_count(&self.row, request, context.model);
        Some(post(&self.row, self.row.count_path?, JSON, body, context))
    }

    fn from_count(&self, body: &[u8]) -> Option<u64> {
        let answer = Json::parse(body).ok()?;
        answer.get("input_tokens").or_else(|| answer.get("count"))?.as_u64()
    }

    fn to_template(
        &self,
        request: &Request,
        context: &CallContext<'_>,
    ) -> Option<Result<UpstreamRequest, Unsupported>> {
        let (path, body) = tokenizer::template(self.row.tokenizer_api?, request, context.model);
        Some(post(&self.row, path, JSON, body, context))
    }

    fn from_template(&self, body: &[u8]) -> Option<Rendered> {
        tokenizer::read_template(body)
    }

    fn to_tokenize(&self, text: &str, context: &CallContext<'_>) -> Option<Result<UpstreamRequest, Unsupported>> {
        let (path, body) = tokenizer::tokenize(self.row.tokenizer_api?, text, context.model);
        Some(post(&self.row, path, JSON, body, context))
    }

    fn from_tokenize(&self, body: &[u8]) -> Option<Vec<u64>> {
        tokenizer::read_tokens(body)
    }

    fn to_detokenize(&self, tokens: &[u64], context: &CallContext<'_>) -> Option<Result<UpstreamRequest, Unsupported>> {
        let (path, body) = tokenizer::detokenize(self.row.tokenizer_api?, tokens, context.model);
        Some(post(&self.row, path, JSON, body, context))
    }

    fn from_detokenize(&self, body: &[u8]) -> Option<String> {
        tokenizer::read_text(body)
    }

    fn lookup_way(&self) -> Option<Way> {
        self.row.lookup
    }

    fn lookup(&self, request: &Request, context: &CallContext<'_>, _reference: Option<&str>) -> Option<LookupRequest> {
        // Nobody stores vectors.
        if embeddings::is_asked(request) {
            return None;
        }
        match self.row.lookup? {
            Way::Stored => stored::question(context),
            Way::Conversation => conversation::question(request, context),
            Way::Background => None,
        }
    }

    fn from_lookup(
        &self,
        request: &Request,
        context: &CallContext<'_>,
        asked: &LookupRequest,
        head: &Head,
        body: &[u8],
    ) -> LookupAnswer {
        match self.row.lookup {
            Some(Way::Stored) => stored::read(&self.row, context, head, body),
            Some(Way::Conversation) => conversation::read(&self.row, request, context, asked, head, body),
            Some(Way::Background) | None => LookupAnswer::unreadable("this provider is not asked"),
        }
    }

    fn cancel(&self, context: &CallContext<'_>, _reference: Option<&str>) -> Option<LookupRequest> {
        match self.row.lookup? {
            Way::Stored | Way::Background => None,
            Way::Conversation => conversation::cancel(context),
        }
    }
}

/// A request of this protocol's family: the key as a bearer token, and the attempt's id where the row has a place for it.
pub(crate) fn post(
    row: &Row,
    path: &str,
    accept: HeaderValue,
    body: Bytes,
    context: &CallContext<'_>,
) -> Result<UpstreamRequest, Unsupported> {
    let mut headers = json_headers(accept);
    headers.extend(row.auth.header(context)?);
    if let Some(name) = row.request_id_header {
        headers.push((HeaderName::from_static(name), id_header(context.attempt_id)?));
    }
    Ok(UpstreamRequest { path: path.to_owned(), headers, body })
}

pub(crate) const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// What the answer should be.
pub(crate) fn accept(request: &Request) -> HeaderValue {
    if request.stream { HeaderValue::from_static("text/event-stream") } else { JSON }
}

/// The word for a server whose connection is not to be used again after a stream.
pub(crate) fn closing(row: &Row, request: &Request) -> Option<(HeaderName, HeaderValue)> {
    (row.closes_after_stream && request.stream).then_some((CONNECTION, HeaderValue::from_static("close")))
}

pub(crate) fn json_headers(accept: HeaderValue) -> Vec<(HeaderName, HeaderValue)> {
    vec![(CONTENT_TYPE, JSON), (ACCEPT, accept)]
}

/// A header that no debug output shows.
pub(crate) fn secret_header(value: &str) -> Result<HeaderValue, Unsupported> {
    let mut header = HeaderValue::from_str(value).map_err(|_| {
        Unsupported::new("api_key", "the provider's configured key holds characters that no header can carry")
    })?;
    header.set_sensitive(true);
    Ok(header)
}

/// Of a question: with the key, without the id that a request carries.
pub(crate) fn asking_headers(accept: HeaderValue, context: &CallContext<'_>) -> Option<Vec<(HeaderName, HeaderValue)>> {
    let mut headers = json_headers(accept);
    if let Some(key) = context.api_key {
        headers.push((AUTHORIZATION, secret_header(&format!("Bearer {}", key.expose())).ok()?));
    }
    Some(headers)
}

pub(crate) fn id_header(attempt_id: &str) -> Result<HeaderValue, Unsupported> {
    HeaderValue::from_str(attempt_id)
        .map_err(|_| Unsupported::new("attempt_id", "holds characters that no header can carry"))
}
