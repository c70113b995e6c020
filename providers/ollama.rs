//! Ollama's own protocol, `POST /api/chat` (Ollama's OpenAPI description, 2026-11; docs.ollama.com/api/chat).
//!
//! A stream is one JSON document after another, and `done: true` ends it. Everything is translated; what this protocol
//! cannot carry is refused by name before anything is sent.

pub mod failure;
pub mod reply;
pub mod request;
pub mod stream;

use http::HeaderValue;

use crate::adapter::{Adapter, CallContext, Head, StreamDecoder, Unsupported, UpstreamRequest};
use crate::canonical::{Answer, Request};
use crate::compatible::Row;
use crate::failure::Failure;
use crate::openai::{JSON, json_headers};
use crate::stream::read_collected;

/// Rises with every change of what is sent or of how an answer is read.
const REVISION: u32 = 2;

/// Speaks Ollama's own protocol to the provider that its row describes.
#[derive(Debug, Clone)]
pub struct Ollama {
    row: Row,
}

impl Ollama {
    pub fn new(row: Row) -> Self {
        Ollama { row }
    }
}

impl Adapter for Ollama {
    fn name(&self) -> &'static str {
        self.row.name
    }

    fn version(&self) -> String {
        format!("{}/{REVISION}", self.row.name)
    }

    fn to_upstream(&self, request: &Request, context: &CallContext<'_>) -> Result<UpstreamRequest, Unsupported> {
        let body = request::write(request, context.model)?.to_bytes();
        let accept = if request.stream { HeaderValue::from_static("application/x-ndjson") } else { JSON };
        let mut headers = json_headers(accept);
        headers.extend(self.row.auth.header(context)?);
        Ok(UpstreamRequest { path: "/api/chat".to_owned(), headers, body })
    }

    fn from_upstream(&self, request: &Request, head: &Head, body: &bytes::Bytes) -> Result<Answer, Failure> {
        if request.stream {
            return read_collected(stream::decoder(head)?, body);
        }
        reply::read(head, body)
    }

    fn from_failure(&self, head: &Head, body: &[u8]) -> Failure {
        failure::read(&self.row, head, body)
    }

    fn stream_decoder(&self, _request: &Request, head: &Head) -> Option<Result<Box<dyn StreamDecoder>, Failure>> {
        Some(stream::decoder(head))
    }
}
