//! What the decoders of all protocols share: what kind of body this is, events out of bytes, an error that stays, and
//! what the end of the body proves.
//!
//! A protocol adds a [`Protocol`]: it sees whole events and never bytes. A server that answers a stream request with
//! one JSON body (some cannot stream, and errors come so) is read as a whole answer and cut into chunks afterwards.

#[cfg(test)]
pub(crate) mod sampling;
mod whole;

use http::header::CONTENT_TYPE;

use crate::adapter::{Head, StreamDecoder, StreamPiece};
use crate::canonical::Answer;
use crate::error_shapes::error_within_success;
use crate::eventstream::FrameReader;
use crate::failure::{Failure, Proof};
use crate::json::Json;
use crate::ndjson::DocumentReader;
use crate::refusal::{self, ErrorBody};
use crate::sse::{Event, EventReader};

pub(crate) use whole::ReadWhole;
use whole::WholeBody;

/// One protocol's events, read in their order.
pub(crate) trait Protocol: Send + std::fmt::Debug {
    /// What the event says.
    fn event(&mut self, event: Event, out: &mut Vec<StreamPiece>) -> Result<(), Failure>;

    /// Whether nothing more needs to be waited for.
    fn is_complete(&self) -> bool;

    /// Whether the answer is whole, although more may follow.
    fn has_ended(&self) -> bool;

    /// What an error of the stream, or in it, proves of the work.
    fn judge(&self, failure: Failure) -> Failure {
        failure
    }

    /// The provider's own id of the work, where it can be asked about it by one.
    fn reference(&self) -> Option<&str> {
        None
    }

    /// The body has ended, or the protocol's last word was said: the pieces that were held back and the whole answer.
    /// Asked only where the answer is whole; a second time it gives the same answer and no pieces.
    fn settle(&mut self, out: &mut Vec<StreamPiece>) -> Result<Answer, Failure>;
}

/// How a protocol parts its events.
#[derive(Debug)]
enum Reader {
    Sse(EventReader),
    /// One JSON document after another: each is an event without a name.
    Documents(DocumentReader),
    /// Amazon's binary frames.
    Frames(FrameReader),
}

impl Reader {
    fn feed(&mut self, bytes: &[u8]) -> Result<Vec<Event>, String> {
        let event = |data| Event { name: None, data, id: None };
        match self {
            Reader::Sse(reader) => reader.feed(bytes).map_err(|error| error.to_string()),
            Reader::Documents(reader) => {
                let read = reader.feed(bytes).map_err(|error| error.to_string());
                read.map(|documents| documents.into_iter().map(event).collect())
            }
            Reader::Frames(reader) => reader.feed(bytes),
        }
    }

    fn pending(&self) -> bool {
        match self {
            Reader::Sse(reader) => reader.pending(),
            Reader::Documents(reader) => reader.pending(),
            Reader::Frames(reader) => reader.pending(),
        }
    }
}

/// A body as it turns out to be by its first byte.
#[derive(Debug)]
enum Body {
    /// Nothing but white space yet, which is nothing to an event stream either.
    Unseen,
    Events,
    Whole(WholeBody),
}

/// The decoder of every protocol.
#[derive(Debug)]
pub(crate) struct Decoder<P> {
    status: http::StatusCode,
    body: Body,
    reader: Reader,
    protocol: P,
    read_whole: Option<ReadWhole>,
    failed: Option<Failure>,
}

/// The decoder for a body under this head. `read_whole` reads a plain JSON body as this adapter does.
pub(crate) fn decoder<P: Protocol + 'static>(
    head: &Head,
    protocol: P,
    read_whole: ReadWhole,
) -> Result<Box<dyn StreamDecoder>, Failure> {
    open(head, protocol, Reader::Sse(EventReader::default()), Some(read_whole))
}

/// The decoder for a body of one JSON document after another. A whole answer is one document of that kind.
pub(crate) fn document_decoder<P: Protocol + 'static>(
    head: &Head,
    protocol: P,
) -> Result<Box<dyn StreamDecoder>, Failure> {
    open(head, protocol, Reader::Documents(DocumentReader::default()), None)
}

/// The decoder for a body of Amazon's frames. No frame begins with a brace: it would be 2 GB long.
pub(crate) fn frame_decoder<P: Protocol + 'static>(
    head: &Head,
    protocol: P,
    read_whole: ReadWhole,
) -> Result<Box<dyn StreamDecoder>, Failure> {
    open(head, protocol, Reader::Frames(FrameReader::default()), Some(read_whole))
}

fn open<P: Protocol + 'static>(
    head: &Head,
    protocol: P,
    reader: Reader,
    read_whole: Option<ReadWhole>,
) -> Result<Box<dyn StreamDecoder>, Failure> {
    // The body decides what it is: event streams come as text/plain, and errors as text/event-stream. Only a page is
    // never an answer.
    let kind = head.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if kind.trim_start().to_ascii_lowercase().starts_with("text/html") {
        return Err(refusal::invalid_answer(head.status, "the answer is a web page, not an event stream"));
    }
    Ok(Box::new(Decoder { status: head.status, body: Body::Unseen, reader, protocol, read_whole, failed: None }))
}

/// A streamed answer that was collected first.
pub(crate) fn read_collected(mut decoder: Box<dyn StreamDecoder>, body: &[u8]) -> Result<Answer, Failure> {
    decoder.feed(body)?;
    decoder.finish()
}

/// An event that cannot be read: some of the answer may be lost with it.
pub(crate) fn garbled(status: http::StatusCode, why: impl AsRef<str>) -> Failure {
    let failure = Failure::new(Proof::EndedWithoutResult, "garbled_stream", why);
    Failure { status: Some(status.as_u16()), ..failure }
}

/// The stream ended, and the answer had not.
pub(crate) fn cut(status: http::StatusCode, why: impl AsRef<str>) -> Failure {
    Failure { status: Some(status.as_u16()), ..Failure::new(Proof::Unknown, "stream_cut", why) }
}

/// Whether an event of a kind that came after this was written brings a piece of the answer, rather than a sign of life
/// or a note about the stream.
pub(crate) fn brings_content(event: &Json) -> bool {
    ["delta", "content", "content_block", "message"].iter().any(|name| match event.get(name) {
        Some(Json::Object(members)) => !members.is_empty(),
        Some(Json::Array(items)) => !items.is_empty(),
        Some(Json::String(text)) => !text.is_empty(),
        _ => false,
    })
}

/// An `event: error` says so whatever its data is.
pub(crate) fn error_event(json: Option<&Json>, data: &str) -> ErrorBody {
    match json {
        Some(json) => error_within_success(json.get_some("error").unwrap_or(json)),
        None => ErrorBody { message: data.to_owned(), ..ErrorBody::default() },
    }
}

impl<P: Protocol> Decoder<P> {
    fn read(&mut self, bytes: &[u8], out: &mut Vec<StreamPiece>) -> Result<(), Failure> {
        let bytes = self.open(bytes);
        if let Body::Whole(whole) = &mut self.body {
            return whole.feed(bytes, out);
        }
        if self.protocol.is_complete() {
            return Ok(());
        }
        let mut events = self.reader.feed(bytes);
        loop {
            let read = events.map_err(|error| garbled(self.status, error))?;
            let last = read.is_empty();
            for event in read {
                self.protocol.event(event, out)?;
                if self.protocol.is_complete() {
                    return Ok(());
                }
            }
            if last {
                return Ok(());
            }
            // An error behind these events comes now.
            events = self.reader.feed(&[]);
        }
    }

    /// Decides by the first byte that is no white space (nor of a byte order mark) what the body is, and gives back
    /// what of `bytes` belongs to it. No line of an event stream that means anything begins with a brace.
    fn open<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        if !matches!(self.body, Body::Unseen) {
            return bytes;
        }
        let blank = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, 0xef | 0xbb | 0xbf);
        let Some(first) = bytes.iter().position(|byte| !blank(byte)) else { return bytes };
        match self.read_whole.take() {
            Some(read) if matches!(bytes[first], b'{' | b'[') => {
                self.body = Body::Whole(WholeBody::new(read));
                &bytes[first..]
            }
            _ => {
                self.body = Body::Events;
                bytes
            }
        }
    }

    /// Why the answer cannot be whole, now that the body has ended.
    fn cut(&self) -> Failure {
        let why = match &self.body {
            Body::Unseen => "the stream ended before its first event",
            Body::Whole(_) => "the answer ended in the middle of its JSON",
            Body::Events if self.reader.pending() => "the stream ended in the middle of an event",
            Body::Events => "the stream ended without its terminal event",
        };
        cut(self.status, why)
    }

    fn settle(&mut self, out: &mut Vec<StreamPiece>) -> Result<Answer, Failure> {
        if let Some(failure) = &self.failed {
            return Err(failure.clone());
        }
        match &mut self.body {
            Body::Whole(whole) => whole.answer().ok_or_else(|| self.cut()),
            _ if self.protocol.has_ended() => self.protocol.settle(out),
            _ => Err(self.cut()),
        }
    }
}

impl<P: Protocol> StreamDecoder for Decoder<P> {
    fn feed(&mut self, bytes: &[u8]) -> Result<Vec<StreamPiece>, Failure> {
        if let Some(failure) = &self.failed {
            return Err(failure.clone());
        }
        let mut out = Vec::new();
        self.read(bytes, &mut out).map_err(|failure| {
            let failure = self.protocol.judge(failure);
            self.failed = Some(failure.clone());
            failure
        })?;
        Ok(out)
    }

    fn is_complete(&self) -> bool {
        match &self.body {
            Body::Whole(whole) => whole.is_complete(),
            _ => self.protocol.is_complete(),
        }
    }

    fn has_ended(&self) -> bool {
        self.failed.is_none() && (self.is_complete() || self.protocol.has_ended())
    }

    fn reference(&self) -> Option<&str> {
        self.protocol.reference()
    }

    fn drain(&mut self) -> Vec<StreamPiece> {
        let mut out = Vec::new();
        match self.settle(&mut out) {
            Ok(_) => out,
            Err(_) => Vec::new(),
        }
    }

    fn finish(mut self: Box<Self>) -> Result<Answer, Failure> {
        self.settle(&mut Vec::new())
    }
}
