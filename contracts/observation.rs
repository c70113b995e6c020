//! What was seen when a provider was asked: an answer, or in words why there is none.
//!
//! Checks judge observations and nothing else, so that a live run and a replay are judged by the same code.

use providers::adapter::Unsupported;
use providers::canonical::{Choice, Reply, Usage};
use providers::failure::{Failure, Proof, Rejection};

/// What one call came to.
#[derive(Debug, Clone)]
pub enum Observation {
    Answered(Reply),
    Failed(Failure),
    /// The adapter cannot carry the request to this provider.
    Unsupported(Unsupported),
    /// The suite's own request is not a valid one.
    Invalid(String),
    /// Replay only: nobody recorded this exchange.
    NotRecorded {
        file: String,
    },
    /// Replay only: what is sent today is not what was recorded.
    Stale {
        file: String,
        difference: String,
    },
    /// The exchange could not be written down, or what was written down cannot be read.
    Recording(String),
}

/// What a request for a token count came to.
#[derive(Debug, Clone)]
pub enum Count {
    Tokens(u64),
    /// The provider has no endpoint for it.
    NoEndpoint,
    /// In words, why there is no number.
    Failed(String),
    /// There is no exchange to read it from: not recorded, stale, unreadable.
    Nothing(Observation),
}

impl Count {
    pub fn tokens(&self) -> Option<u64> {
        if let Count::Tokens(n) = self { Some(*n) } else { None }
    }
}

impl Observation {
    /// The reply, or why there is none.
    pub fn reply(&self) -> Result<&Reply, String> {
        match self {
            Observation::Answered(reply) => Ok(reply),
            other => Err(other.trouble()),
        }
    }

    /// The first choice, or why there is none.
    pub fn choice(&self) -> Result<&Choice, String> {
        self.reply()?.choices.first().ok_or_else(|| "the answer holds no choice".to_owned())
    }

    /// The first choice's text; empty where it has none.
    pub fn text(&self) -> Result<&str, String> {
        self.choice().map(|c| c.text.as_deref().unwrap_or(""))
    }

    pub fn usage(&self) -> Option<&Usage> {
        self.reply().ok().and_then(|r| r.usage.as_ref())
    }

    /// Whether there is nothing to judge, since the exchange was never made or cannot be read.
    pub fn is_nothing(&self) -> bool {
        matches!(
            self,
            Observation::Invalid(_)
                | Observation::NotRecorded { .. }
                | Observation::Stale { .. }
                | Observation::Recording(_)
        )
    }

    /// Whether the provider refused what was asked, completely and in its own words; "later" is no such refusal.
    pub fn is_refused(&self) -> bool {
        let refused = |proof| matches!(proof, Proof::Rejected(Rejection::BadRequest | Rejection::Setup));
        matches!(self, Observation::Failed(f) if refused(f.proof))
    }

    /// Whether the request did not fit this provider: its own 400, or the adapter's.
    pub fn is_refused_parameter(&self) -> bool {
        match self {
            Observation::Unsupported(_) => true,
            Observation::Failed(f) => f.proof == Proof::Rejected(Rejection::BadRequest),
            _ => false,
        }
    }

    /// In words, why there is no answer, with the cure where one is known.
    pub fn trouble(&self) -> String {
        match self {
            Observation::Answered(_) => "answered".to_owned(),
            Observation::Failed(f) => failure_in_words(f),
            Observation::Unsupported(u) => format!("the adapter cannot carry {u}"),
            Observation::Invalid(why) => format!("the suite's request is not valid: {why}"),
            Observation::NotRecorded { file } => {
                format!("not recorded: {file} does not exist. Run `interlock contract record` against this target")
            }
            Observation::Stale { file, difference } => {
                format!("stale recording {file}: {difference}. Run `interlock contract record` again")
            }
            Observation::Recording(why) => why.clone(),
        }
    }
}

/// `provider refused: rate_limited (429): words`.
pub(crate) fn failure_in_words(failure: &Failure) -> String {
    let proof = match failure.proof {
        Proof::NotSent => "nothing was sent",
        Proof::Refused => "the peer did not process it",
        Proof::Rejected(_) => "the provider refused",
        Proof::EndedWithoutResult => "it ended without a result",
        Proof::Unknown => "the outcome is unknown",
    };
    let status = failure.status.map(|s| format!(", status {s}")).unwrap_or_default();
    format!("{proof}: {}{status}: {}", failure.reason, failure.message)
}
