//! Cohere's chat, version 2 (docs.cohere.com/reference/chat, read 2026-11; the base URL ends with /v2).
//!
//! Close to OpenAI's in its messages and tools, with words of its own for the rest. Everything is translated; what this
//! protocol cannot carry is refused by name before anything is sent.

pub mod failure;
pub mod reply;
pub mod request;
pub mod stream;

use crate::adapter::{Adapter, CallContext, Head, StreamDecoder, Unsupported, UpstreamRequest};
use crate::canonical::{Answer, Request};
use crate::compatible::Row;
use crate::failure::Failure;
use crate::openai::{accept, json_headers};
use crate::stream::read_collected;

/// Rises with every change of what is sent or of how an answer is read.
const REVISION: u32 = 2;

/// Speaks Cohere's chat to the provider that its row describes.
#[derive(Debug, Clone)]
pub struct Cohere {
    row: Row,
}

impl Cohere {
    pub fn new(row: Row) -> Self {
        Cohere { row }
    }
}

impl Adapter for Cohere {
    fn name(&self) -> &'static str {
        self.row.name
    }

    fn version(&self) -> String {
        format!("{}/{REVISION}", self.row.name)
    }

    fn to_upstream(&self, request: &Request, context: &CallContext<'_>) -> Result<UpstreamRequest, Unsupported> {
        let body = request::write(request, context.model)?.to_bytes();
        let mut headers = json_headers(accept(request));
        headers.extend(self.row.auth.header(context)?);
        Ok(UpstreamRequest { path: "/chat".to_owned(), headers, body })
    }

    fn from_upstream(&self, request: &Request, head: &Head, body: &bytes::Bytes) -> Result<Answer, Failure> {
        if request.stream {
            return read_collected(stream::decoder(request, head)?, body);
        }
        reply::read(&request.model, head, body)
    }

    fn from_failure(&self, head: &Head, body: &[u8]) -> Failure {
        failure::read(&self.row, head, body)
    }

    fn stream_decoder(&self, request: &Request, head: &Head) -> Option<Result<Box<dyn StreamDecoder>, Failure>> {
        Some(stream::decoder(request, head))
    }
}
