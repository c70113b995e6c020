//! The conversation as Converse wants it: `system` apart, then user and assistant in turns, each a list of blocks.
//!
//! A system message that comes later keeps its place: it becomes a text `<system>…</system>` in the user turn there,
//! since few models take the role and moving it to the top would change what it governs (field case B005). Results of
//! calls are blocks of the user's turn, in the order of the calls. Signed reasoning goes back as it came (B033).

use super::WHO;
use crate::adapter::Unsupported;
use crate::call_id::fitting;
use crate::canonical::{Message, Part, Request};
use crate::json::{Json, Object};
use crate::leftover::{
    add_turn, arguments, inline_data, object, only_text, refuse_detail, results_in_order, unknown_part,
};

pub(super) struct Conversation {
    pub system: Vec<Json>,
    pub turns: Vec<Json>,
}

pub(super) fn write(request: &Request) -> Result<Conversation, Unsupported> {
    let leading = request.messages.iter().take_while(|message| matches!(message, Message::System { .. })).count();
    let mut system = Vec::new();
    let mut turns: Vec<(&str, Vec<Json>)> = Vec::new();
    let mut i = 0;
    while i < request.messages.len() {
        let mut next = i + 1;
        let (role, blocks) = match &request.messages[i] {
            Message::System { parts, .. } if i < leading => {
                system.extend(texts(i, parts, "system")?.into_iter().map(text));
                ("user", Vec::new())
            }
            Message::System { parts, .. } => {
                let later = texts(i, parts, "system")?.into_iter();
                ("user", later.map(|content| text(format!("<system>\n{content}\n</system>"))).collect())
            }
            Message::User { parts, .. } => ("user", user(i, parts)?),
            Message::Assistant { .. } => ("assistant", assistant(request, i)?),
            Message::Tool { .. } => {
                let results = results_in_order(&request.messages, i);
                next = i + results.len();
                ("user", results.into_iter().map(|i| result(request, i)).collect::<Result<_, _>>()?)
            }
        };
        i = next;
        add_turn(&mut turns, role, blocks);
    }
    if turns.is_empty() {
        return Err(Unsupported::new("messages", "Bedrock needs at least one message beside the system prompt"));
    }
    let turn = |(role, blocks): (&str, Vec<Json>)| object([("role", role.into()), ("content", Json::Array(blocks))]);
    Ok(Conversation { system, turns: turns.into_iter().map(turn).collect() })
}

fn text(content: impl AsRef<str>) -> Json {
    object([("text", Json::from(content.as_ref()))])
}

/// Blank texts are refused there, and carry nothing.
fn texts<'a>(i: usize, parts: &'a [Part], role: &str) -> Result<Vec<&'a str>, Unsupported> {
    only_text(i, parts, WHO, role)?;
    let texts = parts.iter().filter_map(|part| if let Part::Text(text) = part { Some(text.as_str()) } else { None });
    Ok(texts.filter(|text| !text.trim().is_empty()).collect())
}

fn user(i: usize, parts: &[Part]) -> Result<Vec<Json>, Unsupported> {
    let blank = |part: &Part| matches!(part, Part::Text(content) if content.trim().is_empty());
    if parts.iter().all(blank) {
        let why = "Bedrock takes no user message that is empty or only white space";
        return Err(Unsupported::new(format!("messages[{i}].content"), why));
    }
    let said = parts.iter().enumerate().filter(|(_, part)| !blank(part));
    said.map(|(j, part)| part_block(&format!("messages[{i}].content[{j}]"), part)).collect()
}

fn part_block(at: &str, part: &Part) -> Result<Json, Unsupported> {
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
    let refuse = |why| Err(Unsupported::new(format!("{at}.image_url.url"), why));
    let Some((kind, data)) = inline_data(url) else {
        return refuse("Bedrock fetches no addresses: send the image as a data: address in base64");
    };
    let Some(format @ ("png" | "jpeg" | "gif" | "webp")) = kind.strip_prefix("image/") else {
        return refuse("Bedrock takes JPEG, PNG, GIF and WebP images");
    };
    let source = object([("bytes", data.into())]);
    Ok(object([("image", object([("format", format.into()), ("source", source)]))]))
}

fn assistant(request: &Request, i: usize) -> Result<Vec<Json>, Unsupported> {
    let Message::Assistant { parts, refusal, tool_calls } = &request.messages[i] else { return Ok(Vec::new()) };
    let mut written = reasoning(request, i);
    let refusal = refusal.as_deref().filter(|refusal| !refusal.trim().is_empty());
    written.extend(texts(i, parts, "assistant")?.into_iter().chain(refusal).map(text));
    for (j, call) in tool_calls.iter().enumerate() {
        let input = Json::Object(arguments(i, j, call, WHO)?);
        let id = Json::from(tool_id(&call.id).as_ref());
        let call = object([("toolUseId", id), ("name", call.name.as_str().into()), ("input", input)]);
        written.push(object([("toolUse", call)]));
    }
    Ok(written)
}

/// The signed and the hidden reasoning of a turn, under the names that our answers give them. What is unsigned is no
/// input.
fn reasoning(request: &Request, i: usize) -> Vec<Json> {
    let messages = request.body.get("messages").and_then(Json::as_array);
    let blocks = messages.and_then(|messages| messages.get(i)?.get("thinking_blocks")?.as_array());
    let written = |block: &Json| {
        let content = match block.get_some("data") {
            Some(data) => object([("redactedContent", data.clone())]),
            None => {
                let (thought, signature) = (block.get_some("thinking")?.clone(), block.get_some("signature")?.clone());
                object([("reasoningText", object([("text", thought), ("signature", signature)]))])
            }
        };
        Some(object([("reasoningContent", content)]))
    };
    blocks.unwrap_or_default().iter().filter_map(written).collect()
}

fn result(request: &Request, i: usize) -> Result<Json, Unsupported> {
    let Message::Tool { tool_call_id: id, parts } = &request.messages[i] else { return Ok(Json::Null) };
    let mut content = Vec::with_capacity(parts.len());
    for (j, part) in parts.iter().enumerate() {
        content.push(part_block(&format!("messages[{i}].content[{j}]"), part)?);
    }
    let mut result = Object::new();
    result.insert("toolUseId", tool_id(id).as_ref());
    result.insert("content", content);
    Ok(object([("toolResult", Json::Object(result))]))
}

/// 64 letters, digits and `_.:-` at most; other providers' ids hold more.
fn tool_id(id: &str) -> std::borrow::Cow<'_, str> {
    fitting(id, 64, |c| c.is_ascii_alphanumeric() || "_.:-".contains(c))
}
