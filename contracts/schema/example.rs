//! A value that fits a JSON Schema, made from the schema alone: the ground from which forbidden answers are made.
//!
//! Plain constructions only. Whoever calls validates what came out; a schema that is too clever has no example, and
//! then says so.

use regex_syntax::hir::{Class, Hir, HirKind};
use serde_json::{Map, Value, json};

/// Deeper than this a schema refers to itself.
const DEEPEST: usize = 12;
/// More repetitions than this make no example that anybody should be asked for.
const MOST: u64 = 400;

/// A value that should fit, with every member that the schema names.
pub(crate) fn example(schema: &Value) -> Option<Value> {
    Maker { root: schema }.value(schema, 0)
}

/// What a local `$ref` points to; the node itself where it has none.
pub(super) fn resolved<'a>(root: &'a Value, node: &'a Value) -> Option<&'a Value> {
    let mut node = node;
    for _ in 0..DEEPEST {
        match node.get("$ref").and_then(Value::as_str) {
            Some(reference) => node = root.pointer(reference.strip_prefix('#')?)?,
            None => return Some(node),
        }
    }
    None
}

struct Maker<'a> {
    root: &'a Value,
}

impl Maker<'_> {
    fn value(&self, node: &Value, depth: usize) -> Option<Value> {
        if depth > DEEPEST {
            return None;
        }
        let node = resolved(self.root, node)?;
        if let Some(fixed) = node.get("const") {
            return Some(fixed.clone());
        }
        if let Some(first) = node.get("enum").and_then(Value::as_array).and_then(|all| all.first()) {
            return Some(first.clone());
        }
        for key in ["anyOf", "oneOf"] {
            if let Some(ways) = node.get(key).and_then(Value::as_array) {
                return ways.iter().find_map(|way| self.value(way, depth + 1));
            }
        }
        if let Some(parts) = node.get("allOf").and_then(Value::as_array) {
            return self.value(&self.merged(node, parts)?, depth + 1);
        }
        match kind(node) {
            "object" => self.object(node, depth),
            "array" => self.array(node, depth),
            "integer" => Some(number(node, true)),
            "number" => Some(number(node, false)),
            "boolean" => Some(json!(true)),
            "null" => Some(Value::Null),
            _ => string(node).map(Value::String),
        }
    }

    fn object(&self, node: &Value, depth: usize) -> Option<Value> {
        let mut out = Map::new();
        let properties = node.get("properties").and_then(Value::as_object);
        for (name, property) in properties.into_iter().flatten() {
            out.insert(name.clone(), self.value(property, depth + 1)?);
        }
        for name in node.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
            out.entry(name).or_insert_with(|| json!("alpha"));
        }
        Some(Value::Object(out))
    }

    fn array(&self, node: &Value, depth: usize) -> Option<Value> {
        let most = size(node, "maxItems").unwrap_or(u64::MAX);
        let least = size(node, "minItems").unwrap_or(0).max(1).min(most);
        let first = node.get("prefixItems").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let mut out: Vec<Value> = first.iter().map(|item| self.value(item, depth + 1)).collect::<Option<_>>()?;
        let items = node.get("items").cloned().unwrap_or_else(|| json!({"type": "string"}));
        while (out.len() as u64) < least.min(MOST) && items != json!(false) {
            let item = self.value(&items, depth + 1)?;
            let item = if out.contains(&item) { another(&item, &items, out.len()) } else { item };
            out.push(item);
        }
        Some(Value::Array(out))
    }

    /// `allOf`, read as one schema: members of objects are joined, the last of anything else wins.
    fn merged(&self, node: &Value, parts: &[Value]) -> Option<Value> {
        let mut whole = node.as_object().cloned().unwrap_or_default();
        whole.remove("allOf");
        for part in parts {
            for (key, value) in resolved(self.root, part)?.as_object()? {
                match (whole.get_mut(key), value) {
                    (Some(Value::Object(into)), Value::Object(from)) => into.extend(from.clone()),
                    (Some(Value::Array(into)), Value::Array(from)) => into.extend(from.iter().cloned()),
                    _ => drop(whole.insert(key.clone(), value.clone())),
                }
            }
        }
        Some(Value::Object(whole))
    }
}

/// A value like this one and different from it, for lists whose items must differ.
pub(super) fn another(item: &Value, schema: &Value, n: usize) -> Value {
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        return values.get(n).or(values.first()).cloned().unwrap_or(Value::Null);
    }
    match item {
        Value::String(text) => json!(format!("{text}{n}")),
        Value::Number(number) => {
            let step = schema.get("multipleOf").and_then(Value::as_i64).unwrap_or(1);
            json!(number.as_i64().unwrap_or_default().saturating_add(step.saturating_mul(n as i64)))
        }
        other => other.clone(),
    }
}

fn kind(node: &Value) -> &str {
    match node.get("type") {
        Some(Value::String(kind)) => kind,
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).find(|k| *k != "null").unwrap_or("null"),
        _ if node.get("properties").is_some() || node.get("required").is_some() => "object",
        _ if node.get("items").is_some() || node.get("prefixItems").is_some() => "array",
        _ if node.get("minimum").is_some() || node.get("maximum").is_some() => "number",
        _ => "string",
    }
}

fn size(node: &Value, key: &str) -> Option<u64> {
    node.get(key).and_then(Value::as_u64)
}

fn number(node: &Value, whole: bool) -> Value {
    let bound = |key| node.get(key).and_then(Value::as_f64);
    let step = bound("multipleOf").or(whole.then_some(1.0));
    let small = step.unwrap_or(0.5);
    let low = bound("minimum").or(bound("exclusiveMinimum").map(|low| low + small));
    let high = bound("maximum").or(bound("exclusiveMaximum").map(|high| high - small));
    let start = low.or(high.map(|high| high.min(1.0))).unwrap_or(1.0);
    let value = step.map_or(start, |step| (start / step).ceil() * step);
    if value.fract() == 0.0 && value.abs() < 9.0e15 { json!(value as i64) } else { json!(value) }
}

fn string(node: &Value) -> Option<String> {
    let mut text = match (node.get("pattern").and_then(Value::as_str), node.get("format").and_then(Value::as_str)) {
        (Some(pattern), _) => matching(pattern)?,
        (None, Some(format)) => formatted(format).to_owned(),
        (None, None) => "alpha".to_owned(),
    };
    if let Some(most) = size(node, "maxLength") {
        text = text.chars().take(usize::try_from(most).unwrap_or(usize::MAX)).collect();
    }
    let least = size(node, "minLength").unwrap_or(0);
    if least > MOST {
        return None;
    }
    while (text.chars().count() as u64) < least {
        text.push('a');
    }
    Some(text)
}

fn formatted(format: &str) -> &'static str {
    match format {
        "date" => "2026-01-02",
        "date-time" => "2026-01-02T03:04:05Z",
        "time" => "03:04:05Z",
        "duration" => "P1D",
        "email" | "idn-email" => "ada@example.com",
        "hostname" | "idn-hostname" => "example.com",
        "ipv4" => "192.0.2.1",
        "ipv6" => "2001:db8::1",
        "uri" | "iri" => "https://example.com/a",
        "uri-reference" | "iri-reference" => "/a",
        "uuid" => "00000000-0000-4000-8000-000000000000",
        "json-pointer" => "/a",
        "relative-json-pointer" => "1/a",
        "regex" => "a+",
        _ => "alpha",
    }
}

/// A text that a pattern matches. Patterns beyond regular expressions proper have none.
fn matching(pattern: &str) -> Option<String> {
    let mut out = String::new();
    write(&regex_syntax::parse(pattern).ok()?, &mut out)?;
    Some(out)
}

fn write(hir: &Hir, out: &mut String) -> Option<()> {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => {}
        HirKind::Literal(literal) => out.push_str(std::str::from_utf8(&literal.0).ok()?),
        HirKind::Class(class) => out.push(one_of(class)?),
        HirKind::Repetition(repetition) => {
            for _ in 0..u64::from(repetition.min).min(MOST) {
                write(&repetition.sub, out)?;
            }
        }
        HirKind::Capture(capture) => write(&capture.sub, out)?,
        HirKind::Concat(parts) => parts.iter().try_for_each(|part| write(part, out))?,
        HirKind::Alternation(ways) => write(ways.first()?, out)?,
    }
    Some(())
}

fn one_of(class: &Class) -> Option<char> {
    let Class::Unicode(class) = class else { return None };
    let holds = |c: char| class.ranges().iter().any(|range| (range.start()..=range.end()).contains(&c));
    ['a', 'A', '1', '-', ' '].into_iter().find(|c| holds(*c)).or_else(|| class.ranges().first().map(|r| r.start()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_example_fits_its_schema() {
        let schemas = [
            json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "^[A-Z]{3}-\\d{2,4}$"},
                "b": {"type": "array", "items": {"type": "integer", "minimum": 3, "multipleOf": 5}, "minItems": 3, "uniqueItems": true}},
                "required": ["a", "b"], "additionalProperties": false}),
            json!({"$defs": {"day": {"type": "string", "format": "date"}}, "type": "object",
                "properties": {"at": {"$ref": "#/$defs/day"}, "n": {"type": ["null", "number"], "exclusiveMinimum": 1, "maximum": 2}}}),
            json!({"anyOf": [{"type": "string", "minLength": 9, "maxLength": 10}, {"type": "null"}]}),
            json!({"allOf": [{"type": "object", "properties": {"x": {"const": 7}}}, {"required": ["x"]}]}),
        ];
        for schema in schemas {
            let value = example(&schema).unwrap();
            let validator = jsonschema::options().should_validate_formats(true).build(&schema).unwrap();
            assert!(validator.is_valid(&value), "{value} does not fit {schema}");
        }
    }

    #[test]
    fn what_refers_to_itself_without_end_has_no_example() {
        let endless = json!({"type": "object", "properties": {"next": {"$ref": "#"}}});
        assert_eq!(example(&endless), None);
    }
}
