//! Google's `generateContent` (ai.google.dev/api/generate-content, v1beta, read 2026-11-30), on the Gemini API and, with
//! the same bodies under another base URL and another way to sign in, on Vertex AI.
//!
//! Everything is translated; what this protocol cannot carry is refused by name before anything is sent. There is no
//! terminal event: an answer is whole when every candidate has its finishReason.

pub mod failure;
pub mod reply;
pub mod request;
pub mod stream;

use http::HeaderValue;

use crate::adapter::{Adapter, CallContext, Head, StreamDecoder, Unsupported, UpstreamRequest};
use crate::canonical::{Answer, Request};
use crate::compatible::Row;
use crate::failure::Failure;
use crate::json::Json;
use crate::openai::{JSON, accept, json_headers};
use crate::stream::read_collected;

/// Rises with every change of what is sent or of how an answer is read.
const REVISION: u32 = 3;

/// Speaks generateContent to the provider that its row describes.
#[derive(Debug, Clone)]
pub struct Gemini {
    row: Row,
}

impl Gemini {
    pub fn new(row: Row) -> Self {
        Gemini { row }
    }

    fn post(
        &self,
        method: &str,
        accept: HeaderValue,
        body: Json,
        context: &CallContext<'_>,
    ) -> Result<UpstreamRequest, Unsupported> {
        let mut headers = json_headers(accept);
        headers.extend(self.row.auth.header(context)?);
        let path = format!("/models/{}{method}", in_path(context.model)?);
        Ok(UpstreamRequest { path, headers, body: body.to_bytes() })
    }
}

impl Adapter for Gemini {
    fn name(&self) -> &'static str {
        self.row.name
    }

    fn version(&self) -> String {
        format!("{}/{REVISION}", self.row.name)
    }

    fn to_upstream(&self, request: &Request, context: &CallContext<'_>) -> Result<UpstreamRequest, Unsupported> {
        let body = request::write(request, context.model)?;
        let method = if request.stream { ":streamGenerateContent?alt=sse" } else { ":generateContent" };
        self.post(method, accept(request), body, context)
    }

    fn from_upstream(&self, request: &Request, head: &Head, body: &bytes::Bytes) -> Result<Answer, Failure> {
        if request.stream {
            return read_collected(stream::decoder(request, head)?, body);
        }
        reply::read(head, body)
    }

    fn from_failure(&self, head: &Head, body: &[u8]) -> Failure {
        failure::read(&self.row, head, body)
    }

    fn stream_decoder(&self, request: &Request, head: &Head) -> Option<Result<Box<dyn StreamDecoder>, Failure>> {
        Some(stream::decoder(request, head))
    }

    fn to_count(&self, request: &Request, context: &CallContext<'_>) -> Option<Result<UpstreamRequest, Unsupported>> {
        let path = self.row.count_path?;
        let body = request::write_count(&self.row, request, context.model);
        Some(body.and_then(|body| self.post(path, JSON, body, context)))
    }

    fn from_count(&self, body: &[u8]) -> Option<u64> {
        Json::parse(body).ok()?.get("totalTokens")?.as_u64()
    }
}

/// The model's name as a part of the path. Names with a slash are resources of another kind (tuned models, endpoints).
fn in_path(model: &str) -> Result<&str, Unsupported> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.@".contains(&byte);
    if model.is_empty() || model.starts_with('.') || !model.bytes().all(plain) {
        let why = "the target's model is no name that Google's path can hold: letters, digits, `-`, `_`, `.` and `@`";
        return Err(Unsupported::new("model", why));
    }
    Ok(model)
}
