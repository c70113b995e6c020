//! Why a document was refused, in words that name the cure. It must never repeat the document: only a member's name,
//! shortened and cleaned, is quoted.

use std::fmt;

use crate::failure::clean;

/// What is wrong, and at which byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonError {
    pub kind: JsonErrorKind,
    /// Bytes from the start of the document.
    pub offset: usize,
    /// What stood there or was expected: a fixed phrase.
    pub(super) detail: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JsonErrorKind {
    DuplicateName {
        name: String,
    },
    TooDeep,
    TooManyValues,
    /// Bytes that are no UTF-8, or half of a surrogate pair.
    InvalidUnicode,
    /// A number that is neither an integer nor a finite double: `1e999`.
    NumberOutOfRange,
    Syntax,
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.offset;
        match &self.kind {
            JsonErrorKind::DuplicateName { name } => {
                let short: String = name.chars().take(64).collect();
                write!(f, "the member name \"{}\" appears twice in one object (byte {at}): send it once", clean(&short))
            }
            JsonErrorKind::TooDeep => {
                write!(f, "nested deeper than {} levels (byte {at}): flatten the document", super::MAX_DEPTH)
            }
            JsonErrorKind::TooManyValues => {
                write!(f, "more than {} values (byte {at}): split the document", super::MAX_VALUES)
            }
            JsonErrorKind::InvalidUnicode => {
                write!(f, "{} (byte {at}): send whole Unicode characters as UTF-8", self.detail)
            }
            JsonErrorKind::NumberOutOfRange => {
                write!(f, "a number too large for a double (byte {at}): send a smaller one, or a string")
            }
            JsonErrorKind::Syntax => write!(f, "not valid JSON: {} (byte {at})", self.detail),
        }
    }
}

impl std::error::Error for JsonError {}
