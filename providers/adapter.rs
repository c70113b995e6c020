//! The trait that every wire format implements: pure translation, no I/O, no clock.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::canonical::{Answer, Request};
use crate::dialects::Dialect;
use crate::failure::Failure;
use crate::lookup::{LookupAnswer, LookupRequest, Way};

/// What an adapter needs to know about the call besides the request.
#[derive(Debug, Clone)]
pub struct CallContext<'a> {
    /// The provider's name for the model.
    pub model: &'a str,
    /// The attempt's id, as text. It goes to the provider where the provider documents a place for it; the client's
    /// own idempotency key never does.
    pub attempt_id: &'a str,
    /// The provider's secret, where one is configured.
    pub api_key: Option<&'a Secret>,
}

/// A request ready for the wire. The transport adds nothing to it but what HTTP itself needs.
#[derive(Debug, Clone)]
pub struct UpstreamRequest {
    /// Appended to the provider's base URL; begins with `/`.
    pub path: String,
    pub headers: Vec<(HeaderName, HeaderValue)>,
    pub body: Bytes,
}

/// The head of a provider's answer.
#[derive(Debug, Clone)]
pub struct Head {
    pub status: http::StatusCode,
    pub headers: HeaderMap,
}

/// A parameter, or a piece of the conversation, that this wire format cannot carry. Becomes a 400 that names it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{param}: {why}")]
pub struct Unsupported {
    /// The member of the client's body, as a path: `logprobs`, `messages[2].content[1]`.
    pub param: String,
    /// What is wrong and what to do instead.
    pub why: String,
}

impl Unsupported {
    pub fn new(param: impl Into<String>, why: impl Into<String>) -> Self {
        Unsupported { param: param.into(), why: why.into() }
    }
}

/// A prompt as a provider renders it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rendered {
    Text(String),
    /// Its tokens: [`Adapter::to_detokenize`] makes the text of them.
    Tokens(Vec<u64>),
}

/// Translation to and from one provider's protocol.
#[expect(clippy::wrong_self_convention, reason = "to and from the upstream, not to and from Self")]
pub trait Adapter: Send + Sync + std::fmt::Debug {
    /// The name used in settings: `openai`, `anthropic`, or a compatible row's.
    fn name(&self) -> &'static str;

    /// Name and revision of the translation: `openai/1`. It rises with every change of what is sent or of how an
    /// answer is read, and ends the permits that were earned under the old one.
    fn version(&self) -> String;

    /// The dialect of clients that this wire format is: such a client's own document goes through unread
    /// ([`crate::canonical::Request::native`]), and so does the answer to it. `None`: everything is translated.
    fn dialect(&self) -> Option<Dialect> {
        None
    }

    /// Whether requests for embeddings can be put to this provider.
    fn embeds(&self) -> bool {
        false
    }

    /// The request on this provider's wire. Names what it cannot carry.
    fn to_upstream(&self, request: &Request, context: &CallContext<'_>) -> Result<UpstreamRequest, Unsupported>;

    /// A complete 2xx answer, read and rendered for the client. An answer that is no valid answer is a failure that
    /// ended without a result.
    fn from_upstream(&self, request: &Request, head: &Head, body: &Bytes) -> Result<Answer, Failure>;

    /// What a complete answer other than 2xx proves.
    fn from_failure(&self, head: &Head, body: &[u8]) -> Failure;

    /// Whether the answer to this request comes as a stream: where the client asked for one, and where the provider is
    /// always asked for one.
    fn streams(&self, request: &Request) -> bool {
        request.stream
    }

    /// A decoder for the streamed answer to a request ([`Adapter::streams`]), whose head this is. `None`: this adapter
    /// does not stream. `Err`: the head says already that no answer can follow.
    fn stream_decoder(&self, request: &Request, head: &Head) -> Option<Result<Box<dyn StreamDecoder>, Failure>> {
        let _ = (request, head);
        None
    }

    /// The provider's own token count of this request, where it has an endpoint for it.
    fn to_count(&self, request: &Request, context: &CallContext<'_>) -> Option<Result<UpstreamRequest, Unsupported>> {
        let _ = (request, context);
        None
    }

    /// Reads the answer to [`Adapter::to_count`]: tokens of the whole prompt.
    fn from_count(&self, body: &[u8]) -> Option<u64> {
        let _ = body;
        None
    }

    /// The prompt of this request as the provider's own chat template writes it, where it has an endpoint for it.
    fn to_template(
        &self,
        request: &Request,
        context: &CallContext<'_>,
    ) -> Option<Result<UpstreamRequest, Unsupported>> {
        let _ = (request, context);
        None
    }

    /// Reads the answer to [`Adapter::to_template`].
    fn from_template(&self, body: &[u8]) -> Option<Rendered> {
        let _ = body;
        None
    }

    /// The tokens of a text, read as plain text, where the provider has an endpoint for it.
    fn to_tokenize(&self, text: &str, context: &CallContext<'_>) -> Option<Result<UpstreamRequest, Unsupported>> {
        let _ = (text, context);
        None
    }

    /// Reads the answer to [`Adapter::to_tokenize`].
    fn from_tokenize(&self, body: &[u8]) -> Option<Vec<u64>> {
        let _ = body;
        None
    }

    /// The text of these tokens, where the provider has an endpoint for it.
    fn to_detokenize(&self, tokens: &[u64], context: &CallContext<'_>) -> Option<Result<UpstreamRequest, Unsupported>> {
        let _ = (tokens, context);
        None
    }

    /// Reads the answer to [`Adapter::to_detokenize`].
    fn from_detokenize(&self, body: &[u8]) -> Option<String> {
        let _ = body;
        None
    }

    /// How this provider is asked about lost answers; `None`: it cannot be, or the settings do not say so.
    fn lookup_way(&self) -> Option<Way> {
        None
    }

    /// The first question about this request's attempt; `None`: this request cannot be asked about. `reference` is what
    /// [`StreamDecoder::reference`] said of it, where it came to that.
    fn lookup(&self, request: &Request, context: &CallContext<'_>, reference: Option<&str>) -> Option<LookupRequest> {
        let _ = (request, context, reference);
        None
    }

    /// What the complete answer to a question of [`Adapter::lookup`], or to one that followed it, says.
    fn from_lookup(
        &self,
        request: &Request,
        context: &CallContext<'_>,
        asked: &LookupRequest,
        head: &Head,
        body: &[u8],
    ) -> LookupAnswer {
        let _ = (request, context, asked, head, body);
        LookupAnswer::unreadable("this provider is not asked")
    }

    /// How the provider is told to stop working on this attempt; `None`: it cannot be told. `reference` as in
    /// [`Adapter::lookup`].
    fn cancel(&self, context: &CallContext<'_>, reference: Option<&str>) -> Option<LookupRequest> {
        let _ = (context, reference);
        None
    }
}

/// One thing that a stream says, as it is stored and shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamPiece {
    /// The JSON of one OpenAI `chat.completion.chunk` (or of one event of the client's own dialect, where the provider
    /// speaks it), on one line, without `data: `. `content`: it carries something meaningful (text, refusal, tool call,
    /// reasoning), not only a role, a finish reason or usage.
    Chunk { data: Bytes, content: bool },
    /// The chunk with usage and empty `choices`, at most once and last; forwarded only to clients that asked for it
    /// (`stream_options.include_usage`).
    Usage { data: Bytes },
}

/// Reads one streamed answer: bytes in, pieces for the client out, and at its end the whole answer.
pub trait StreamDecoder: Send + std::fmt::Debug {
    /// What these bytes of the answer's body say, however they were cut. An error ends the stream, and stays: what came
    /// before it in the same bytes is not given out.
    fn feed(&mut self, bytes: &[u8]) -> Result<Vec<StreamPiece>, Failure>;

    /// Whether the protocol's own terminal event was seen, and nothing more needs to be waited for.
    fn is_complete(&self) -> bool;

    /// Whether the answer is whole as it stands, although usage or a closing word may still follow: a body that ends
    /// here is a success if the answer is valid, and a provider that falls silent here needs no long wait. Bytes that
    /// still come are to be read: some servers repeat their finish reason with every fragment.
    fn has_ended(&self) -> bool {
        self.is_complete()
    }

    /// The provider's own id of its work on this request, by which it can be asked about it later ([`Adapter::lookup`]);
    /// `None`: it has said none yet, or cannot be asked by one. It is to be written down before anything else is done
    /// with what the stream says.
    fn reference(&self) -> Option<&str> {
        None
    }

    /// What was held back, to be called once when the body has ended or is no longer waited for, before
    /// [`StreamDecoder::finish`]. A finish reason is held back until the stream ends properly: where a provider leaves
    /// the closing word out, it comes here. Empty where `finish` will fail.
    fn drain(&mut self) -> Vec<StreamPiece> {
        Vec::new()
    }

    /// The body has ended: the whole answer, assembled, if the terminal event was seen; else what that proves
    /// ([`crate::failure::Proof::Unknown`], `stream_cut`).
    fn finish(self: Box<Self>) -> Result<Answer, Failure>;
}

/// A secret that cannot be printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub fn new(value: String) -> Self {
        Secret(value)
    }

    /// The text itself, for the one place that sends it.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// `text` with every occurrence of this secret masked: providers echo keys in their errors.
    pub fn mask(&self, text: &str) -> String {
        if self.0.len() < 4 { text.to_owned() } else { text.replace(&self.0, "[secret]") }
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(…)")
    }
}
