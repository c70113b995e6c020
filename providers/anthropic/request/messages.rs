//! The conversation as Anthropic wants it: `system` apart, then user and assistant in turns, each a list of blocks.
//!
//! A system message that comes later keeps its place: it becomes a block `<system>…</system>` in the user turn there.
//! Only some models take a system role within the conversation (Opus 4.8 does, by rules of placement; read 2026-11-30),
//! and moving it to the top would change what it governs (field case B005). Results of tool calls come first in their
//! user turn, in the order of the calls (B028).

mod blocks;

use crate::adapter::Unsupported;
use crate::canonical::{Message, Part, Request};
use crate::json::Json;
use crate::numbered::unnumbered;

use super::object;
use blocks::{is_blank, refuse_unknown_members, text, tool_result, tool_use, user_block};

pub(super) struct Conversation {
    pub system: Vec<Json>,
    pub turns: Vec<Json>,
}

pub(super) fn write(request: &Request) -> Result<Conversation, Unsupported> {
    refuse_unknown_members(request)?;
    let leading = request.messages.iter().take_while(|message| matches!(message, Message::System { .. })).count();
    let mut system = Vec::new();
    for (i, message) in request.messages[..leading].iter().enumerate() {
        system_blocks(i, message, &mut system)?;
    }
    let mut turns = Turns::default();
    let mut order: Vec<&str> = Vec::new();
    let mut i = leading;
    while i < request.messages.len() {
        match &request.messages[i] {
            Message::Tool { .. } => {
                let results = count_results(&request.messages[i..]);
                turns.push("user", tool_results(i, &request.messages[i..i + results], &order)?);
                i += results;
                continue;
            }
            Message::System { .. } => turns.push("user", later_system(i, &request.messages[i])?),
            Message::User { parts, name } => turns.push("user", user(i, parts, name.as_deref())?),
            Message::Assistant { parts, refusal, tool_calls } => {
                order = tool_calls.iter().map(|call| call.id.as_str()).collect();
                let mut written = thinking(request, i);
                written.extend(assistant(i, parts, refusal.as_deref())?);
                for (j, call) in tool_calls.iter().enumerate() {
                    written.push(tool_use(i, j, call)?);
                }
                turns.push("assistant", written);
            }
        }
        i += 1;
    }
    if turns.0.is_empty() {
        return Err(Unsupported::new("messages", "Anthropic needs at least one message beside the system prompt"));
    }
    Ok(Conversation { system, turns: turns.finish() })
}

/// Turns alternate: what follows in the same role joins the turn before. Empty turns are not made (field case B038).
#[derive(Default)]
struct Turns(Vec<(&'static str, Vec<Json>)>);

impl Turns {
    fn push(&mut self, role: &'static str, blocks: Vec<Json>) {
        match self.0.last_mut() {
            _ if blocks.is_empty() => {}
            Some((last, turn)) if *last == role => turn.extend(blocks),
            _ => self.0.push((role, blocks)),
        }
    }

    fn finish(self) -> Vec<Json> {
        let turn =
            |(role, blocks): (&str, Vec<Json>)| object([("role", Json::from(role)), ("content", Json::Array(blocks))]);
        self.0.into_iter().map(turn).collect()
    }
}

fn system_blocks(i: usize, message: &Message, into: &mut Vec<Json>) -> Result<(), Unsupported> {
    let Message::System { parts, .. } = message else { return Ok(()) };
    for (j, part) in parts.iter().enumerate() {
        match part {
            Part::Text(content) if is_blank(content) => {}
            Part::Text(content) => into.push(text(content)),
            Part::Image { .. } | Part::Other(_) => {
                let at = format!("messages[{i}].content[{j}]");
                return Err(Unsupported::new(at, "Anthropic takes only text in system messages"));
            }
        }
    }
    Ok(())
}

fn later_system(i: usize, message: &Message) -> Result<Vec<Json>, Unsupported> {
    let mut plain = Vec::new();
    system_blocks(i, message, &mut plain)?;
    let wrapped = plain.iter().filter_map(|block| block.get("text")?.as_str());
    Ok(wrapped.map(|content| text(&format!("<system>\n{content}\n</system>"))).collect())
}

fn user(i: usize, parts: &[Part], name: Option<&str>) -> Result<Vec<Json>, Unsupported> {
    if name.is_some() {
        let why = "Anthropic has no names of participants: put it into the text";
        return Err(Unsupported::new(format!("messages[{i}].name"), why));
    }
    if parts.iter().all(|part| matches!(part, Part::Text(content) if is_blank(content))) {
        let why = "Anthropic takes no user message that is empty or only white space";
        return Err(Unsupported::new(format!("messages[{i}].content"), why));
    }
    let mut written = Vec::with_capacity(parts.len());
    for (j, part) in parts.iter().enumerate() {
        written.extend(user_block(&format!("messages[{i}].content[{j}]"), part)?);
    }
    Ok(written)
}

/// Models put blank lines before a call; a block of nothing else is refused there, and carries nothing.
fn assistant(i: usize, parts: &[Part], refusal: Option<&str>) -> Result<Vec<Json>, Unsupported> {
    let mut written = Vec::new();
    for (j, part) in parts.iter().enumerate() {
        match part {
            Part::Text(content) if is_blank(content) => {}
            Part::Text(content) => written.push(text(content)),
            Part::Image { .. } | Part::Other(_) => {
                let at = format!("messages[{i}].content[{j}]");
                return Err(Unsupported::new(at, "Anthropic takes only text in assistant messages"));
            }
        }
    }
    written.extend(refusal.filter(|refusal| !is_blank(refusal)).map(text));
    Ok(written)
}

/// Signed reasoning that this protocol's own answer held: it goes back unread, byte for byte (field case B033).
fn thinking(request: &Request, i: usize) -> Vec<Json> {
    let messages = request.body.get("messages").and_then(Json::as_array);
    let blocks = messages.and_then(|messages| messages.get(i)?.get("thinking_blocks")?.as_array());
    blocks.unwrap_or_default().iter().map(unnumbered).collect()
}

fn count_results(messages: &[Message]) -> usize {
    messages.iter().take_while(|message| matches!(message, Message::Tool { .. })).count()
}

fn tool_results(first: usize, messages: &[Message], order: &[&str]) -> Result<Vec<Json>, Unsupported> {
    let mut results = Vec::with_capacity(messages.len());
    for (offset, message) in messages.iter().enumerate() {
        let Message::Tool { tool_call_id, parts } = message else { continue };
        let place = order.iter().position(|id| id == tool_call_id);
        results.push((place, tool_result(first + offset, tool_call_id, parts)?));
    }
    results.sort_by_key(|(place, _)| *place);
    Ok(results.into_iter().map(|(_, result)| result).collect())
}
