//! What the consumer's logic needs beyond the schema: a place (JSON pointer or JSONPath) and one comparison, or a CEL
//! expression.
//!
//! Numbers are compared as written (exact for integers of any length), never coerced from strings.

use providers::json::Json;

use crate::check::excerpt;
use crate::expression::Expression;

mod difference;
mod path;

pub(crate) use path::Path;

/// One statement on one value of the output, or on every match of a path.
#[derive(Debug, Clone, PartialEq)]
pub struct Assertion {
    /// A JSON pointer (RFC 6901; the empty text is the whole output), or the text of `path`.
    pub at: String,
    pub(crate) path: Option<Path>,
    pub op: Op,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Op {
    Equals(Json),
    OneOf(Vec<Json>),
    /// A string that holds this text, or an array that holds this string.
    Contains(String),
    /// Bounds, both inclusive.
    Between {
        min: Option<f64>,
        max: Option<f64>,
    },
    /// So many matches of the path.
    Count(usize),
    /// A CEL expression that must be true.
    Holds(Expression),
}

impl Assertion {
    /// `Err` says in words what is different, at the smallest pointer that shows it.
    pub fn judge(&self, output: &Json) -> Result<(), String> {
        let Some(path) = &self.path else {
            let Some(value) = pointer(output, &self.at) else {
                return Err(format!("{} is missing", difference::place(&self.at)));
            };
            return self.judge_value(output, &self.at, value);
        };
        let matches = path.matches(output)?;
        if let Op::Count(wanted) = self.op {
            let words = || format!("{} has {} matches, expected {wanted}", self.at, matches.len());
            return if matches.len() == wanted { Ok(()) } else { Err(words()) };
        }
        if matches.is_empty() {
            return Err(format!("{} matches nothing", self.at));
        }
        matches.into_iter().try_for_each(|(at, value)| self.judge_value(output, &at, value))
    }

    fn judge_value(&self, output: &Json, at: &str, value: &Json) -> Result<(), String> {
        let held = match &self.op {
            Op::Equals(wanted) => return difference::smallest(value, wanted, at).map_or(Ok(()), Err),
            Op::Holds(expression) => return expression.judge(output, value),
            Op::OneOf(wanted) => wanted.iter().any(|w| same(value, w)),
            Op::Contains(text) => contains(value, text),
            Op::Between { min, max } => value.as_number().is_some_and(|n| {
                let n = n.as_f64();
                min.is_none_or(|m| n >= m) && max.is_none_or(|m| n <= m)
            }),
            // Of a pointer there is one match, or it is missing.
            Op::Count(wanted) => *wanted == 1,
        };
        if held {
            return Ok(());
        }
        Err(format!("{} is {}, expected {}", difference::place(at), show(value), self.wanted()))
    }

    fn wanted(&self) -> String {
        match &self.op {
            Op::Equals(json) => show(json),
            Op::OneOf(all) => format!("one of {}", all.iter().map(show).collect::<Vec<_>>().join(", ")),
            Op::Contains(text) => format!("something that contains {}", excerpt(text)),
            Op::Between { min, max } => match (min, max) {
                (Some(a), Some(b)) => format!("a number from {a} to {b}"),
                (Some(a), None) => format!("a number of at least {a}"),
                (None, Some(b)) => format!("a number of at most {b}"),
                (None, None) => "a number".to_owned(),
            },
            Op::Count(wanted) => format!("{wanted} matches"),
            Op::Holds(expression) => expression.text().to_owned(),
        }
    }
}

/// One step of a JSON pointer, escaped.
pub(crate) fn step(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// Equal as JSON: member order does not matter, `1` and `1.0` are the same number, `"1"` is not.
pub(crate) fn same(a: &Json, b: &Json) -> bool {
    match (a, b) {
        (Json::Number(x), Json::Number(y)) => {
            if x.as_str() == y.as_str() {
                return true;
            }
            let integral = |s: &str| !s.contains(['.', 'e', 'E']);
            // Two integers written differently are different: comparing them as f64 would join neighbours.
            !(integral(x.as_str()) && integral(y.as_str())) && x.as_f64() == y.as_f64()
        }
        (Json::Array(x), Json::Array(y)) => x.len() == y.len() && x.iter().zip(y).all(|(x, y)| same(x, y)),
        (Json::Object(x), Json::Object(y)) => {
            x.len() == y.len() && x.iter().all(|(name, v)| y.get(name).is_some_and(|w| same(v, w)))
        }
        _ => a == b,
    }
}

fn contains(value: &Json, text: &str) -> bool {
    match value {
        Json::String(s) => s.contains(text),
        Json::Array(items) => items.iter().any(|i| i.as_str() == Some(text)),
        _ => false,
    }
}

/// The value at a JSON pointer.
pub(crate) fn pointer<'a>(json: &'a Json, pointer: &str) -> Option<&'a Json> {
    if pointer.is_empty() {
        return Some(json);
    }
    pointer.strip_prefix('/')?.split('/').try_fold(json, |at, step| {
        let step = step.replace("~1", "/").replace("~0", "~");
        match at {
            Json::Object(o) => o.get(&step),
            Json::Array(items) => items.get(step.parse::<usize>().ok()?),
            _ => None,
        }
    })
}

/// Where two documents first differ, as a pointer and in words. `None`: they are equal as written.
pub(crate) fn first_difference(recorded: &Json, now: &Json, at: &str) -> Option<String> {
    let step = |name: &str| format!("{at}/{}", step(name));
    match (recorded, now) {
        (Json::Object(a), Json::Object(b)) => {
            let gone =
                a.iter().find(|(n, _)| !b.contains_key(n)).map(|(n, _)| format!("{} is no longer sent", step(n)));
            let new = b.iter().find(|(n, _)| !a.contains_key(n)).map(|(n, _)| format!("{} is new", step(n)));
            gone.or(new).or_else(|| a.iter().find_map(|(n, v)| b.get(n).and_then(|w| first_difference(v, w, &step(n)))))
        }
        (Json::Array(a), Json::Array(b)) if a.len() == b.len() => {
            a.iter().zip(b).enumerate().find_map(|(i, (x, y))| first_difference(x, y, &step(&i.to_string())))
        }
        (a, b) if a == b => None,
        _ => Some(format!("{} changed", if at.is_empty() { "the body" } else { at })),
    }
}

/// A value in a detail, short.
pub(crate) fn show(json: &Json) -> String {
    match json {
        Json::String(s) => excerpt(s),
        other => {
            let text = String::from_utf8_lossy(&other.to_bytes()).into_owned();
            if text.chars().count() > 40 { text.chars().take(39).chain(['…']).collect() } else { text }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Json {
        Json::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn neighbouring_integers_beyond_two_to_the_53_are_told_apart() {
        assert!(!same(&json("9007199254740993"), &json("9007199254740992")));
        assert!(same(&json("123456789012345678901234567890"), &json("123456789012345678901234567890")));
        assert!(same(&json("1.0"), &json("1")));
    }

    #[test]
    fn a_number_as_a_string_is_not_the_number() {
        let assertion = Assertion { at: "/n".into(), path: None, op: Op::Equals(json("7")) };
        assert!(assertion.judge(&json(r#"{"n":"7"}"#)).is_err());
        assert!(assertion.judge(&json(r#"{"n":7}"#)).is_ok());
    }

    #[test]
    fn a_missing_value_is_named_by_its_pointer() {
        let assertion = Assertion { at: "/a/0/b~1c".into(), path: None, op: Op::Contains("x".into()) };
        assert_eq!(assertion.judge(&json("{}")).unwrap_err(), "/a/0/b~1c is missing");
        assert!(assertion.judge(&json(r#"{"a":[{"b/c":"axb"}]}"#)).is_ok());
    }

    #[test]
    fn bounds_are_inclusive_and_hold_for_numbers_only() {
        let assertion = Assertion { at: String::new(), path: None, op: Op::Between { min: Some(1.0), max: Some(2.0) } };
        assert!(assertion.judge(&json("2")).is_ok());
        assert!(assertion.judge(&json("2.1")).is_err());
        assert!(assertion.judge(&json("\"2\"")).is_err());
    }

    #[test]
    fn every_match_of_a_path_is_judged_and_no_match_is_no_success() {
        let at = |path: &str, op| Assertion { at: path.into(), path: Some(Path::compile(path).unwrap()), op };
        let output = json(r#"{"items":[{"n":1},{"n":12345678901234567891}]}"#);
        let bound = at("$.items[*].n", Op::Between { min: Some(2.0), max: None });
        assert_eq!(bound.judge(&output).unwrap_err(), "/items/0/n is 1, expected a number of at least 2");
        assert_eq!(at("$.nope", Op::Contains("x".into())).judge(&output).unwrap_err(), "$.nope matches nothing");
        at("$.items[1].n", Op::Equals(json("12345678901234567891"))).judge(&output).unwrap();
        assert!(at("$.items[1].n", Op::Equals(json("12345678901234567892"))).judge(&output).is_err());
        at("$.items[*]", Op::Count(2)).judge(&output).unwrap();
        let why = at("$.items[*]", Op::Count(3)).judge(&output).unwrap_err();
        assert_eq!(why, "$.items[*] has 2 matches, expected 3");
        let positive = at("$.items[*]", Op::Holds(Expression::compile("this.n > 1", &Json::Null).unwrap()));
        assert!(positive.judge(&output).unwrap_err().contains("1 on the left, 1 on the right"));
    }

    #[test]
    fn the_first_difference_is_named_by_its_pointer() {
        let (a, b) = (json(r#"{"m":[{"c":"x"}],"t":1}"#), json(r#"{"m":[{"c":"y"}],"t":1}"#));
        assert_eq!(first_difference(&a, &b, "").unwrap(), "/m/0/c changed");
        assert_eq!(first_difference(&a, &a, ""), None);
    }
}
