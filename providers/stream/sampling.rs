//! For tests: one sample stream, decoded in every way that bytes can come. All ways must say the same.

use http::{HeaderMap, HeaderValue, StatusCode};

use crate::adapter::{Adapter, Head, StreamPiece};
use crate::canonical::{Answer, Reply, Request};
use crate::compatible::adapter_named;
use crate::eventstream::tests::cut_into_frames;
use crate::failure::{Failure, Proof};
use crate::json::Json;
use crate::openai::request::parse;

/// What became of a stream.
#[derive(Debug, PartialEq)]
pub(crate) struct Outcome {
    pub pieces: Vec<StreamPiece>,
    pub answer: Result<(Reply, String), Failure>,
}

impl Outcome {
    pub fn answer(&self) -> (&Reply, Json) {
        let (reply, body) = self.answer.as_ref().unwrap_or_else(|failure| panic!("{failure:?}"));
        (reply, Json::parse(body.as_bytes()).unwrap())
    }

    pub fn failure(&self) -> &Failure {
        self.answer.as_ref().unwrap_err()
    }

    /// The payloads of chunks, as text, usage included.
    pub fn payloads(&self) -> Vec<&str> {
        payloads(&self.pieces)
    }

    /// The non-null finish reasons that the client sees, with their choice.
    pub fn finishes(&self) -> Vec<(u64, String)> {
        finishes(&self.pieces)
    }

    /// The stream that a client would get of it, as bytes.
    pub fn sent(&self) -> Vec<u8> {
        let mut out: String = self.payloads().iter().map(|data| format!("data: {data}\n\n")).collect();
        out.push_str("data: [DONE]\n\n");
        out.into_bytes()
    }
}

fn payloads(pieces: &[StreamPiece]) -> Vec<&str> {
    let data = pieces.iter().map(|piece| match piece {
        StreamPiece::Chunk { data, .. } | StreamPiece::Usage { data } => data,
    });
    data.map(|data| std::str::from_utf8(data).unwrap()).collect()
}

fn finishes(pieces: &[StreamPiece]) -> Vec<(u64, String)> {
    let choices = payloads(pieces).into_iter().flat_map(|text| {
        let chunk = Json::parse(text.as_bytes()).unwrap();
        chunk.get("choices").and_then(Json::as_array).unwrap().to_vec()
    });
    let finish = |choice: Json| {
        let word = choice.get_some("finish_reason")?.as_str()?.to_owned();
        Some((choice.get("index")?.as_u64()?, word))
    };
    choices.filter_map(finish).collect()
}

pub(crate) fn request(members: &str) -> Request {
    let text = format!(r#"{{"model":"m","messages":[{{"role":"user","content":"hi"}}],"stream":true{members}}}"#);
    parse(Json::parse(text.as_bytes()).unwrap().into_object().unwrap()).unwrap()
}

pub(crate) fn head(kind: &'static str) -> Head {
    let mut headers = HeaderMap::new();
    headers.insert("content-type", HeaderValue::from_static(kind));
    headers.insert("date", HeaderValue::from_static("Mon, 30 Nov 2026 20:00:00 GMT"));
    Head { status: StatusCode::OK, headers }
}

/// Feeds the pieces of the body until an error.
pub(crate) fn decode<'a>(
    adapter: &dyn Adapter,
    request: &Request,
    head: &Head,
    body: impl Iterator<Item = &'a [u8]>,
) -> Outcome {
    let mut decoder = match adapter.stream_decoder(request, head).unwrap() {
        Ok(decoder) => decoder,
        Err(failure) => return Outcome { pieces: Vec::new(), answer: Err(failure) },
    };
    let mut pieces = Vec::new();
    for bytes in body {
        match decoder.feed(bytes) {
            Ok(more) => pieces.extend(more),
            Err(failure) => {
                assert_eq!(decoder.feed(b"data: {}\n\n"), Err(failure.clone()), "an error stays");
                assert_eq!(decoder.drain(), []);
                assert!(!decoder.is_complete() && !decoder.has_ended());
                // What came before it depends on where the bytes were cut; a finish reason never does.
                assert_eq!(finishes(&pieces), []);
                pieces.clear();
                break;
            }
        }
    }
    let ended = decoder.has_ended();
    assert!(ended || !decoder.is_complete());
    pieces.extend(decoder.drain());
    assert_eq!(decoder.drain(), [], "what was held back comes once");
    let answer = decoder.finish().map(|Answer { reply, body }| (reply, String::from_utf8(body.to_vec()).unwrap()));
    assert!(ended || answer.is_err(), "an answer of a stream that had not ended");
    Outcome { pieces, answer }
}

/// Decodes the sample as one piece, whatever its chunks are.
pub(crate) fn decode_once(name: &str, request: &Request, head: &Head, body: &[u8]) -> Outcome {
    let mut decoder = adapter_named(name).unwrap().stream_decoder(request, head).unwrap().unwrap();
    let mut pieces = match decoder.feed(body) {
        Ok(pieces) => pieces,
        Err(failure) => return Outcome { pieces: Vec::new(), answer: Err(failure) },
    };
    pieces.extend(decoder.drain());
    let answer = decoder.finish().map(|Answer { reply, body }| (reply, String::from_utf8(body.to_vec()).unwrap()));
    Outcome { pieces, answer }
}

/// Decodes the sample whole, byte by byte, cut in two at every place, and with other line ends.
pub(crate) fn decode_every_way(name: &str, request: &Request, head: &Head, body: &[u8]) -> Outcome {
    let adapter = adapter_named(name).unwrap();
    let decode = |pieces: &mut dyn Iterator<Item = &[u8]>| decode(adapter.as_ref(), request, head, pieces);
    let whole = decode(&mut std::iter::once(body));
    assert_eq!(decode(&mut body.chunks(1)), whole, "byte by byte");
    // Every place of a sample; of a long recording that would take too long.
    for cut in (0..body.len()).step_by(1 + body.len() / 1_000 * 7) {
        let (first, second) = body.split_at(cut);
        assert_eq!(decode(&mut [first, second].into_iter()), whole, "cut at {cut}");
    }
    if !is_of_frames(body)
        && let Ok(text) = std::str::from_utf8(body)
        && !text.contains('\r')
        && !is_one_document(text)
    {
        for ends in ["\r\n", "\r"] {
            let other = text.replace('\n', ends);
            assert_eq!(decode(&mut std::iter::once(other.as_bytes())), whole, "{ends:?}");
            assert_eq!(decode(&mut other.as_bytes().chunks(1)), whole, "{ends:?} byte by byte");
        }
    }
    whole
}

fn is_one_document(text: &str) -> bool {
    text.starts_with('{') && !text.contains("}\n{")
}

/// Whether the body is Amazon's frames, which begin with their length.
fn is_of_frames(body: &[u8]) -> bool {
    body.first() == Some(&0)
}

/// The events of a stream whose lines end with LF, each with its empty line; or the documents, a line each.
pub(crate) fn frames(body: &str) -> Vec<&str> {
    let end = if body.starts_with('{') { "\n" } else { "\n\n" };
    body.split_inclusive(end).collect()
}

/// The same, or Amazon's frames.
fn pieces(body: &[u8]) -> Vec<&[u8]> {
    if is_of_frames(body) {
        return cut_into_frames(body);
    }
    frames(std::str::from_utf8(body).unwrap()).into_iter().map(str::as_bytes).collect()
}

/// Cuts the stream behind every event: what is no answer is unknown, and once it is an answer it stays the same one.
/// At how many places it was unknown.
pub(crate) fn assert_cuts_prove_nothing(name: &str, request: &Request, head: &Head, body: impl AsRef<[u8]>) -> usize {
    let body = body.as_ref();
    let adapter = adapter_named(name).unwrap();
    let whole = decode(adapter.as_ref(), request, head, std::iter::once(body));
    let expected = whole.answer().1.get("choices").cloned();
    let frames = pieces(body);
    let (mut unknown, mut ended) = (0, false);
    for kept in 0..frames.len() {
        let start = frames[..kept].concat();
        let outcome = decode(adapter.as_ref(), request, head, std::iter::once(&start[..]));
        match &outcome.answer {
            Err(failure) => {
                assert!(!ended, "an answer became none after {kept} events");
                assert_eq!((failure.proof, failure.reason), (Proof::Unknown, "stream_cut"), "after {kept} events");
                assert_eq!(outcome.finishes(), [], "no finish reason of a cut stream reaches the client");
                unknown += 1;
            }
            Ok(_) => {
                ended = true;
                assert_eq!(outcome.answer().1.get("choices").cloned(), expected, "after {kept} events");
            }
        }
    }
    unknown
}

/// The same meaning: members in any order.
pub(crate) fn canonical(json: &Json) -> String {
    let mut out = Vec::new();
    json.canonical(&mut out);
    String::from_utf8(out).unwrap()
}

/// What the client was sent, read again as a stream, is the answer that was assembled.
pub(crate) fn assert_the_client_saw_the_answer(outcome: &Outcome) {
    let openai = adapter_named("openai").unwrap();
    let (_, body) = outcome.answer();
    let choices = body.get("choices").and_then(Json::as_array).unwrap().len();
    let asked = request(&format!(r#","n":{choices}"#));
    let sent = outcome.sent();
    let seen = decode(openai.as_ref(), &asked, &head("text/event-stream"), std::iter::once(&sent[..]));
    assert_eq!(canonical(&seen.answer().1), canonical(&body));
    let finishes = outcome.finishes().len();
    assert_eq!(finishes, choices, "one finish reason for every choice");
    let usages = outcome.pieces.iter().filter(|piece| matches!(piece, StreamPiece::Usage { .. })).count();
    assert_eq!(usages, usize::from(body.get_some("usage").is_some()), "usage once");
}

/// The stored answer as a stream again is the same answer.
pub(crate) fn assert_round_trip(answer: &Json) {
    let openai = adapter_named("openai").unwrap();
    let bytes = answer.to_bytes();
    let chunks = crate::openai::stream::rechunk(&bytes, true).unwrap();
    assert_eq!(Some(&chunks), crate::openai::stream::rechunk(&bytes, true).as_ref(), "always the same chunks");
    let stream: String =
        chunks.iter().map(|data| format!("data: {}\n\n", std::str::from_utf8(data).unwrap())).collect();
    let choices = answer.get("choices").and_then(Json::as_array).unwrap().len();
    let asked = request(&format!(r#","n":{choices}"#));
    let seen = decode(openai.as_ref(), &asked, &head("text/event-stream"), std::iter::once(stream.as_bytes()));
    assert_eq!(canonical(&seen.answer().1), canonical(&as_streamed(answer.clone())));
}

/// Where a stream cannot tell two answers apart. Mistral numbers the calls of a whole answer too: in a stream the number
/// is the fragment's, and goes with it. Groq leaves content out that is null elsewhere.
fn as_streamed(mut answer: Json) -> Json {
    fn member<'a>(json: &'a mut Json, name: &str) -> Option<&'a mut Json> {
        if let Json::Object(object) = json { object.get_mut(name) } else { None }
    }
    let Some(Json::Array(choices)) = member(&mut answer, "choices") else { return answer };
    for choice in choices {
        if let Some(Json::Object(message)) = member(choice, "message")
            && !message.contains_key("content")
        {
            message.insert("content", Json::Null);
        }
        let calls = member(choice, "message").and_then(|message| member(message, "tool_calls"));
        let Some(Json::Array(calls)) = calls else { continue };
        for call in calls {
            if let Json::Object(call) = call {
                call.remove("index");
            }
        }
    }
    answer
}
