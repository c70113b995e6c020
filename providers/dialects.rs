//! The dialects that clients speak: each a pure translation of its request into the canonical form, and of the stored
//! answer into its own words.
//!
//! What is stored of an answer is chat completions, as every adapter renders it, or, where the provider speaks the
//! client's own dialect, that provider's bytes as they came: then nothing can be lost in translation. A stored document
//! shows by itself which of the two it is. From it, the job's id and the request's body everything is rendered the same
//! way each time, ids included, so that a replay gives the same bytes.
//!
//! A request in another dialect than chat completions keeps its own document ([`Native`]). A provider of the same wire
//! format gets it with `model` and delivery changed and nothing else; to any other it goes translated, and what has no
//! meaning there is refused by its name ([`to_upstream`]), never dropped.

#[cfg(test)]
pub(crate) mod assembled;
pub(crate) mod carried;
mod chat;
pub(crate) mod cited;
pub mod embeddings;
mod frames;
pub mod messages;
mod reading;
pub mod responses;
mod said;
#[cfg(test)]
mod totality;

use std::sync::Arc;

use bytes::Bytes;

use crate::adapter::{Adapter, CallContext, Unsupported, UpstreamRequest};
use crate::canonical::Request;
use crate::json::Object;
use crate::openai::request::InvalidRequest;

/// What a client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// OpenAI chat completions.
    Chat,
    /// Anthropic messages.
    Messages,
    /// OpenAI responses.
    Responses,
    /// OpenAI embeddings.
    Embeddings,
}

/// A request's own document, where it is of another dialect than chat completions.
#[derive(Debug, Clone)]
pub struct Native {
    pub dialect: Dialect,
    /// As the client sent it.
    pub body: Arc<Object>,
    /// What of it the canonical form does not hold: only a provider of the same wire format can take it.
    pub lost: Vec<Unsupported>,
    /// Where each canonical message comes from, as a path in the client's document.
    pub origins: Vec<String>,
}

/// For whom a stored answer is rendered.
#[derive(Debug, Clone)]
pub struct Rendering {
    /// What the ids of the dialect are made of: the job's own, as 32 hexadecimal digits.
    pub stem: String,
    /// The request's body as it is stored.
    pub request: Arc<Object>,
    /// Whether the client wants usage at the end of a stream, where the dialect leaves it the choice.
    pub include_usage: bool,
    /// The number of the last event that the client has; only what follows it is told. None: all of a stream.
    pub after: Option<u64>,
}

/// A stream in the client's dialect: a small machine that turns stored chunks into its events, ready for the wire.
pub trait EventWriter: Send + std::fmt::Debug {
    /// What this chunk tells the client; it may be nothing yet.
    fn chunk(&mut self, stored: &[u8]) -> Bytes;

    /// The answer is whole and committed: what is left to tell, the usage where it is known, and the end.
    fn end(&mut self, usage: Option<&[u8]>) -> Bytes;

    /// The stream ends without its answer. `error` is the JSON of an error in the dialect's own shape, on one line.
    fn error(&mut self, error: &str) -> Bytes;

    /// The work is over for good and has no answer. Where the dialect shows that as it shows an answer, it is told so;
    /// elsewhere it is the error.
    fn over(&mut self, _over: &Over<'_>, error: &str) -> Bytes {
        self.error(error)
    }
}

/// How work was over without an answer.
#[derive(Debug, Clone, Copy)]
pub struct Over<'a> {
    /// `failed` or `cancelled`.
    pub status: &'a str,
    /// Seconds since 1970, of the job.
    pub created: u64,
    /// Code and words, in the dialect's own terms.
    pub error: Option<(&'a str, &'a str)>,
}

impl Dialect {
    pub const ALL: [Dialect; 4] = [Dialect::Chat, Dialect::Messages, Dialect::Responses, Dialect::Embeddings];

    /// The operation's path, as jobs keep it.
    pub fn url(self) -> &'static str {
        match self {
            Dialect::Chat => "/v1/chat/completions",
            Dialect::Messages => "/v1/messages",
            Dialect::Responses => "/v1/responses",
            Dialect::Embeddings => "/v1/embeddings",
        }
    }

    pub fn of_url(url: &str) -> Option<Dialect> {
        Dialect::ALL.into_iter().find(|dialect| dialect.url() == url)
    }

    /// Reads a request of this dialect.
    pub fn parse(self, body: Object) -> Result<Request, InvalidRequest> {
        match self {
            Dialect::Chat => crate::openai::request::parse(body),
            Dialect::Messages => messages::request::parse(body),
            Dialect::Responses => responses::request::parse(body),
            Dialect::Embeddings => embeddings::parse(body),
        }
    }

    /// The whole answer. `None`: what is stored is no answer of a kind that stands here.
    pub fn whole(self, rendering: &Rendering, stored: &Bytes) -> Option<Bytes> {
        match self {
            Dialect::Chat | Dialect::Embeddings => Some(stored.clone()),
            Dialect::Messages => messages::reply::whole(rendering, stored),
            Dialect::Responses => responses::reply::whole(rendering, stored),
        }
    }

    /// A whole stored answer as a finished stream.
    pub fn whole_as_stream(self, rendering: &Rendering, stored: &Bytes) -> Option<Bytes> {
        match self {
            Dialect::Chat => chat::whole_as_stream(rendering, stored),
            Dialect::Messages => messages::stream::of_whole(rendering, stored),
            Dialect::Responses => responses::stream::of_whole(rendering, stored),
            // Embeddings come whole: no request for a stream of them is taken.
            Dialect::Embeddings => None,
        }
    }

    /// For the chunks of a stream, stored or as they come.
    pub fn writer(self, rendering: &Rendering) -> Box<dyn EventWriter> {
        match self {
            Dialect::Chat | Dialect::Embeddings => Box::new(chat::Writer::new(rendering)),
            Dialect::Responses => Box::new(responses::stream::Writer::new(rendering)),
            Dialect::Messages => Box::new(messages::stream::Writer::new(rendering)),
        }
    }
}

impl Native {
    /// A path in the canonical document, in the words of the client's.
    pub fn own_name(&self, param: &str) -> String {
        let Some(rest) = param.strip_prefix("messages[") else { return self.own_member(param) };
        let place =
            rest.split_once(']').and_then(|(i, rest)| Some((self.origins.get(i.parse::<usize>().ok()?)?, rest)));
        place.map_or_else(|| param.to_owned(), |(origin, rest)| format!("{origin}{rest}"))
    }

    fn own_member(&self, param: &str) -> String {
        match self.dialect {
            Dialect::Messages => messages::request::own_member(&self.body, param),
            Dialect::Responses => responses::request::own_member(param),
            Dialect::Chat | Dialect::Embeddings => param.to_owned(),
        }
    }
}

/// The request on this provider's wire: its own document where the provider speaks the client's dialect, else the
/// translation of it, if all of it could be translated.
pub fn to_upstream(
    adapter: &dyn Adapter,
    request: &Request,
    context: &CallContext<'_>,
) -> Result<UpstreamRequest, Unsupported> {
    let Some(native) = &request.native else { return adapter.to_upstream(request, context) };
    check(adapter, native)?;
    adapter.to_upstream(request, context).map_err(|unsupported| own_words(native, unsupported))
}

/// As [`to_upstream`], for [`Adapter::to_count`].
pub fn to_count(
    adapter: &dyn Adapter,
    request: &Request,
    context: &CallContext<'_>,
) -> Option<Result<UpstreamRequest, Unsupported>> {
    let counted = adapter.to_count(request, context)?;
    let Some(native) = &request.native else { return Some(counted) };
    let checked = check(adapter, native).and(counted);
    Some(checked.map_err(|unsupported| own_words(native, unsupported)))
}

fn check(adapter: &dyn Adapter, native: &Native) -> Result<(), Unsupported> {
    if native.dialect == Dialect::Embeddings && !adapter.embeds() {
        let why = "asks for embeddings, and this provider's protocol has none: name a route of a provider that does";
        return Err(Unsupported::new("model", why));
    }
    match native.lost.first() {
        Some(lost) if adapter.dialect() != Some(native.dialect) => Err(lost.clone()),
        Some(_) | None => Ok(()),
    }
}

fn own_words(native: &Native, unsupported: Unsupported) -> Unsupported {
    let param = native.own_name(&unsupported.param);
    Unsupported { param, ..unsupported }
}
