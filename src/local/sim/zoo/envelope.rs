//! The answer's own envelope: bytes, encodings and members that are not what the protocol says.

use serde_json::{Value, json};

use super::rewrite::messages;
use super::{Act, BOTH, Expect, Misbehaviour, OPENAI, ROUND_TRIP, Raw};
use contracts::Kind;

const fn row(name: &'static str, does: &'static str, source: &'static str, acts: &'static [Act]) -> Misbehaviour {
    Misbehaviour::new(name, does, source, ROUND_TRIP, BOTH, acts)
}

pub(super) const ROWS: &[Misbehaviour] = &[
    Misbehaviour::new(
        "gzip",
        "compresses answers, as Accept-Encoding lets it",
        "B159",
        Expect::Harmless,
        BOTH,
        &[Act::Bytes(gzip)],
    ),
    row(
        "says-gzip-and-is-not",
        "labels plain answers as compressed",
        "B159",
        &[Act::Bytes(|raw| {
            raw.encoding = Some("gzip");
        })],
    ),
    row(
        "html-with-a-200",
        "answers 200 with a page of HTML",
        "captive portals and status pages",
        &[Act::Bytes(|raw| {
            *raw = Raw::new(200, "text/html", "<html><body>Back soon</body></html>");
        })],
    ),
    row(
        "body-cut",
        "closes the connection within the answer",
        "B021",
        &[Act::Bytes(|raw| {
            raw.body.truncate(raw.body.len() / 2);
            raw.cut = true;
        })],
    ),
    row(
        "body-cut-cleanly",
        "ends the answer in the middle, as if it were whole",
        "B021",
        &[Act::Bytes(|raw| {
            raw.body.truncate(raw.body.len() / 2);
        })],
    ),
    row(
        "body-twice",
        "sends the answer twice in one body",
        "proxies that retry",
        &[Act::Bytes(|raw| {
            raw.body.extend_from_within(..);
        })],
    ),
    row("empty-body", "answers 200 with nothing", "load balancers in between", &[Act::Bytes(|raw| raw.body.clear())]),
    row(
        "body-not-utf-8",
        "sends bytes that are no UTF-8",
        "B010",
        &[Act::Bytes(|raw| {
            let at = raw.body.len() / 2;
            raw.body.insert(at, 0xff);
        })],
    ),
    row(
        "duplicate-envelope-members",
        "sends members of the envelope twice",
        "B151",
        &[Act::Bytes(|raw| {
            raw.body.splice(..1, *b"{\"id\":\"x\",\"id\":\"y\",");
        })],
    ),
    row(
        "answers-as-another-model",
        "answers with another model than the one asked for, and says so",
        "model aliases",
        &[Act::Answer(|answer, _| answer["model"] = json!("mini-model-lite"))],
    ),
    row(
        "no-choices",
        "answers with an empty list of choices or blocks",
        "B018",
        &[Act::Answer(|answer, _| {
            let name = if answer.get("choices").is_some() { "choices" } else { "content" };
            answer[name] = json!([]);
        })],
    ),
    Misbehaviour::new(
        "content-as-a-list",
        "sends the text as a list of parts",
        "Mistral's thinking models",
        Expect::Harmless,
        OPENAI,
        &[Act::Answer(|answer, _| {
            for message in messages(answer) {
                if let Some(text) = message["content"].as_str().map(str::to_owned) {
                    message["content"] = json!([{"type": "text", "text": text}]);
                }
            }
        })],
    ),
    Misbehaviour::new(
        "content-without-text",
        "sends a list of parts without text",
        "Mistral's thinking models",
        Expect::Caught(Kind::Schema),
        OPENAI,
        &[Act::Answer(|answer, _| {
            for message in messages(answer).filter(|message| message["content"].is_string()) {
                message["content"] = json!([{"type": "image_url", "image_url": {"url": "data:,"}}]);
            }
        })],
    ),
    Misbehaviour::new(
        "message-as-delta",
        "sends a delta where a message belongs",
        "stream assemblers",
        ROUND_TRIP,
        OPENAI,
        &[Act::Answer(|answer, _| {
            for choice in answer.get_mut("choices").and_then(Value::as_array_mut).into_iter().flatten() {
                if let Some(choice) = choice.as_object_mut()
                    && let Some(message) = choice.remove("message")
                {
                    choice.insert("delta".to_owned(), message);
                }
            }
        })],
    ),
];

/// The smallest gzip there is: one stored block.
fn gzip(raw: &mut Raw) {
    let Ok(length) = u16::try_from(raw.body.len()) else { return };
    let mut out = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff, 1];
    out.extend(length.to_le_bytes());
    out.extend((!length).to_le_bytes());
    out.extend(&raw.body);
    out.extend(crc32fast::hash(&raw.body).to_le_bytes());
    out.extend(u32::from(length).to_le_bytes());
    raw.body = out;
    raw.encoding = Some("gzip");
}
