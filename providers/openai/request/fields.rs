//! Reading single members, and the words of a refusal.

use super::InvalidRequest;
use crate::json::{Json, Number, Object};

pub(crate) fn invalid(param: impl Into<String>, code: &'static str, message: impl Into<String>) -> InvalidRequest {
    InvalidRequest { param: param.into(), code, message: message.into() }
}

/// The member has another JSON type than it must have.
pub(crate) fn expected(param: impl Into<String>, what: &str, found: &Json) -> InvalidRequest {
    invalid(param, "invalid_type", format!("must be {what}, not {}", found.kind()))
}

pub(crate) fn boolean(object: &Object, name: &str) -> Result<Option<bool>, InvalidRequest> {
    match object.get_some(name) {
        None => Ok(None),
        Some(Json::Bool(value)) => Ok(Some(*value)),
        Some(other) => Err(expected(name, "a boolean", other)),
    }
}

pub(crate) fn number(object: &Object, name: &str) -> Result<Option<Number>, InvalidRequest> {
    match object.get_some(name) {
        None => Ok(None),
        Some(Json::Number(value)) => Ok(Some(value.clone())),
        Some(other) => Err(expected(name, "a number", other)),
    }
}

/// An integer of at least 1.
pub(crate) fn positive(object: &Object, name: &str) -> Result<Option<u64>, InvalidRequest> {
    match object.get_some(name) {
        None => Ok(None),
        Some(Json::Number(value)) => match value.as_u64() {
            Some(value) if value > 0 => Ok(Some(value)),
            _ => Err(invalid(name, "invalid_value", format!("must be an integer of at least 1, not {}", short(value)))),
        },
        Some(other) => Err(expected(name, "an integer", other)),
    }
}

fn short(number: &Number) -> String {
    number.as_str().chars().take(32).collect()
}

/// A string member that must be there.
pub(crate) fn required_text(object: &Object, at: &str, name: &str) -> Result<String, InvalidRequest> {
    match object.get_some(name) {
        Some(Json::String(text)) => Ok(text.clone()),
        Some(other) => Err(expected(format!("{at}.{name}"), "a string", other)),
        None => Err(invalid(format!("{at}.{name}"), "missing_required_parameter", "must be a string")),
    }
}

/// A string member that may be absent or null.
pub(crate) fn optional_text(object: &Object, at: &str, name: &str) -> Result<Option<String>, InvalidRequest> {
    match object.get_some(name) {
        None => Ok(None),
        Some(Json::String(text)) => Ok(Some(text.clone())),
        Some(other) => Err(expected(format!("{at}.{name}"), "a string", other)),
    }
}
