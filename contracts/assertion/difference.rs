//! Where a value first differs from the one that was wanted: the smallest pointer that tells them apart.

use providers::json::Json;

use super::{same, show, step};

/// `/items/1/price is 2, expected 3`; the whole values where they are not containers of one kind.
pub(super) fn smallest(value: &Json, wanted: &Json, at: &str) -> Option<String> {
    if same(value, wanted) {
        return None;
    }
    let below = |name: &str| format!("{at}/{}", step(name));
    match (value, wanted) {
        (Json::Object(got), Json::Object(want)) => {
            let gone = want
                .iter()
                .find(|(name, _)| !got.contains_key(name))
                .map(|(name, wanted)| format!("{} is missing, expected {}", below(name), show(wanted)));
            let new = || {
                got.iter()
                    .find(|(name, _)| !want.contains_key(name))
                    .map(|(name, value)| format!("{} is {}, expected nothing there", below(name), show(value)))
            };
            let other =
                || got.iter().find_map(|(name, value)| want.get(name).and_then(|w| smallest(value, w, &below(name))));
            gone.or_else(new).or_else(other)
        }
        (Json::Array(got), Json::Array(want)) if got.len() == want.len() => {
            got.iter().zip(want).enumerate().find_map(|(i, (value, w))| smallest(value, w, &below(&i.to_string())))
        }
        (Json::Array(got), Json::Array(want)) => {
            Some(format!("{} has {} items, expected {}", place(at), got.len(), want.len()))
        }
        _ => Some(format!("{} is {}, expected {}", place(at), show(value), show(wanted))),
    }
}

pub(super) fn place(at: &str) -> &str {
    if at.is_empty() { "the output" } else { at }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_difference_is_named() {
        let json = |text: &str| Json::parse(text.as_bytes()).unwrap();
        let differ = |a: &str, b: &str| smallest(&json(a), &json(b), "");
        assert_eq!(differ(r#"{"a":[1,{"b":2}]}"#, r#"{"a":[1,{"b":3}]}"#).unwrap(), "/a/1/b is 2, expected 3");
        assert_eq!(differ(r#"{"a":1}"#, r#"{"a":1,"b":null}"#).unwrap(), "/b is missing, expected null");
        assert_eq!(differ(r#"{"a":1,"c":2}"#, r#"{"a":1}"#).unwrap(), "/c is 2, expected nothing there");
        assert_eq!(differ("[1]", "[1,2]").unwrap(), "the output has 1 items, expected 2");
        assert_eq!(differ(r#"{"a":1,"b":2}"#, r#"{"b":2.0,"a":1}"#), None);
    }
}
