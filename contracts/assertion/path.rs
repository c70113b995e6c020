//! JSONPath (RFC 9535), by the crate `serde_json_path`, over exact JSON.
//!
//! A path only says where: the values are read from the exact document. Its filters compare numbers as doubles, so one
//! that would have to compare an integer beyond 2^53 is refused in words instead of being answered wrongly.

use std::sync::Arc;

use providers::json::Json;
use serde_json_path::JsonPath;

use super::{pointer, step};

/// A compiled path; the same where its text is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Path {
    path: Arc<JsonPath>,
    filters: bool,
}

impl Path {
    /// `Err`: what is wrong, and at which byte of the text.
    pub(crate) fn compile(text: &str) -> Result<Path, (String, usize)> {
        let path = JsonPath::parse(text).map_err(|e| (e.message().to_owned(), e.position()))?;
        let bare = without_strings(text);
        let filters = bare.contains('?');
        if filters && let Some((at, number)) = long_integer(&bare) {
            return Err((format!("a filter compares numbers as doubles, which cannot hold {number} exactly"), at));
        }
        Ok(Path { path: Arc::new(path), filters })
    }

    /// The matches, each with its pointer, or why they cannot be told.
    pub(crate) fn matches<'a>(&self, output: &'a Json) -> Result<Vec<(String, &'a Json)>, String> {
        if self.filters
            && let Some(at) = inexact(output, "")
        {
            return Err(format!(
                "{at} is an integer beyond 2^53, which a JSONPath filter cannot compare exactly: use cel"
            ));
        }
        let value = output.to_serde();
        let found = self.path.query_located(&value);
        let pointers = found.locations().map(|location| location.to_json_pointer());
        Ok(pointers.filter_map(|at| pointer(output, &at).map(|value| (at, value))).collect())
    }
}

/// The text with what stands in quotes blanked, byte for byte.
fn without_strings(text: &str) -> String {
    let mut quote = None;
    let mut escaped = false;
    let blank = |c: char| std::iter::repeat_n(' ', c.len_utf8());
    text.chars()
        .flat_map(|c| {
            let inside = quote.is_some();
            match quote {
                Some(_) if escaped => escaped = false,
                Some(_) if c == '\\' => escaped = true,
                Some(q) if c == q => quote = None,
                None if c == '"' || c == '\'' => quote = Some(c),
                _ => {}
            }
            if inside { blank(c).collect::<String>() } else { c.to_string() }.into_bytes()
        })
        .map(char::from)
        .collect()
}

fn long_integer(text: &str) -> Option<(usize, &str)> {
    let is_digit = |c: char| c.is_ascii_digit();
    let mut rest = 0;
    while let Some(start) = text.get(rest..)?.find(is_digit).map(|at| rest + at) {
        let end = text[start..].find(|c| !is_digit(c)).map_or(text.len(), |length| start + length);
        if too_long(&text[start..end]) {
            return Some((start, &text[start..end]));
        }
        rest = end;
    }
    None
}

/// The pointer of the first integer that a double may not hold.
fn inexact(json: &Json, at: &str) -> Option<String> {
    match json {
        Json::Number(number) => too_long(number.as_str()).then(|| super::difference::place(at).to_owned()),
        Json::Array(items) => items.iter().enumerate().find_map(|(i, item)| inexact(item, &format!("{at}/{i}"))),
        Json::Object(members) => {
            members.iter().find_map(|(name, value)| inexact(value, &format!("{at}/{}", step(name))))
        }
        _ => None,
    }
}

/// Whether this integer, as written, is beyond ±2^53.
fn too_long(text: &str) -> bool {
    let digits = text.trim_start_matches('-');
    digits.bytes().all(|b| b.is_ascii_digit()) && digits.parse::<u64>().map_or(true, |value| value > 1 << 53)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Json {
        Json::parse(text.as_bytes()).unwrap()
    }

    fn found(path: &str, text: &str) -> Vec<String> {
        Path::compile(path).unwrap().matches(&json(text)).unwrap().into_iter().map(|(at, _)| at).collect()
    }

    #[test]
    fn matches_are_told_by_their_pointers_with_exact_values() {
        let text = r#"{"a":[{"b/c":1},{"b/c":123456789012345678901234567890}]}"#;
        assert_eq!(found("$.a[*]['b/c']", text), ["/a/0/b~1c", "/a/1/b~1c"]);
        let document = json(text);
        let all = Path::compile("$..['b/c']").unwrap().matches(&document).unwrap();
        assert_eq!(all[1].1, &json("123456789012345678901234567890"));
        assert_eq!(found("$.a[?@.b > 1]", r#"{"a":[{"b":1},{"b":2}]}"#), ["/a/1"]);
    }

    #[test]
    fn a_filter_that_would_compare_integers_beyond_doubles_is_refused() {
        let path = Path::compile("$[?@.id == 1]").unwrap();
        let why = path.matches(&json(r#"[{"id":9007199254740993}]"#)).unwrap_err();
        assert!(why.contains("/0/id") && why.contains("2^53"), "{why}");
        let (what, at) = Path::compile("$[?@.id == 9007199254740993]").unwrap_err();
        assert!(what.contains("9007199254740993") && at == 11, "{what} {at}");
        assert!(Path::compile("$[?@.id == '9007199254740993']").is_ok(), "a string is compared exactly");
    }

    #[test]
    fn a_path_that_does_not_parse_is_told_with_its_place() {
        assert!(Path::compile("$.a[").is_err());
        assert!(Path::compile("a.b").is_err());
        assert!(Path::compile("$[?nothing(@.a)]").is_err());
    }
}
