//! Which keywords of the suite's schema bind at the provider: for each one an answer that only it forbids is asked for.
//!
//! A provider that enforces the keyword cannot give that answer; one that drops it gives it word for word. What cannot
//! be asked for (too long, or forbidden by other keywords too) is named in the result and never counted as honoured. A
//! model that does not repeat a permitted answer either shows nothing by not repeating a forbidden one: that is skipped.

use providers::canonical::Finish;
use providers::json::Json;
use serde_json::{Value, json};

use super::example::{another, example, resolved};
use super::read;
use crate::check::{self, CheckResult, WHOLE_SUITE, excerpt};
use crate::runner::Transcript;
use crate::suite::{ResponseFormat, Suite};

/// Each keyword that can be asked about, and its probe's name.
const KEYWORDS: [(&str, &str); 17] = [
    ("type", "keyword_type"),
    ("enum", "keyword_enum"),
    ("const", "keyword_const"),
    ("required", "keyword_required"),
    ("additionalProperties", "keyword_additional_properties"),
    ("minLength", "keyword_min_length"),
    ("maxLength", "keyword_max_length"),
    ("pattern", "keyword_pattern"),
    ("format", "keyword_format"),
    ("minimum", "keyword_minimum"),
    ("maximum", "keyword_maximum"),
    ("exclusiveMinimum", "keyword_exclusive_minimum"),
    ("exclusiveMaximum", "keyword_exclusive_maximum"),
    ("multipleOf", "keyword_multiple_of"),
    ("minItems", "keyword_min_items"),
    ("maxItems", "keyword_max_items"),
    ("uniqueItems", "keyword_unique_items"),
];

/// The probe that asks for an answer which the schema permits.
const PERMITTED: &str = "keyword_none";

/// An answer to be asked for word for word, and the keyword that alone forbids it.
#[derive(Debug)]
struct Forbidden {
    keyword: &'static str,
    probe: &'static str,
    /// One line of JSON.
    answer: String,
}

/// What is asked for: the probes' names and one line of JSON each. The permitted answer comes first.
pub(crate) fn asked_for(suite: &Suite) -> Vec<(&'static str, String)> {
    let forbidden = forbidden(suite).into_iter().map(|f| (f.probe, f.answer));
    let permitted = permitted(suite).map(|sound| (PERMITTED, sound.to_string()));
    let all: Vec<_> = permitted.into_iter().chain(forbidden).collect();
    if all.len() > 1 { all } else { Vec::new() }
}

fn permitted(suite: &Suite) -> Option<Value> {
    let bound = suite.parameters.response_format == ResponseFormat::JsonSchema;
    bound.then(|| example(&suite.schema.to_serde()))?.filter(|value| suite.validator.is_valid(value))
}

/// One forbidden answer for each keyword that the schema uses and that can be asked about.
fn forbidden(suite: &Suite) -> Vec<Forbidden> {
    let Some(sound) = permitted(suite) else { return Vec::new() };
    let schema = suite.schema.to_serde();
    let longest = usize::try_from(suite.parameters.max_tokens).unwrap_or(usize::MAX).saturating_mul(3);
    let mut walk = Walk { suite, root: &schema, sound: &sound, longest, found: Vec::new() };
    walk.node(&schema, "", 0);
    walk.found.sort_by_key(|f| KEYWORDS.iter().position(|(name, _)| *name == f.keyword));
    walk.found
}

struct Walk<'a> {
    suite: &'a Suite,
    root: &'a Value,
    sound: &'a Value,
    longest: usize,
    found: Vec<Forbidden>,
}

impl Walk<'_> {
    /// Looks at one schema, for the value of the sound answer that stands at `at`.
    fn node(&mut self, node: &Value, at: &str, depth: usize) {
        let (Some(node), Some(here)) = (resolved(self.root, node), self.sound.pointer(at)) else { return };
        if depth > 12 {
            return;
        }
        for (keyword, probe) in KEYWORDS {
            let Some(wanted) = node.get(keyword) else { continue };
            if self.found.iter().any(|f| f.keyword == keyword) {
                continue;
            }
            let answers = wrong(keyword, wanted, here).into_iter().map(|value| self.whole(at, value));
            if let Some(answer) = answers.flatten().find(|answer| self.only(keyword, answer)) {
                self.found.push(Forbidden { keyword, probe, answer: answer.to_string() });
            }
        }
        for (name, property) in node.get("properties").and_then(Value::as_object).into_iter().flatten() {
            self.node(property, &format!("{at}/{}", name.replace('~', "~0").replace('/', "~1")), depth + 1);
        }
        if let Some(items) = node.get("items") {
            self.node(items, &format!("{at}/0"), depth + 1);
        }
        for part in node.get("allOf").and_then(Value::as_array).into_iter().flatten() {
            self.node(part, at, depth + 1);
        }
    }

    /// The sound answer with `value` in the place `at`.
    fn whole(&self, at: &str, value: Value) -> Option<Value> {
        let mut whole = self.sound.clone();
        *whole.pointer_mut(at)? = value;
        Some(whole)
    }

    /// Whether this keyword and no other forbids the answer, and it is short enough to be asked for.
    fn only(&self, keyword: &str, answer: &Value) -> bool {
        let mut errors = self.suite.validator.iter_errors(answer).peekable();
        errors.peek().is_some()
            && errors.all(|e| e.kind().keyword() == keyword)
            && answer.to_string().len() <= self.longest
    }
}

/// Values that the keyword should forbid where `here` stands, most telling first.
fn wrong(keyword: &str, wanted: &Value, here: &Value) -> Vec<Value> {
    let number = wanted.as_f64().unwrap_or_default();
    let size = wanted.as_u64().and_then(|n| usize::try_from(n).ok()).unwrap_or_default();
    let items = here.as_array().cloned().unwrap_or_default();
    match keyword {
        // A number written as a string, the commonest slip, comes first.
        "type" => vec![json!(here.to_string()), json!("seven"), json!(7), json!(true)],
        "enum" | "const" => vec![json!("interlock"), json!(7919), json!(!here.as_bool().unwrap_or(true))],
        "required" => members_left_out(wanted, here),
        "additionalProperties" => {
            let mut more = here.as_object().cloned().unwrap_or_default();
            more.insert("interlock_extra".to_owned(), json!("x"));
            vec![Value::Object(more)]
        }
        "minLength" => vec![json!("a".repeat(size.saturating_sub(1)))],
        "maxLength" => vec![json!(words(size + 1))],
        "pattern" | "format" => ["interlock", "!", "0", "no such thing"].map(Value::from).to_vec(),
        "minimum" => vec![shown(number - 1.0)],
        "maximum" => vec![shown(number + 1.0)],
        "exclusiveMinimum" | "exclusiveMaximum" => vec![shown(number)],
        "multipleOf" => vec![shown(number * 1.5), shown(number + 1.0), shown(number * 2.0 + number / 2.0)],
        "minItems" => vec![Value::Array(items.into_iter().take(size.saturating_sub(1)).collect())],
        "maxItems" => vec![more_items(items, size)],
        "uniqueItems" => vec![Value::Array(items.iter().chain(items.first()).cloned().collect())],
        _ => Vec::new(),
    }
}

fn members_left_out(wanted: &Value, here: &Value) -> Vec<Value> {
    let names = wanted.as_array().into_iter().flatten().filter_map(Value::as_str).rev();
    let without = names.map(|name| {
        let mut less = here.as_object().cloned().unwrap_or_default();
        less.remove(name);
        Value::Object(less)
    });
    without.collect()
}

fn more_items(mut items: Vec<Value>, most: usize) -> Value {
    let Some(first) = items.first().cloned() else { return Value::Null };
    while items.len() <= most {
        items.push(another(&first, &Value::Null, items.len()));
    }
    Value::Array(items)
}

/// A text of exactly so many characters, in words: a run of one letter invites a model to lose count.
fn words(length: usize) -> String {
    "the grey river runs past the old mill and ".chars().cycle().take(length.saturating_sub(1)).chain(['x']).collect()
}

fn shown(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() < 9.0e15 { json!(value as i64) } else { json!(value) }
}

/// The keywords of the table that stand anywhere in the schema.
fn used(schema: &Value) -> Vec<&'static str> {
    fn collect(node: &Value, found: &mut Vec<String>) {
        match node {
            Value::Object(members) => {
                for (name, value) in members {
                    found.push(name.clone());
                    match (name.as_str(), value) {
                        ("enum" | "const" | "examples" | "default", _) => {}
                        // The names below are the contract's, not keywords.
                        ("properties" | "$defs" | "definitions" | "patternProperties", Value::Object(named)) => {
                            named.values().for_each(|value| collect(value, found));
                        }
                        _ => collect(value, found),
                    }
                }
            }
            Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
            _ => {}
        }
    }
    let mut found = Vec::new();
    collect(schema, &mut found);
    KEYWORDS.iter().map(|(name, _)| *name).filter(|name| found.iter().any(|f| f == name)).collect()
}

/// One result for each keyword that was asked about; `case` is the keyword.
pub(super) fn judge(suite: &Suite, transcript: &Transcript) -> Vec<CheckResult> {
    let row = &check::KEYWORDS;
    if suite.parameters.response_format != ResponseFormat::JsonSchema {
        return vec![row.skipped(WHOLE_SUITE, "the suite sends no schema")];
    }
    let asked = forbidden(suite);
    let obeys = obeys(suite, transcript);
    let results: Vec<CheckResult> = asked.iter().map(|f| judge_one(suite, transcript, f, obeys)).collect();
    if results.is_empty() {
        return vec![row.skipped(WHOLE_SUITE, "no keyword of this schema forbids an answer by itself")];
    }
    let left: Vec<&str> =
        used(&suite.schema.to_serde()).into_iter().filter(|name| asked.iter().all(|f| f.keyword != *name)).collect();
    match left.is_empty() {
        true => results,
        false => {
            let words = format!("not asked about, since nothing is forbidden by it alone: {}", left.join(", "));
            results.into_iter().chain([row.skipped("others", words)]).collect()
        }
    }
}

/// Whether the model repeats an answer that the schema permits.
fn obeys(suite: &Suite, transcript: &Transcript) -> bool {
    let exchange = transcript.get(WHOLE_SUITE, PERMITTED, 1);
    let said = exchange.and_then(|e| e.observation.text().ok()).and_then(|text| read(text).ok());
    said.is_some_and(|json| Some(json.to_serde()) == permitted(suite))
}

fn judge_one(suite: &Suite, transcript: &Transcript, asked: &Forbidden, obeys: bool) -> CheckResult {
    let row = &check::KEYWORDS;
    let keyword = asked.keyword;
    let Some(exchange) = transcript.get(WHOLE_SUITE, asked.probe, 1) else {
        return row.skipped(keyword, "the call was not made");
    };
    let choice = match exchange.observation.choice() {
        Ok(choice) => choice,
        Err(why) if exchange.observation.is_refused_parameter() => {
            return row.failed(keyword, format!("refused with this schema: {why}"));
        }
        Err(why) => return row.failed(keyword, why),
    };
    let text = choice.text.as_deref().unwrap_or("");
    match read(text) {
        // What was cut cannot be judged: the limit may have come before the keyword had to bind.
        Err(_) if choice.finish == Finish::Length => {
            row.skipped(keyword, "cut at max_tokens before it could be judged")
        }
        Err((_, why)) => row.failed(keyword, format!("the schema did not bind: {why}")),
        Ok(json) => bound(suite, keyword, &json, obeys),
    }
}

fn bound(suite: &Suite, keyword: &str, json: &Json, obeys: bool) -> CheckResult {
    let row = &check::KEYWORDS;
    let value = json.to_serde();
    let broken: Vec<String> =
        suite.validator.iter_errors(&value).map(|error| error.kind().keyword().to_owned()).collect();
    match broken.iter().find(|broken| *broken == keyword).or(broken.first()) {
        None if obeys => row.passed(keyword, "honoured: the forbidden answer was asked for and did not come"),
        None => row.skipped(keyword, "it did not come, but neither does a permitted answer: the model does not repeat"),
        Some(broken) if broken == keyword => row.failed(
            keyword,
            format!(
                "dropped: the provider gave an answer that only {keyword} forbids: {}",
                excerpt(&value.to_string())
            ),
        ),
        Some(broken) => row.failed(keyword, format!("the answer breaks {broken}: {}", excerpt(&value.to_string()))),
    }
}
