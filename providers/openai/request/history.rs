//! Calls and their results belong together: each call is answered once, right after the turn that made it.
//!
//! Providers refuse anything else, in words that name no message; here the refusal names the id (field case B028). One
//! exception: a last assistant turn may hold calls that nothing follows.

use std::collections::HashSet;

use super::InvalidRequest;
use super::fields::invalid;
use crate::canonical::Message;

pub(super) fn check(messages: &[Message]) -> Result<(), InvalidRequest> {
    // The open turn: where it stands, and the ids that still lack a result.
    let mut turn = 0;
    let mut open: Vec<&str> = Vec::new();
    let mut answered: HashSet<&str> = HashSet::new();
    for (i, message) in messages.iter().enumerate() {
        if let Message::Tool { tool_call_id, .. } = message {
            answer(i, tool_call_id, &mut open, &mut answered)?;
            continue;
        }
        if let Some(id) = open.first() {
            return Err(unanswered(turn, id));
        }
        answered.clear();
        if let Message::Assistant { tool_calls, .. } = message {
            turn = i;
            for (j, call) in tool_calls.iter().enumerate() {
                if open.contains(&call.id.as_str()) {
                    let at = format!("messages[{i}].tool_calls[{j}].id");
                    return Err(invalid(
                        at,
                        "invalid_value",
                        format!("{} names two calls of one turn", quote(&call.id)),
                    ));
                }
                open.push(&call.id);
            }
        }
    }
    match open.first() {
        Some(id) if turn + 1 < messages.len() => Err(unanswered(turn, id)),
        _ => Ok(()),
    }
}

fn answer<'a>(
    i: usize,
    id: &'a str,
    open: &mut Vec<&'a str>,
    answered: &mut HashSet<&'a str>,
) -> Result<(), InvalidRequest> {
    let at = || format!("messages[{i}].tool_call_id");
    if let Some(place) = open.iter().position(|open| *open == id) {
        answered.insert(open.remove(place));
        return Ok(());
    }
    let message = if answered.contains(id) {
        format!("{} has its result already: send one message per call", quote(id))
    } else {
        format!("no call {} in the assistant turn before it: send that turn, or drop this result", quote(id))
    };
    Err(invalid(at(), "invalid_value", message))
}

fn unanswered(turn: usize, id: &str) -> InvalidRequest {
    invalid(
        format!("messages[{turn}].tool_calls"),
        "invalid_value",
        format!("the call {} has no result: send a message with role \"tool\" and that tool_call_id next", quote(id)),
    )
}

fn quote(id: &str) -> String {
    format!("\"{}\"", crate::failure::clean(&id.chars().take(64).collect::<String>()))
}
