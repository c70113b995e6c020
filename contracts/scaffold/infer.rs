//! A JSON Schema that fits the answers that were seen, and nothing that has a key more.
//!
//! It knows types and keys only: which strings are one of few values, or how long they may be, one answer does not tell.

use providers::json::{Json, Object};

/// The schema of values that were all seen at the same place.
pub(super) fn schema(values: &[&Json]) -> Json {
    let mut out = Object::new();
    let mut types: Vec<&str> = Vec::new();
    for value in values {
        let name = type_of(value);
        if !types.contains(&name) {
            types.push(name);
        }
    }
    if types.contains(&"number") {
        types.retain(|name| *name != "integer");
    }
    match types.as_slice() {
        [] => return Json::Object(out),
        [one] => out.insert("type", *one),
        several => out.insert("type", several.iter().map(|name| Json::from(*name)).collect::<Vec<_>>()),
    };
    if types.contains(&"object") {
        object(&values.iter().filter_map(|v| v.as_object()).collect::<Vec<_>>(), &mut out);
    }
    if types.contains(&"array") {
        let items: Vec<&Json> = values.iter().filter_map(|v| v.as_array()).flatten().collect();
        if !items.is_empty() {
            out.insert("items", schema(&items));
        }
    }
    Json::Object(out)
}

fn object(objects: &[&Object], out: &mut Object) {
    let mut properties = Object::new();
    let mut required = Vec::new();
    for object in objects {
        for (name, _) in object.iter() {
            if properties.contains_key(name) {
                continue;
            }
            let seen: Vec<&Json> = objects.iter().filter_map(|o| o.get(name)).collect();
            if seen.len() == objects.len() {
                required.push(Json::from(name));
            }
            properties.insert(name, schema(&seen));
        }
    }
    out.insert("properties", properties);
    out.insert("required", required);
    out.insert("additionalProperties", false);
}

fn type_of(value: &Json) -> &'static str {
    match value {
        Json::Null => "null",
        Json::Bool(_) => "boolean",
        Json::Number(number) if number.as_str().contains(['.', 'e', 'E']) => "number",
        Json::Number(_) => "integer",
        Json::String(_) => "string",
        Json::Array(_) => "array",
        Json::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inferred(values: &[&str]) -> String {
        let values: Vec<Json> = values.iter().map(|text| Json::parse(text.as_bytes()).unwrap()).collect();
        let schema = schema(&values.iter().collect::<Vec<_>>());
        for value in &values {
            assert!(jsonschema::is_valid(&schema.to_serde(), &value.to_serde()), "{value:?} does not fit {schema:?}");
        }
        String::from_utf8(schema.to_bytes().to_vec()).unwrap()
    }

    #[test]
    fn a_schema_fits_what_it_was_inferred_from_and_nothing_with_a_key_more() {
        assert_eq!(
            inferred(&[r#"{"a":1,"b":["x"]}"#]),
            r#"{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"array","items":{"type":"string"}}},"required":["a","b"],"additionalProperties":false}"#
        );
    }

    #[test]
    fn several_answers_say_what_is_optional_what_may_be_null_and_what_is_no_integer() {
        let schema = inferred(&[r#"{"a":1,"n":null}"#, r#"{"a":1.5,"n":"x","extra":[]}"#]);
        assert!(schema.contains(r#""a":{"type":"number"}"#), "{schema}");
        assert!(schema.contains(r#""n":{"type":["null","string"]}"#), "{schema}");
        assert!(
            schema.contains(r#""extra":{"type":"array"}"#) && schema.contains(r#""required":["a","n"]"#),
            "{schema}"
        );
    }

    #[test]
    fn mixed_items_and_scalars_fit_too() {
        inferred(&["[1, \"x\", {\"a\": null}]", "[]"]);
        inferred(&["3"]);
    }
}
