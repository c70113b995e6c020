//! What an answer says beside its words: the sources that it names, and what its vendor must get back. Neither may be
//! missing from what a client of any dialect has.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::dialects::Dialect;
use crate::dialects::cited;
use crate::json::{Json, Object};

use super::list;

/// How many signatures and sources were looked for, in all dialects but the provider's own.
pub(super) static LOOKED_FOR: [AtomicUsize; 2] = [AtomicUsize::new(0), AtomicUsize::new(0)];

/// Every text that stands under one of these names, wherever it is.
fn find<'a>(json: &'a Json, names: &[&str], found: &mut Vec<&'a str>) {
    match json {
        Json::Array(items) => items.iter().for_each(|item| find(item, names, found)),
        Json::Object(members) => {
            for (name, value) in members.iter() {
                match value {
                    Json::String(text) if names.contains(&name) && !text.is_empty() => found.push(text),
                    value => find(value, names, found),
                }
            }
        }
        _ => {}
    }
}

/// Signatures and encrypted reasoning of a chat completion.
pub(super) fn signatures(message: &Object) -> Vec<&str> {
    let holders = ["thinking_blocks", "reasoning_items", "reasoning_details", "extra_content", "tool_calls"];
    let mut found = Vec::new();
    for holder in holders.into_iter().filter_map(|name| message.get(name)) {
        find(holder, &["signature", "data", "encrypted_content", "thought_signature"], &mut found);
    }
    found
}

/// The addresses of the sources that the client is shown, in their order.
fn addresses(dialect: Dialect, seen: &Json) -> Vec<&str> {
    let mut found = Vec::new();
    let holders: Vec<&Json> = match dialect {
        Dialect::Messages => list(seen, "content").iter().filter_map(|block| block.get("citations")).collect(),
        _ => {
            let parts = list(seen, "output").iter().flat_map(|item| list(item, "content"));
            parts.filter_map(|part| part.get("annotations")).collect()
        }
    };
    holders.into_iter().for_each(|holder| find(holder, &["url"], &mut found));
    found
}

/// `whole` is the answer as a chat completion, `seen` what a client of the dialect has.
pub(super) fn assert_kept(at: &str, dialect: Dialect, whole: &Json, seen: &Json, native: bool) {
    let choice = &list(whole, "choices")[0];
    let message = choice.get("message").and_then(Json::as_object).unwrap();
    let text = String::from_utf8(seen.to_bytes().to_vec()).unwrap();
    let signatures = signatures(message);
    LOOKED_FOR[0].fetch_add(if native { 0 } else { signatures.len() }, Ordering::Relaxed);
    for signature in signatures {
        assert!(text.contains(signature), "{at}: {signature} is missing");
    }
    // The provider's own document has them where its own dialect has them; a chat completion where it had them before.
    if native || dialect == Dialect::Chat {
        return;
    }
    let sources = cited::of_choice(choice, cited::annotations);
    let mut expected = Vec::new();
    sources.iter().for_each(|source| find(source, &["url"], &mut expected));
    LOOKED_FOR[1].fetch_add(expected.len(), Ordering::Relaxed);
    assert_eq!(addresses(dialect, seen), expected, "{at}");
}
