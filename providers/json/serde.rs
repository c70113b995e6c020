//! To and from `serde_json`, for the libraries that want it (JSON Schema validation, assertions on values).
//!
//! Integers beyond 64 bits become doubles there: nothing that goes to a provider may take this way.

use serde_json::Value;

use super::{Json, Number, Object};

impl Json {
    /// The same document as `serde_json` would have read it; an integer beyond 64 bits is rounded to a double.
    pub fn to_serde(&self) -> Value {
        match self {
            Json::Null => Value::Null,
            Json::Bool(value) => Value::Bool(*value),
            Json::Number(number) => Value::Number(number_to_serde(number)),
            Json::String(text) => Value::String(text.clone()),
            Json::Array(items) => Value::Array(items.iter().map(Json::to_serde).collect()),
            Json::Object(object) => {
                Value::Object(object.iter().map(|(name, value)| (name.to_owned(), value.to_serde())).collect())
            }
        }
    }
}

fn number_to_serde(number: &Number) -> serde_json::Number {
    let text = number.as_str();
    if let Ok(value) = text.parse::<u64>() {
        return value.into();
    }
    // `-0` is a double in serde_json too: as an integer it would lose its sign.
    if let Some(value) = text.parse::<i64>().ok().filter(|value| *value != 0) {
        return value.into();
    }
    let finite = number.as_f64().clamp(f64::MIN, f64::MAX);
    serde_json::Number::from_f64(finite).expect("clamped to the finite range")
}

impl From<&Value> for Json {
    fn from(value: &Value) -> Json {
        match value {
            Value::Null => Json::Null,
            Value::Bool(value) => Json::Bool(*value),
            Value::Number(number) => Json::Number(Number::from_checked(&number.to_string())),
            Value::String(text) => Json::String(text.clone()),
            Value::Array(items) => Json::Array(items.iter().map(Json::from).collect()),
            Value::Object(map) => Json::Object(Object::from_unique(
                map.iter().map(|(name, value)| (name.clone(), Json::from(value))).collect(),
            )),
        }
    }
}
