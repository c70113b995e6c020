//! What an author will probably want to say of a case: its name, and which values must come back.

use providers::json::Json;

use super::Pair;
use crate::assertion::step;

/// More would be noise.
const MOST: usize = 8;

/// The names of the request files, or numbers where these are no names or not different.
pub(super) fn case_names(pairs: &[Pair]) -> Vec<String> {
    let stems: Vec<String> = pairs
        .iter()
        .map(|pair| {
            let stem = std::path::Path::new(&pair.request_file).file_stem().unwrap_or_default().to_string_lossy();
            stem.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' }).collect()
        })
        .collect();
    let usable = |name: &String| {
        let generic = ["request", "req", "suite", "pair"].contains(&name.as_str());
        name.chars().any(|c| c.is_ascii_alphanumeric()) && !generic && stems.iter().filter(|s| *s == name).count() == 1
    };
    stems
        .iter()
        .enumerate()
        .map(|(i, stem)| if usable(stem) { stem.clone() } else { format!("case-{}", i + 1) })
        .collect()
}

/// A line of `assert`, and whether it is to hold at once or is only proposed.
pub(super) struct Suggestion {
    pub line: String,
    pub holds: bool,
}

/// Words, flags and whole numbers are what logic hangs on: they must come back. Of free text and fractions a form is
/// proposed.
pub(super) fn assertions(answer: &Json) -> Vec<Suggestion> {
    let mut out = Vec::new();
    collect(answer, "", &mut out);
    out.truncate(MOST);
    out
}

fn collect(value: &Json, at: &str, out: &mut Vec<Suggestion>) {
    let mut add = |words: String, holds| {
        let at = toml::Value::String(at.to_owned());
        out.push(Suggestion { line: format!("{{ at = {at}, {words} }}"), holds });
    };
    match value {
        Json::Object(members) => {
            members.iter().for_each(|(name, value)| collect(value, &format!("{at}/{}", step(name)), out));
        }
        Json::Bool(value) => add(format!("equals = {value}"), true),
        Json::Number(number) if number.as_str().parse::<i64>().is_ok() => {
            add(format!("equals = {}", number.as_str()), true)
        }
        Json::Number(number) if number.as_str().contains(['.', 'e', 'E']) => {
            add(format!("min = {0}, max = {0}", number.as_f64()), false);
        }
        Json::Number(number) => add(format!("equals_json = \"{}\"", number.as_str()), true),
        Json::String(text) if !text.is_empty() && text.chars().count() <= 40 && !text.contains(char::is_whitespace) => {
            add(format!("equals = {}", toml::Value::String(text.clone())), true);
        }
        Json::String(text) => {
            let word = text.split_whitespace().max_by_key(|word| word.chars().count()).unwrap_or_default();
            add(format!("contains = {}", toml::Value::String(word.to_owned())), false);
        }
        Json::Array(_) => {
            let path = toml::Value::String(format!("size(this) == {}", value.as_array().map_or(0, <[Json]>::len)));
            add(format!("cel = {path}"), false);
        }
        Json::Null => add("equals_json = \"null\"".to_owned(), false),
    }
}
