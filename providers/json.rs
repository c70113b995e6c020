//! Exact JSON: a client's document is kept as it was meant, digit for digit, in its own order.
//!
//! No library at hand does all that a gateway needs at once: keep a number's digits (`serde_json` rounds 20-digit ids
//! through a double; with `arbitrary_precision` it rewrites `1e2` and lets `1e999` in), refuse duplicate member names
//! (it keeps the last one, a provider may take the first: two readings of one request), cap depth and size, and refuse
//! lone surrogates with a place to look at. So the reader is our own: one pass, strict RFC 8259, nothing lenient.
//! It must never change a number's text and never accept what another strict parser would refuse.

mod canonical;
mod error;
mod number;
mod object;
mod parse;
mod serde;
#[cfg(test)]
mod tests;
mod write;

use bytes::Bytes;

pub use error::{JsonError, JsonErrorKind};
pub use number::{InvalidNumber, Number};
pub use object::Object;

/// Nesting deeper than this is refused: 128 arrays within each other are fine, 129 are not.
pub const MAX_DEPTH: usize = 128;

/// More values than this in one document (containers and leaves together) are refused.
pub const MAX_VALUES: usize = 500_000;

/// One JSON value. Equality is textual: `1` and `1.0` differ here, and so do two orders of the same members;
/// [`Json::canonical`] is the form to compare meanings by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Json {
    Null,
    Bool(bool),
    Number(Number),
    String(String),
    Array(Vec<Json>),
    Object(Object),
}

impl Json {
    /// Reads one document. Refuses everything that RFC 8259 does not allow, and duplicate names, lone surrogates,
    /// numbers that no double and no integer can hold, more than [`MAX_DEPTH`] levels or [`MAX_VALUES`] values.
    pub fn parse(input: &[u8]) -> Result<Json, JsonError> {
        parse::document(input, false)
    }

    /// As [`Json::parse`], for answers: within a member `logprobs`, and nowhere else, `-Infinity`, `Infinity` and `NaN`
    /// are read as null. Servers send them for impossible tokens (field case B152).
    pub(crate) fn parse_with_loose_logprobs(input: &[u8]) -> Result<Json, JsonError> {
        parse::document(input, true)
    }

    /// The compact form; numbers exactly as they were read.
    pub fn to_bytes(&self) -> Bytes {
        let mut out = Vec::new();
        self.write_to(&mut out);
        Bytes::from(out)
    }

    /// The compact form of an object with these members, as they are: each name comes once.
    pub(crate) fn members_to_bytes<'a>(members: impl Iterator<Item = (&'a str, &'a Json)>) -> Bytes {
        let mut out = Vec::with_capacity(2048);
        write::members(members, &mut out);
        Bytes::from(out)
    }

    /// Appends the compact form.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        write::value(self, out);
    }

    /// Appends the form that fingerprints are made of: RFC 8785 order and escaping, with one departure so that
    /// integers beyond ±2^53 keep all their digits. Equal meaning gives equal bytes.
    pub fn canonical(&self, out: &mut Vec<u8>) {
        canonical::value(self, out);
    }

    /// The member `name`, where this is an object that has it.
    pub fn get(&self, name: &str) -> Option<&Json> {
        self.as_object()?.get(name)
    }

    /// As [`Json::get`], but a `null` member counts as absent.
    pub fn get_some(&self, name: &str) -> Option<&Json> {
        self.get(name).filter(|value| !value.is_null())
    }

    pub fn is_null(&self) -> bool {
        matches!(self, Json::Null)
    }

    pub fn as_bool(&self) -> Option<bool> {
        if let Json::Bool(value) = self { Some(*value) } else { None }
    }

    pub fn as_number(&self) -> Option<&Number> {
        if let Json::Number(value) = self { Some(value) } else { None }
    }

    /// An integer from 0 to 2^64−1, however it is written (`50`, `50.0`).
    pub fn as_u64(&self) -> Option<u64> {
        self.as_number()?.as_u64()
    }

    pub fn as_str(&self) -> Option<&str> {
        if let Json::String(value) = self { Some(value) } else { None }
    }

    pub fn as_array(&self) -> Option<&[Json]> {
        if let Json::Array(value) = self { Some(value) } else { None }
    }

    pub fn as_object(&self) -> Option<&Object> {
        if let Json::Object(value) = self { Some(value) } else { None }
    }

    pub fn as_object_mut(&mut self) -> Option<&mut Object> {
        if let Json::Object(value) = self { Some(value) } else { None }
    }

    pub fn into_object(self) -> Option<Object> {
        if let Json::Object(value) = self { Some(value) } else { None }
    }

    /// What the value is, in the words of an error message: `an object`, `a string`.
    pub fn kind(&self) -> &'static str {
        match self {
            Json::Null => "null",
            Json::Bool(_) => "a boolean",
            Json::Number(_) => "a number",
            Json::String(_) => "a string",
            Json::Array(_) => "an array",
            Json::Object(_) => "an object",
        }
    }
}

impl From<&str> for Json {
    fn from(value: &str) -> Json {
        Json::String(value.to_owned())
    }
}

impl From<String> for Json {
    fn from(value: String) -> Json {
        Json::String(value)
    }
}

impl From<bool> for Json {
    fn from(value: bool) -> Json {
        Json::Bool(value)
    }
}

impl From<u64> for Json {
    fn from(value: u64) -> Json {
        Json::Number(Number::from_u64(value))
    }
}

impl From<Number> for Json {
    fn from(value: Number) -> Json {
        Json::Number(value)
    }
}

impl From<Object> for Json {
    fn from(value: Object) -> Json {
        Json::Object(value)
    }
}

impl From<Vec<Json>> for Json {
    fn from(value: Vec<Json>) -> Json {
        Json::Array(value)
    }
}
