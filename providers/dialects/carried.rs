//! What a vendor must get back with a conversation, and only that vendor can read: signatures, encrypted reasoning.
//!
//! Chat completions carry it beside the message. The other dialects have a place of their own for their own vendor's
//! (`signature` and `redacted_thinking` of messages, `encrypted_content` of responses), which clients send back unread. In
//! that place another vendor's rides too, as one opaque text with its name before it: at the end of the answer, since
//! some of it is known only there. Coming back it stands beside its message again, and goes to the vendor that wrote it;
//! to any other it does not go at all (field cases B033, B034).

use crate::json::{Json, Object};
use crate::numbered::unnumbered;
use crate::openai::request::InvalidRequest;
use crate::openai::request::fields::invalid;

const MARK: &str = "interlock:";

/// Google's signatures, on the message and on each call.
const EXTRA: &str = "extra_content";

/// The members of a message that are carried; those of the dialect's own vendor have their own place.
pub(super) const OF_MESSAGES: &[&str] = &[EXTRA, "reasoning_items", "reasoning_details"];
pub(super) const OF_RESPONSES: &[&str] = &[EXTRA, "thinking_blocks", "reasoning_details"];

/// Whether an opaque text is one of ours, which no vendor takes as its own.
pub(crate) fn is_carried(text: &str) -> bool {
    text.starts_with(MARK)
}

/// What a message has to carry, whole or out of the deltas of a stream.
#[derive(Debug, Default)]
pub(super) struct Carried {
    message: Object,
    /// By the number of the call: its id, and what stands beside it.
    calls: Vec<(u64, Json, Json)>,
}

impl Carried {
    pub fn of_message(message: &Object) -> Carried {
        let mut carried = Carried::default();
        carried.take(message);
        carried
    }

    /// A delta, or a whole message: lists grow, of anything else the last holds.
    pub fn take(&mut self, delta: &Object) {
        for (name, value) in delta.iter().filter(|(_, value)| !value.is_null()) {
            match (name, value, self.message.get_mut(name)) {
                ("tool_calls", Json::Array(calls), _) => self.take_calls(calls),
                ("thinking_blocks" | "reasoning_items", Json::Array(more), Some(Json::Array(all))) => {
                    all.extend(more.iter().map(unnumbered));
                }
                ("thinking_blocks" | "reasoning_items", Json::Array(more), _) => {
                    drop(self.message.insert(name, more.iter().map(unnumbered).collect::<Vec<_>>()));
                }
                // Its own numbers are part of it.
                ("reasoning_details", Json::Array(more), Some(Json::Array(all))) => all.extend_from_slice(more),
                ("reasoning_details", Json::Array(_), _) | (EXTRA, Json::Object(_), _) => {
                    drop(self.message.insert(name, value.clone()));
                }
                _ => {}
            }
        }
    }

    fn take_calls(&mut self, calls: &[Json]) {
        for (at, call) in calls.iter().enumerate() {
            let number = call.get("index").and_then(Json::as_u64).unwrap_or(at as u64);
            let known = self.calls.iter().position(|(known, ..)| *known == number).unwrap_or_else(|| {
                self.calls.push((number, Json::Null, Json::Null));
                self.calls.len() - 1
            });
            let (_, id, beside) = &mut self.calls[known];
            for (place, name) in [(id, "id"), (beside, EXTRA)] {
                if let Some(value) = call.get_some(name) {
                    *place = value.clone();
                }
            }
        }
    }

    /// As opaque texts, always in the same order.
    pub fn sealed(&self, names: &[&str]) -> Vec<String> {
        let members = names.iter().filter_map(|name| Some((*name, self.message.get(name)?)));
        let mut sealed: Vec<String> = members
            .filter(|(name, value)| is_opaque(name, value))
            .map(|(name, value)| seal(name, None, value))
            .collect();
        let calls = self.calls.iter().filter(|(_, _, beside)| is_opaque(EXTRA, beside));
        sealed.extend(calls.map(|(_, id, beside)| seal(EXTRA, Some(id), beside)));
        sealed
    }
}

/// Whether it says more than the words that the client has been told.
fn is_opaque(name: &str, value: &Json) -> bool {
    match value {
        Json::Object(members) => !members.is_empty(),
        Json::Array(items) if name == "reasoning_details" => {
            items.iter().any(|item| item.get_some("signature").or(item.get_some("data")).is_some())
        }
        Json::Array(items) => !items.is_empty(),
        _ => false,
    }
}

fn seal(name: &str, call: Option<&Json>, value: &Json) -> String {
    let mut sealed: Object = [("member", name)].into_iter().collect();
    if let Some(id) = call {
        sealed.insert("call", id.clone());
    }
    sealed.insert("value", value.clone());
    format!("{MARK}{}", String::from_utf8_lossy(&Json::Object(sealed).to_bytes()))
}

/// One opaque text that came back.
#[derive(Debug)]
pub(super) struct Opened {
    member: String,
    call: Option<Json>,
    value: Json,
}

/// `None`: it is another vendor's own. What is ours and cannot be read was changed, and is refused by its place.
pub(super) fn open(at: &str, text: &str) -> Result<Option<Opened>, InvalidRequest> {
    let Some(sealed) = text.strip_prefix(MARK) else { return Ok(None) };
    let read = || {
        let sealed = Json::parse(sealed.as_bytes()).ok()?.into_object()?;
        let member = sealed.get("member")?.as_str()?;
        let value = sealed.get("value")?;
        let fits = match member {
            EXTRA => value.as_object().is_some(),
            "thinking_blocks" | "reasoning_items" | "reasoning_details" => value.as_array().is_some(),
            _ => false,
        };
        fits.then(|| Opened { member: member.to_owned(), call: sealed.get("call").cloned(), value: value.clone() })
    };
    let message = "is not as an answer of this gateway had it: send it back unchanged, or leave it out";
    read().map(Some).ok_or_else(|| invalid(at, "invalid_value", message))
}

/// Puts what came back beside the message that it came with. What stood beside a call goes with the call: where the
/// client has left that out, nothing is left to be signed.
pub(super) fn give_back(message: &mut Object, opened: Vec<Opened>) {
    for Opened { member, call, value } in opened {
        match call {
            Some(id) => {
                let Some(Json::Array(calls)) = message.get_mut("tool_calls") else { continue };
                let mut calls = calls.iter_mut().filter_map(Json::as_object_mut);
                if let Some(call) = calls.find(|call| call.get("id") == Some(&id)) {
                    call.insert(member, value);
                }
            }
            None => match (message.get_mut(&member), value) {
                (Some(Json::Array(items)), Json::Array(more)) => items.extend(more),
                (_, value) => drop(message.insert(member, value)),
            },
        }
    }
}
