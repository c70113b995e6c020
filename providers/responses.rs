//! OpenAI responses (OpenAPI 2.3.0: `createResponse`, and the guides on streaming and background mode; read 2026-11-30).
//!
//! For a client that speaks chat completions everything is translated: what this protocol cannot carry is refused by
//! name before anything is sent. The document of a client that speaks this protocol itself goes through, and so does the
//! answer. Where the two have other defaults (storing, strict tools), what the client meant is written
//! out. In background mode (`lookup = "background"`) the work goes on at the provider without us, under an id of its own.

mod background;
pub mod failure;
#[cfg(test)]
mod lookup_tests;
pub mod reply;
pub mod request;
pub mod stream;

use http::HeaderValue;

use crate::adapter::{Adapter, CallContext, Head, StreamDecoder, Unsupported, UpstreamRequest};
use crate::canonical::{Answer, Request};
use crate::compatible::Row;
use crate::dialects::Dialect;
use crate::failure::Failure;
use crate::json::Json;
use crate::lookup::{LookupAnswer, LookupRequest, Way};
use crate::openai::{JSON, post};
use crate::stream::read_collected;

/// Rises with every change of what is sent or of how an answer is read.
const REVISION: u32 = 2;

/// Whether the client speaks this protocol itself.
fn is_native(request: &Request) -> bool {
    request::own_document(request).is_some()
}

/// Speaks OpenAI responses to the provider that its row describes.
#[derive(Debug, Clone)]
pub struct Responses {
    row: Row,
}

impl Responses {
    pub fn new(row: Row) -> Self {
        Responses { row }
    }

    fn in_background(&self) -> bool {
        self.row.lookup == Some(Way::Background)
    }
}

impl Adapter for Responses {
    fn name(&self) -> &'static str {
        self.row.name
    }

    fn version(&self) -> String {
        match self.row.lookup {
            None => format!("{}/{REVISION}", self.row.name),
            Some(way) => format!("{}/{REVISION}+{}", self.row.name, way.as_str()),
        }
    }

    fn dialect(&self) -> Option<Dialect> {
        Some(Dialect::Responses)
    }

    fn to_upstream(&self, request: &Request, context: &CallContext<'_>) -> Result<UpstreamRequest, Unsupported> {
        let mut body = request::write(request, context.model)?;
        if self.in_background() {
            background::mark(request, &mut body)?;
        }
        let accept = if self.streams(request) { HeaderValue::from_static("text/event-stream") } else { JSON };
        post(&self.row, "/responses", accept, Json::Object(body).to_bytes(), context)
    }

    fn from_upstream(&self, request: &Request, head: &Head, body: &bytes::Bytes) -> Result<Answer, Failure> {
        if self.streams(request) {
            return read_collected(stream::decoder(head, self.in_background(), is_native(request))?, body);
        }
        reply::read(head, body, is_native(request))
    }

    fn from_failure(&self, head: &Head, body: &[u8]) -> Failure {
        failure::read(&self.row, head, body)
    }

    /// In background mode always: the stream's first event brings the id by which the work can be asked about, at once.
    fn streams(&self, request: &Request) -> bool {
        request.stream || self.in_background()
    }

    fn stream_decoder(&self, request: &Request, head: &Head) -> Option<Result<Box<dyn StreamDecoder>, Failure>> {
        Some(stream::decoder(head, self.in_background(), is_native(request)))
    }

    fn to_count(&self, request: &Request, context: &CallContext<'_>) -> Option<Result<UpstreamRequest, Unsupported>> {
        let path = self.row.count_path?;
        let body = request::write_count(request, context.model);
        Some(body.and_then(|body| post(&self.row, path, JSON, Json::Object(body).to_bytes(), context)))
    }

    fn from_count(&self, body: &[u8]) -> Option<u64> {
        Json::parse(body).ok()?.get("input_tokens")?.as_u64()
    }

    fn lookup_way(&self) -> Option<Way> {
        self.row.lookup
    }

    fn lookup(&self, _request: &Request, context: &CallContext<'_>, reference: Option<&str>) -> Option<LookupRequest> {
        if self.in_background() { background::question(context, reference?) } else { None }
    }

    fn from_lookup(
        &self,
        request: &Request,
        _context: &CallContext<'_>,
        asked: &LookupRequest,
        head: &Head,
        body: &[u8],
    ) -> LookupAnswer {
        background::read(&self.row, asked, head, body, is_native(request))
    }

    fn cancel(&self, context: &CallContext<'_>, reference: Option<&str>) -> Option<LookupRequest> {
        if self.in_background() { background::cancel(context, reference?) } else { None }
    }
}
