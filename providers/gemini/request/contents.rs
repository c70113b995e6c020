//! The conversation as Google wants it: `systemInstruction` apart, then user and model in turns, each a list of parts.
//!
//! A system message that comes later keeps its place: it becomes a text `<system>…</system>` in the user turn there,
//! since moving it to the top would change what it governs (field case B005). Results of calls are parts of the user's
//! turn, in the order of the calls. A thought's signature goes back with the part that it came with.

use super::WHO;
use crate::adapter::Unsupported;
use crate::canonical::{Message, Part, Request, ToolCall};
use crate::json::{Json, Object};
use crate::leftover::{
    add_turn, arguments, called_name, inline_data, object, only_text, refuse_detail, results_in_order, unknown_part,
};

pub(super) struct Conversation {
    pub system: Vec<Json>,
    pub contents: Vec<Json>,
}

pub(super) fn write(request: &Request, model: &str) -> Result<Conversation, Unsupported> {
    let leading = request.messages.iter().take_while(|message| matches!(message, Message::System { .. })).count();
    let mut system = Vec::new();
    let mut turns: Vec<(&str, Vec<Json>)> = Vec::new();
    let mut i = 0;
    while i < request.messages.len() {
        let message = &request.messages[i];
        let mut next = i + 1;
        let (role, parts) = match message {
            Message::System { parts, .. } if i < leading => {
                let texts = texts(i, parts, "system")?;
                system.extend(texts.into_iter().map(text));
                ("user", Vec::new())
            }
            Message::System { parts, .. } => {
                let later = texts(i, parts, "system")?.into_iter();
                ("user", later.map(|content| text(format!("<system>\n{content}\n</system>"))).collect())
            }
            Message::User { parts, .. } => ("user", user(i, parts)?),
            Message::Assistant { parts, refusal, tool_calls } => {
                let said = Said { parts, refusal: refusal.as_deref(), calls: tool_calls };
                ("model", said.write(request, i, model)?)
            }
            Message::Tool { .. } => {
                let results = results_in_order(&request.messages, i);
                next = i + results.len();
                ("user", results.into_iter().map(|i| result(request, i)).collect::<Result<_, _>>()?)
            }
        };
        i = next;
        add_turn(&mut turns, role, parts);
    }
    if turns.is_empty() {
        return Err(Unsupported::new("messages", "Gemini needs at least one message beside the system prompt"));
    }
    let turn = |(role, parts): (&str, Vec<Json>)| object([("role", Json::from(role)), ("parts", Json::Array(parts))]);
    Ok(Conversation { system, contents: turns.into_iter().map(turn).collect() })
}

fn text(content: impl AsRef<str>) -> Json {
    object([("text", Json::from(content.as_ref()))])
}

fn texts<'a>(i: usize, parts: &'a [Part], role: &str) -> Result<Vec<&'a str>, Unsupported> {
    only_text(i, parts, WHO, role)?;
    Ok(parts.iter().filter_map(|part| if let Part::Text(text) = part { Some(text.as_str()) } else { None }).collect())
}

fn user(i: usize, parts: &[Part]) -> Result<Vec<Json>, Unsupported> {
    // Nothing said is said as it is: a turn left out would change who speaks.
    if parts.is_empty() {
        return Ok(vec![text("")]);
    }
    parts.iter().enumerate().map(|(j, part)| user_part(&format!("messages[{i}].content[{j}]"), part)).collect()
}

fn user_part(at: &str, part: &Part) -> Result<Json, Unsupported> {
    match part {
        Part::Text(content) => Ok(text(content)),
        Part::Other(kind) => Err(unknown_part(at, kind, WHO)),
        Part::Image { url, detail } => {
            refuse_detail(at, detail.as_deref(), WHO)?;
            image(at, url)
        }
    }
}

fn image(at: &str, url: &str) -> Result<Json, Unsupported> {
    if let Some((kind, data)) = inline_data(url) {
        return Ok(object([("inlineData", object([("mimeType", kind.into()), ("data", data.into())]))]));
    }
    if !url.starts_with("https://") && !url.starts_with("gs://") {
        let why = "must be an https: or gs: address, or a data: address in base64";
        return Err(Unsupported::new(format!("{at}.image_url.url"), why));
    }
    let path = url.split(['?', '#']).next().unwrap_or_default().to_ascii_lowercase();
    let kinds = [
        (".jpg", "image/jpeg"),
        (".jpeg", "image/jpeg"),
        (".png", "image/png"),
        (".webp", "image/webp"),
        (".gif", "image/gif"),
        (".heic", "image/heic"),
        (".heif", "image/heif"),
    ];
    let Some((_, kind)) = kinds.iter().find(|(end, _)| path.ends_with(end)) else {
        let why = "Gemini must be told the kind of image, and this address does not end with one (.png, .jpg, .webp, \
                   .gif, .heic, .heif): send it as a data: address";
        return Err(Unsupported::new(format!("{at}.image_url.url"), why));
    };
    Ok(object([("fileData", object([("mimeType", (*kind).into()), ("fileUri", url.into())]))]))
}

/// What the assistant has said, as it stands in the conversation.
struct Said<'a> {
    parts: &'a [Part],
    refusal: Option<&'a str>,
    calls: &'a [ToolCall],
}

impl Said<'_> {
    fn write(&self, request: &Request, i: usize, model: &str) -> Result<Vec<Json>, Unsupported> {
        let own = request.body.get("messages").and_then(Json::as_array).and_then(|messages| messages.get(i));
        let spoken = texts(i, self.parts, "assistant")?.into_iter().chain(self.refusal);
        let mut written: Vec<Json> = spoken.filter(|content| !content.is_empty()).map(text).collect();
        if let Some(signature) = own.and_then(signature) {
            let last = written.pop().unwrap_or_else(|| text(""));
            written.push(signed(last, signature));
        }
        let own_calls = own.and_then(|message| message.get("tool_calls")).and_then(Json::as_array).unwrap_or_default();
        for (j, call) in self.calls.iter().enumerate() {
            let args = Json::Object(arguments(i, j, call, WHO)?);
            let call = object([("id", call.id.as_str().into()), ("name", call.name.as_str().into()), ("args", args)]);
            let part = object([("functionCall", call)]);
            written.push(match own_calls.get(j).and_then(signature) {
                Some(signature) => signed(part, signature),
                None if j == 0 && model.contains("gemini-3") => signed(part, &Json::from(NOT_OURS)),
                None => part,
            });
        }
        Ok(written)
    }
}

/// Gemini 3 refuses the first call of a turn without a signature. For calls that another model made, Google names this
/// word ("skip_thought_signature_validator" in base64; ai.google.dev/gemini-api/docs/thought-signatures; a recorded
/// request with it was answered, 2026-07).
const NOT_OURS: &str = "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I=";

/// Where Google's own chat dialect keeps it: `extra_content.google.thought_signature`.
fn signature(value: &Json) -> Option<&Json> {
    value.get("extra_content")?.get("google")?.get_some("thought_signature")
}

fn signed(part: Json, signature: &Json) -> Json {
    let mut part = part.into_object().unwrap_or_default();
    part.insert("thoughtSignature", signature.clone());
    Json::Object(part)
}

/// A result is an object there: one that is an object already goes as it is, any other text as `output`.
fn result(request: &Request, i: usize) -> Result<Json, Unsupported> {
    let Message::Tool { tool_call_id: id, parts } = &request.messages[i] else { return Ok(Json::Null) };
    let content = only_text(i, parts, WHO, "tool")?;
    let response = match Json::parse(content.as_bytes()) {
        Ok(Json::Object(object)) => object,
        _ => Object::from_iter([("output", content)]),
    };
    let name = called_name(&request.messages, i, id);
    let result = object([("id", id.as_str().into()), ("name", name.into()), ("response", Json::Object(response))]);
    Ok(object([("functionResponse", result)]))
}
