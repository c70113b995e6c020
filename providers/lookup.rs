//! Asking a provider what became of a request whose answer was lost, and telling it to stop: the questions, and what
//! the answers may prove.
//!
//! Asking has no side effects and may be done twice. Only providers that were given the attempt's id with the request, or
//! gave an id of their own, can be asked, so each way is switched on by name in the settings ([`Way`]); nobody is asked
//! by default.

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method};
use std::time::Duration;

use crate::adapter::StreamPiece;
use crate::canonical::Answer;
use crate::failure::{Failure, clean};

/// How a provider is asked: the setting `lookup`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Chat completions stored at the provider, found by their metadata (`openai/stored.rs`).
    Stored,
    /// llama-server's resumable streams, found by their conversation id (`openai/conversation.rs`).
    Conversation,
    /// OpenAI's responses in background mode, found by the id that the provider gave them (`responses/background.rs`).
    Background,
}

impl Way {
    pub const ALL: [Way; 3] = [Way::Stored, Way::Conversation, Way::Background];

    /// Whether nothing can be asked until the provider has said its own id of the work.
    pub fn needs_reference(self) -> bool {
        match self {
            Way::Stored | Way::Conversation => false,
            Way::Background => true,
        }
    }

    /// The setting's word.
    pub fn as_str(self) -> &'static str {
        match self {
            Way::Stored => "stored",
            Way::Conversation => "conversation",
            Way::Background => "background",
        }
    }

    pub fn from_word(word: &str) -> Option<Way> {
        Way::ALL.into_iter().find(|way| way.as_str() == word)
    }
}

/// One question, or one order to stop.
#[derive(Debug, Clone)]
pub struct LookupRequest {
    /// Which step of the asking this is, in one word: it stands in the evidence.
    pub step: &'static str,
    pub method: Method,
    /// With its query; appended to the provider's base URL.
    pub path: String,
    pub headers: Vec<(HeaderName, HeaderValue)>,
    pub body: Bytes,
    /// How long the answer's body must be, where an earlier step said so: less of it is not the whole.
    pub expected_bytes: Option<u64>,
}

/// What the provider says.
#[derive(Debug)]
pub enum LookupAnswer {
    /// It knows the request; this further question gets the rest.
    Ask(LookupRequest),
    /// The whole answer, and the pieces in which it was streamed; none where it came whole.
    Finished {
        answer: Answer,
        pieces: Vec<StreamPiece>,
    },
    /// It has ended without a result: the failure's proof is never `Unknown`.
    Failed(Failure),
    Running,
    /// It knows of no such request. What that proves is for the caller to judge: a request may still be on its way.
    Absent(Absence),
    /// The answer says nothing that can be relied on.
    Unreadable(String),
}

/// What a provider's "no such request" covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Absence {
    /// Whether a request that is still worked on would have been seen. Where not, it is absent until it has ended.
    pub shows_running: bool,
    /// How long a request that has ended is remembered; `None`: for longer than anybody asks.
    pub remembered_for: Option<Duration>,
}

impl LookupAnswer {
    pub fn unreadable(why: impl AsRef<str>) -> Self {
        LookupAnswer::Unreadable(clean(why.as_ref()))
    }
}

/// A value in a query: everything but RFC 3986's unreserved characters is encoded.
pub(crate) fn in_query(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_has_a_word_of_its_own() {
        for way in Way::ALL {
            assert_eq!(Way::from_word(way.as_str()), Some(way));
        }
        assert_eq!(Way::from_word("guess"), None);
    }

    #[test]
    fn a_value_cannot_leave_its_place_in_the_query() {
        assert_eq!(in_query("a-b_c.~1"), "a-b_c.~1");
        assert_eq!(in_query("m&limit=9 [ä]"), "m%26limit%3D9%20%5B%C3%A4%5D");
    }
}
