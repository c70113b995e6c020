//! What a translated stream says beside OpenAI's own members, so that OpenAI's own clients can put it together.
//!
//! Their helper for streams adds deltas up by rules that know no names: texts are joined, numbers are summed, objects
//! are merged member by member, and an object of a list goes to the place that its `index` names; without one the helper
//! raises (`accumulate_delta` in openai-python 2.54.0, `lib/streaming/_deltas.py`, read 2026-12-01). So every object of a
//! list carries its place among all that came under that name, and anything else goes out once.

use crate::json::{Json, Object};

const INDEX: &str = "index";

/// Lists that only a translation makes: where one comes in a stream, from another gateway of this kind, its items' places
/// are the delta's, and go with it.
pub(crate) const TRANSLATED: [&str; 5] =
    ["thinking_blocks", "other_blocks", "reasoning_items", "other_items", "citations"];

/// The lists of one choice, by name, with how many items of each have gone out.
#[derive(Debug, Default)]
pub(crate) struct Lists(Vec<(String, u64)>);

impl Lists {
    /// The value of a delta's member on its way to the client: of a list, each object with its place. Calls have their
    /// own numbers already.
    pub fn number(&mut self, name: &str, value: Json) -> Json {
        let Json::Array(items) = value else { return value };
        if name == "tool_calls" {
            return Json::Array(items);
        }
        let known = self.0.iter().position(|(known, _)| known == name).unwrap_or_else(|| {
            self.0.push((name.to_owned(), 0));
            self.0.len() - 1
        });
        let next = &mut self.0[known].1;
        let place = |item| {
            let at = *next;
            *next += 1;
            match item {
                Json::Object(members) => at_place(members, at),
                other => other,
            }
        };
        Json::Array(items.into_iter().map(place).collect())
    }

    /// Every list of a delta.
    pub fn number_all(&mut self, delta: Object) -> Object {
        let members = delta.iter().map(|(name, value)| (name.to_owned(), self.number(name, value.clone())));
        Object::from_unique(members.collect())
    }
}

fn at_place(mut members: Object, at: u64) -> Json {
    members.insert(INDEX, at);
    Json::Object(members)
}

/// The item as its provider wrote it, of one that a client has put together or that stands in a chunk.
pub(crate) fn unnumbered(item: &Json) -> Json {
    let mut item = item.clone();
    if let Json::Object(members) = &mut item {
        members.remove(INDEX);
    }
    item
}
