//! Amazon Bedrock's Converse (botocore 1.44.8, bedrock-runtime 2023-09-30; read 2026-11-30).
//!
//! Everything is translated, and what this protocol cannot carry is refused by name before anything is sent. The base
//! URL is the region's, `https://bedrock-runtime.REGION.amazonaws.com`. A Bedrock API key goes as a bearer token; with
//! access keys the transport signs each request as it leaves ([`crate::transport::Signing`]).

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
use crate::openai::{JSON, json_headers};
use crate::stream::read_collected;

/// Rises with every change of what is sent or of how an answer is read.
const REVISION: u32 = 3;

/// Speaks Converse to the provider that its row describes.
#[derive(Debug, Clone)]
pub struct Bedrock {
    row: Row,
}

impl Bedrock {
    pub fn new(row: Row) -> Self {
        Bedrock { row }
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
        let path = format!("/model/{}/{method}", in_path(context.model)?);
        Ok(UpstreamRequest { path, headers, body: body.to_bytes() })
    }
}

impl Adapter for Bedrock {
    fn name(&self) -> &'static str {
        self.row.name
    }

    fn version(&self) -> String {
        format!("{}/{REVISION}", self.row.name)
    }

    fn to_upstream(&self, request: &Request, context: &CallContext<'_>) -> Result<UpstreamRequest, Unsupported> {
        let body = request::write(request, context.attempt_id)?;
        match request.stream {
            true => {
                let accept = HeaderValue::from_static("application/vnd.amazon.eventstream");
                self.post("converse-stream", accept, body, context)
            }
            false => self.post("converse", JSON, body, context),
        }
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

    fn to_count(&self, request: &Request, context: &CallContext<'_>) -> Option<Result<UpstreamRequest, Unsupported>> {
        let method = self.row.count_path?;
        Some(request::write_count(request).and_then(|body| self.post(method, JSON, body, context)))
    }

    fn from_count(&self, body: &[u8]) -> Option<u64> {
        Json::parse(body).ok()?.get("inputTokens")?.as_u64()
    }
}

/// The model's id as one part of the path: a model, an inference profile, or the ARN of one.
fn in_path(model: &str) -> Result<String, Unsupported> {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:/".contains(&byte);
    if model.is_empty() || model.starts_with(['.', '/']) || !model.bytes().all(known) {
        let why = "the target's model is no id of Bedrock's: letters, digits, `-`, `_`, `.`, `:` and `/`";
        return Err(Unsupported::new("model", why));
    }
    Ok(model.replace(':', "%3A").replace('/', "%2F"))
}
