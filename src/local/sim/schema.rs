//! Writes a value that satisfies a JSON Schema, out of the user's text. Deterministic.
//!
//! It picks enum values by what the text speaks for, copies strings from the text and keeps numbers within bounds.
//! What it wrote is validated; a schema that it cannot satisfy is refused, never answered with something that fails it.

use serde_json::{Map, Value, json};

use super::noise::Noise;
use super::pattern;
use super::words::{Stems, first_sentence};

/// Deeper than this a schema refers to itself.
const DEEPEST: usize = 16;

/// Why there is no value.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unwritable {
    #[error("invalid schema: {0}")]
    Malformed(String),
    #[error("this simulated model cannot write a value for {0}")]
    Unsatisfied(String),
}

/// A value for `schema`, about `text`. `explained` is what else the prompt says about the values (the system prompt).
pub(super) fn write(schema: &Value, text: &str, explained: &str, noise: &Noise) -> Result<Value, Unwritable> {
    let validator = check(schema)?;
    let writer = Writer { root: schema, text, explained, stems: Stems::of(text), noise };
    let value = writer.value("", schema, 0)?;
    match validator.validate(&value) {
        Ok(()) => Ok(value),
        Err(error) => Err(Unwritable::Unsatisfied(format!("{} ({error})", error.instance_path()))),
    }
}

/// A validator, if the schema is one.
pub(super) fn check(schema: &Value) -> Result<jsonschema::Validator, Unwritable> {
    // Formats bind here as they do in a contract, which a validator of 2020-12 does not do by itself.
    let options = jsonschema::options().should_validate_formats(true);
    options.build(schema).map_err(|error| Unwritable::Malformed(error.to_string()))
}

struct Writer<'a> {
    root: &'a Value,
    text: &'a str,
    explained: &'a str,
    stems: Stems,
    noise: &'a Noise,
}

impl Writer<'_> {
    fn value(&self, name: &str, schema: &Value, depth: usize) -> Result<Value, Unwritable> {
        if depth > DEEPEST {
            return Err(Unwritable::Unsatisfied(format!("{name}: the schema nests too deeply")));
        }
        if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
            let target = reference.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer));
            let target = target.ok_or_else(|| Unwritable::Malformed(format!("{reference} points nowhere")))?;
            return self.value(name, target, depth + 1);
        }
        if let Some(fixed) = schema.get("const") {
            return Ok(fixed.clone());
        }
        if let Some(values) = schema.get("enum").and_then(Value::as_array) {
            return Ok(self.choose(schema, values));
        }
        for key in ["anyOf", "oneOf"] {
            if let Some(ways) = schema.get(key).and_then(Value::as_array) {
                let real = ways.iter().find(|way| way.get("type").and_then(Value::as_str) != Some("null"));
                return self.value(name, real.or(ways.first()).unwrap_or(&Value::Null), depth + 1);
            }
        }
        if let Some(parts) = schema.get("allOf").and_then(Value::as_array) {
            return self.value(name, &merged(schema, parts), depth + 1);
        }
        match kind(schema) {
            "object" => self.object(schema, depth),
            "array" => self.array(name, schema, depth),
            "integer" | "number" => Ok(self.number(schema)),
            "boolean" => Ok(Value::Bool(self.stems.overlap(&Stems::of(&about(name, schema))) > 0)),
            "null" => Ok(Value::Null),
            _ => Ok(Value::String(self.string(name, schema))),
        }
    }

    fn object(&self, schema: &Value, depth: usize) -> Result<Value, Unwritable> {
        let mut object = Map::new();
        for name in schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
            let part = schema.get("properties").and_then(|all| all.get(name)).unwrap_or(&Value::Null);
            object.insert(name.to_owned(), self.value(name, part, depth + 1)?);
        }
        // What is optional may stand there or not.
        for (name, part) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            if !object.contains_key(name) && self.noise.once_in(2) {
                object.insert(name.clone(), self.value(name, part, depth + 1)?);
            }
        }
        Ok(Value::Object(object))
    }

    /// Of an enum, every value that the text speaks for; of anything else, one.
    fn array(&self, name: &str, schema: &Value, depth: usize) -> Result<Value, Unwritable> {
        let size = |key| schema.get(key).and_then(Value::as_u64).and_then(|size| usize::try_from(size).ok());
        let (least, most) = (size("minItems").unwrap_or(0), size("maxItems").unwrap_or(usize::MAX));
        let items = schema.get("items").unwrap_or(&Value::Null);
        if let Some(values) = items.get("enum").and_then(Value::as_array) {
            let values: Vec<&str> = values.iter().filter_map(Value::as_str).collect();
            let ranked = self.rank(items, &values);
            let wanted = ranked.iter().filter(|(_, score)| *score > 0).count().max(least).min(most);
            return Ok(ranked.into_iter().take(wanted).map(|(value, _)| value).collect());
        }
        let mut all = Vec::new();
        while all.len() < least.max(1).min(most) {
            let item = self.value(name, items, depth + 1)?;
            all.push(match item {
                Value::String(text) if all.contains(&Value::String(text.clone())) => {
                    json!(format!("{text} {}", all.len() + 1))
                }
                other => other,
            });
        }
        Ok(Value::Array(all))
    }

    fn choose(&self, schema: &Value, values: &[Value]) -> Value {
        let texts: Vec<&str> = values.iter().filter_map(Value::as_str).collect();
        match self.rank(schema, &texts).first() {
            Some((best, _)) => json!(best),
            None => values.first().cloned().unwrap_or(Value::Null),
        }
    }

    fn rank<'v>(&self, schema: &Value, values: &[&'v str]) -> Vec<(&'v str, usize)> {
        let description = schema.get("description").and_then(Value::as_str).unwrap_or("");
        self.stems.rank(values, &[description, self.explained])
    }

    /// The first number of the text that fits, else the smallest that does. Whole numbers of any size stay exact.
    fn number(&self, schema: &Value) -> Value {
        if let Some(exact) = self.large(schema) {
            return exact;
        }
        let bound = |key| schema.get(key).and_then(Value::as_f64);
        let whole = kind(schema) == "integer";
        let step = bound("multipleOf").or(whole.then_some(1.0));
        let low = bound("minimum").or(bound("exclusiveMinimum").map(|low| low + step.unwrap_or(0.5)));
        let high = bound("maximum").or(bound("exclusiveMaximum").map(|high| high - step.unwrap_or(0.5)));
        let fits = |n: &f64| {
            low.is_none_or(|low| *n >= low)
                && high.is_none_or(|high| *n <= high)
                && step.is_none_or(|step| n % step == 0.0)
        };
        let words = self.text.split(|c: char| !(c.is_ascii_digit() || c == '.' || c == '-'));
        let said = words.filter_map(|word| word.trim_end_matches('.').parse::<f64>().ok()).find(fits);
        let smallest = low.or(high.map(|high| high.min(1.0))).unwrap_or(1.0);
        let number = said.unwrap_or_else(|| step.map_or(smallest, |step| (smallest / step).ceil() * step));
        // Whole numbers are written as such: `2.0` is no integer to many readers.
        if number.fract() == 0.0 && number.abs() < 9.0e15 { json!(number as i64) } else { json!(number) }
    }

    /// A whole number of the text that a double could not hold, if the schema takes it.
    fn large(&self, schema: &Value) -> Option<Value> {
        const EXACT: u64 = 1 << 53;
        let words = self.text.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse::<u64>().ok());
        let mut large = words.filter(|number| *number > EXACT).map(|number| json!(number));
        let validator = jsonschema::validator_for(schema).ok()?;
        large.find(|number| validator.is_valid(number))
    }

    fn string(&self, name: &str, schema: &Value) -> String {
        let size = |key| schema.get(key).and_then(Value::as_u64).and_then(|size| usize::try_from(size).ok());
        if schema.get("pattern").is_some() || schema.get("format").is_some() {
            return self.matching(schema).unwrap_or_default();
        }
        let mut text = self.worded(self.named(name));
        if let Some(most) = size("maxLength") {
            text = text.chars().take(most).collect::<String>().trim_end().to_owned();
        }
        while size("minLength").is_some_and(|least| text.chars().count() < least) {
            text.push('.');
        }
        text
    }

    /// A sentence in one of several wordings; what is no sentence stays as it is.
    fn worded(&self, text: &str) -> String {
        if !text.contains(' ') {
            return text.to_owned();
        }
        match self.noise.below(5) {
            1 => text.trim_end_matches(['.', '!', '?']).to_owned(),
            2 => format!("In short: {text}"),
            3 => format!("The writer says: {text}"),
            4 => text.replace(", ", "; "),
            _ => text.to_owned(),
        }
    }

    /// A word of the text, an example of the schema or a stock value that matches the pattern or format.
    fn matching(&self, schema: &Value) -> Option<String> {
        const STOCK: [&str; 9] = [
            "2026-01-01",
            "2026-01-01T00:00:00Z",
            "00:00:00Z",
            "user@example.com",
            "https://example.com/",
            "a",
            "A-1",
            "00000000-0000-4000-8000-000000000000",
            "127.0.0.1",
        ];
        let member = |key| schema.get(key).cloned().unwrap_or_else(|| json!(""));
        let narrow = json!({"type": "string", "pattern": member("pattern"), "format": member("format")});
        let validator = jsonschema::options().should_validate_formats(true).build(&narrow).ok()?;
        let words = self.text.split_whitespace();
        let trimmed = words.clone().map(|word| word.trim_matches(|c: char| !c.is_alphanumeric()));
        let examples = schema.get("examples").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
        let all =
            trimmed.chain(words).chain(examples).chain(schema.get("default").and_then(Value::as_str)).chain(STOCK);
        let found = all.filter(|word| !word.is_empty()).find(|word| validator.is_valid(&json!(word)));
        let made =
            || pattern::example(schema.get("pattern")?.as_str()?).filter(|made| validator.is_valid(&json!(made)));
        found.map(str::to_owned).or_else(made)
    }

    /// What of the text a property of this name asks for.
    fn named(&self, name: &str) -> &str {
        let name = name.to_lowercase();
        let asks = |words: &[&str]| name.split(['_', '-']).any(|part| words.contains(&part));
        let mut words = self.text.split_whitespace().map(|word| word.trim_matches(|c: char| !c.is_alphanumeric()));
        let found = if asks(&["city", "location", "place", "country", "name", "person", "town"]) {
            // A name is a capitalised word that does not merely begin a sentence.
            words.skip(1).find(|word| word.chars().next().is_some_and(char::is_uppercase) && word.chars().count() > 1)
        } else if asks(&["email"]) {
            words.find(|word| word.contains('@'))
        } else if asks(&["id", "number", "order", "reference", "code"]) {
            words.find(|word| word.chars().any(|c| c.is_ascii_digit()))
        } else {
            None
        };
        match found.unwrap_or_else(|| first_sentence(self.text)) {
            "" => "nothing",
            text => text,
        }
    }
}

fn about(name: &str, schema: &Value) -> String {
    let description = schema.get("description").and_then(Value::as_str).unwrap_or("");
    format!("{} {description}", name.replace(['_', '-'], " "))
}

fn kind(schema: &Value) -> &str {
    match schema.get("type") {
        Some(Value::String(kind)) => kind,
        Some(Value::Array(kinds)) => {
            kinds.iter().filter_map(Value::as_str).find(|kind| *kind != "null").unwrap_or("null")
        }
        _ if schema.get("properties").is_some() || schema.get("required").is_some() => "object",
        _ if schema.get("items").is_some() => "array",
        _ => "string",
    }
}

/// `allOf`, read as one schema: members of objects are joined, the last of anything else wins.
fn merged(schema: &Value, parts: &[Value]) -> Value {
    let mut whole = schema.as_object().cloned().unwrap_or_default();
    whole.remove("allOf");
    for (key, value) in parts.iter().filter_map(Value::as_object).flatten() {
        match (whole.get_mut(key), value) {
            (Some(Value::Object(into)), Value::Object(from)) => into.extend(from.clone()),
            (Some(Value::Array(into)), Value::Array(from)) => into.extend(from.iter().cloned()),
            _ => drop(whole.insert(key.clone(), value.clone())),
        }
    }
    Value::Object(whole)
}
