//! What a route lets fall where a wire format has no place for it (`drop_unsupported`): refused by name as ever, unless
//! the name is on the route's list; then the request is read anew without that member, and whoever sends it is told
//! what is missing, so that it can be written down.
//!
//! Only members that steer how an answer is made, or what is said beside it, can be on such a list: never the
//! conversation, the tools, the limits, or the form of the answer. Nothing falls that a format can carry.

use crate::adapter::{Adapter, CallContext, Unsupported, UpstreamRequest};
use crate::canonical::Request;
use crate::dialects::{self, Dialect};
use crate::json::{Json, Object};

/// Members that may fall, in the words of the dialects that know them. A name stands for what is within it, too
/// (`metadata` for `metadata.team`).
pub const DROPPABLE: &[&str] = &[
    "cache_control",
    "frequency_penalty",
    "image_url.detail",
    "include",
    "logit_bias",
    "logprobs",
    "metadata",
    "min_p",
    "output_config.effort",
    "prediction",
    "presence_penalty",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "reasoning.effort",
    "reasoning.summary",
    "reasoning_effort",
    "repetition_penalty",
    "safety_identifier",
    "seed",
    "service_tier",
    "stream_options.include_obfuscation",
    "temperature",
    "text.verbosity",
    "thinking",
    "top_k",
    "top_logprobs",
    "top_p",
    "user",
    "verbosity",
];

/// Those of them that stand within messages, tools and pieces of content.
const INNER: &[&str] = &["cache_control", "image_url.detail"];

/// A request asks for no more of these than can be told of.
const MOST: usize = 64;

/// A request on a provider's wire, and what of it fell.
#[derive(Debug, Clone)]
pub struct Reduced {
    pub wire: UpstreamRequest,
    /// The members' paths in the client's document, in the order in which they fell: none where all could be carried.
    pub dropped: Vec<String>,
}

/// As [`dialects::to_upstream`], but what is refused and on the list falls.
pub fn to_upstream(
    adapter: &dyn Adapter,
    request: &Request,
    context: &CallContext<'_>,
    droppable: &[String],
) -> Result<Reduced, Unsupported> {
    let (written, dropped) = reduced(request, droppable, |request| dialects::to_upstream(adapter, request, context))?;
    Ok(Reduced { wire: written, dropped })
}

/// What `write` makes of the request, or of the request without what may fall.
pub fn reduced<T>(
    request: &Request,
    droppable: &[String],
    write: impl Fn(&Request) -> Result<T, Unsupported>,
) -> Result<(T, Vec<String>), Unsupported> {
    let mut refused = match write(request) {
        Err(refused) if !droppable.is_empty() => refused,
        written => return Ok((written?, Vec::new())),
    };
    let dialect = request.native.as_ref().map_or(Dialect::Chat, |native| native.dialect);
    let mut document = request.native.as_ref().map_or(&request.body, |native| native.body.as_ref()).clone();
    let mut dropped = Vec::new();
    while dropped.len() < MOST && may_fall(droppable, &refused.param) && remove(&mut document, &refused.param) {
        dropped.push(std::mem::take(&mut refused.param));
        let Ok(rest) = dialect.parse(document.clone()) else { return Err(as_refused(refused, dropped)) };
        match write(&rest) {
            Ok(written) => return Ok((written, dropped)),
            Err(next) => refused = next,
        }
    }
    Err(refused)
}

/// What is left makes no request any more: then the member was needed, and is refused as if it were on no list.
fn as_refused(refused: Unsupported, mut dropped: Vec<String>) -> Unsupported {
    Unsupported { param: dropped.pop().unwrap_or_default(), ..refused }
}

/// Whether a route may list this name: one of [`DROPPABLE`], or something within one.
pub fn can_be_listed(name: &str) -> bool {
    DROPPABLE.iter().any(|droppable| is_or_holds(droppable, name))
}

/// Whether the member at this path is on the list. Names that could not be told of in a header or a list are not.
fn may_fall(droppable: &[String], path: &str) -> bool {
    let plain = path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b',');
    plain && droppable.iter().any(|name| is_or_holds(name, path) || INNER.contains(&name.as_str()) && ends(name, path))
}

fn is_or_holds(name: &str, path: &str) -> bool {
    path.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

fn ends(name: &str, path: &str) -> bool {
    path.strip_suffix(name).is_some_and(|start| start.ends_with('.'))
}

/// Takes the member at this path out of the document: `metadata.team`, `messages[0].content[1].cache_control`.
fn remove(document: &mut Object, path: &str) -> bool {
    // A name may hold a dot of its own.
    if document.remove(path).is_some() {
        return true;
    }
    let Some(at) = path.find(['.', '[']) else { return false };
    let (name, rest) = path.split_at(at);
    document.get_mut(name).is_some_and(|value| remove_within(value, rest))
}

fn remove_within(value: &mut Json, path: &str) -> bool {
    match value {
        Json::Object(object) => path.strip_prefix('.').is_some_and(|path| remove(object, path)),
        Json::Array(items) => {
            let Some((i, rest)) = path.strip_prefix('[').and_then(|path| path.split_once(']')) else { return false };
            match i.parse::<usize>().ok().filter(|i| *i < items.len()) {
                Some(i) if rest.is_empty() => {
                    items.remove(i);
                    true
                }
                Some(i) => remove_within(&mut items[i], rest),
                None => false,
            }
        }
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => false,
    }
}

#[cfg(test)]
mod tests;
