//! Anthropic messages, version 2023-06-01 (platform.claude.com/docs/en/api/messages, read 2026-11-30).
//!
//! For a client that speaks OpenAI's dialect everything is translated: what this protocol cannot carry is refused by
//! name before anything is sent, and an answer is rendered the same way each time, so that a replay gives the same bytes.
//! The document of a client that speaks this protocol itself goes through, and so does the answer.

pub mod failure;
pub mod reply;
pub mod request;
pub mod stream;

use http::{HeaderName, HeaderValue};

use crate::adapter::{Adapter, CallContext, Head, StreamDecoder, Unsupported, UpstreamRequest};
use crate::canonical::{Answer, Request};
use crate::compatible::Row;
use crate::dialects::Dialect;
use crate::failure::Failure;
use crate::json::Json;
use crate::openai::{JSON, accept, closing, json_headers};
use crate::stream::read_collected;

/// Rises with every change of what is sent or of how an answer is read.
const REVISION: u32 = 5;

/// The protocol's own version, sent with every request.
const PROTOCOL_VERSION: HeaderValue = HeaderValue::from_static("2023-06-01");

/// Speaks Anthropic messages to the provider that its row describes.
#[derive(Debug, Clone)]
pub struct Anthropic {
    row: Row,
}

impl Anthropic {
    pub fn new(row: Row) -> Self {
        Anthropic { row }
    }

    fn post(
        &self,
        path: &str,
        accept: HeaderValue,
        body: Json,
        context: &CallContext<'_>,
    ) -> Result<UpstreamRequest, Unsupported> {
        let mut headers = json_headers(accept);
        headers.push((HeaderName::from_static("anthropic-version"), PROTOCOL_VERSION));
        headers.extend(self.row.auth.header(context)?);
        Ok(UpstreamRequest { path: path.to_owned(), headers, body: body.to_bytes() })
    }
}

impl Adapter for Anthropic {
    fn name(&self) -> &'static str {
        self.row.name
    }

    fn version(&self) -> String {
        format!("{}/{REVISION}", self.row.name)
    }

    fn dialect(&self) -> Option<Dialect> {
        Some(Dialect::Messages)
    }

    fn to_upstream(&self, request: &Request, context: &CallContext<'_>) -> Result<UpstreamRequest, Unsupported> {
        let body = request::write(&self.row, request, context.model)?;
        let mut upstream = self.post("/messages", accept(request), body, context)?;
        upstream.headers.extend(closing(&self.row, request));
        Ok(upstream)
    }

    fn from_upstream(&self, request: &Request, head: &Head, body: &bytes::Bytes) -> Result<Answer, Failure> {
        let native = request::own_document(request).is_some();
        if request.stream {
            return read_collected(stream::decoder(head, native)?, body);
        }
        reply::read(head, body, native)
    }

    fn from_failure(&self, head: &Head, body: &[u8]) -> Failure {
        failure::read(&self.row, head, body)
    }

    fn stream_decoder(&self, request: &Request, head: &Head) -> Option<Result<Box<dyn StreamDecoder>, Failure>> {
        Some(stream::decoder(head, request::own_document(request).is_some()))
    }

    fn to_count(&self, request: &Request, context: &CallContext<'_>) -> Option<Result<UpstreamRequest, Unsupported>> {
        let path = self.row.count_path?;
        let body = request::write_count(&self.row, request, context.model);
        Some(body.and_then(|body| self.post(path, JSON, body, context)))
    }

    fn from_count(&self, body: &[u8]) -> Option<u64> {
        Json::parse(body).ok()?.get("input_tokens")?.as_u64()
    }
}
