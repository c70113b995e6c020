//! What a failure proves. The one table on which retries and failover stand (DESIGN 4).
//!
//! An adapter reduces each failure to a [`Proof`]; nobody above looks at a status code or a message again. What no
//! row names is [`Proof::Unknown`]: it blocks, and that is the safe side.

use std::time::Duration;

use crate::adapter::Secret;
use crate::canonical::Usage;

/// One failed call: what it proves and what may be said about it.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    pub proof: Proof,
    /// One word for logs, the attempt's row and the answer: `connect_refused`, `timeout`, `rate_limited`, …
    pub reason: &'static str,
    /// The provider's words or the transport's, at most 2,000 characters, control characters escaped, without
    /// addresses or keys.
    pub message: String,
    /// The HTTP status, where an answer's head arrived.
    pub status: Option<u16>,
    /// How long the provider asked to be left alone.
    pub retry_after: Option<Duration>,
    /// The provider's `code`, `type` and `param`, where its error shape has them.
    pub code: Option<String>,
    pub kind: Option<String>,
    pub param: Option<String>,
    /// Tokens billed all the same. `None` is "not known", never zero.
    pub usage: Option<Usage>,
}

/// The verdicts of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proof {
    /// No byte of the request left, or none that the provider acted on. Retry and failover allowed.
    NotSent,
    /// The peer's protocol guarantees that it did not process the request. Retry and failover allowed.
    Refused,
    /// A complete refusal in the provider's own error shape.
    Rejected(Rejection),
    /// The provider says that it ended without a result, or delivered a complete but invalid one.
    EndedWithoutResult,
    /// Everything else. The provider may have done, or be doing, the work.
    Unknown,
}

/// Whose fault a rejection is, and so what may be tried next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rejection {
    /// 400-class: the request's own fault. Returned; no retry, no failover.
    BadRequest,
    /// The prompt does not fit the window. A permitted target with a larger window may be tried.
    ContextLength,
    /// The provider's content policy. Returned; not routed around.
    ContentPolicy,
    /// 401, 403, 404: our set-up's fault. Fail over, and tell the operator.
    Setup,
    /// The account is out of credit. Failover only where the route allows spending elsewhere.
    Billing,
    /// A rate limit: retry after a while, or fail over.
    RateLimited,
    /// A quota that does not refill within a request's life. Fail over, do not retry.
    QuotaExhausted,
    /// 503, 529 in the provider's own shape: retry after a while, or fail over.
    Overloaded,
}

impl Failure {
    /// A failure of which nothing is known but its word.
    pub fn new(proof: Proof, reason: &'static str, message: impl AsRef<str>) -> Self {
        Failure {
            proof,
            reason,
            message: clean(message.as_ref()),
            status: None,
            retry_after: None,
            code: None,
            kind: None,
            param: None,
            usage: None,
        }
    }

    /// The same with every occurrence of `secret` masked: providers echo keys in their errors. For the caller that has
    /// the key; [`crate::adapter::Adapter::from_failure`] does not see it.
    pub fn masked(mut self, secret: Option<&Secret>) -> Self {
        if let Some(secret) = secret {
            self.message = secret.mask(&self.message);
            for field in [&mut self.code, &mut self.kind, &mut self.param].into_iter().flatten() {
                *field = secret.mask(field);
            }
        }
        self
    }

    /// Whether the attempt's outcome stays open.
    pub fn is_unknown(&self) -> bool {
        self.proof == Proof::Unknown
    }
}

/// Foreign text made safe to keep and to show: at most 2,000 characters, control and bidi characters escaped.
pub fn clean(text: &str) -> String {
    const MAX_CHARS: usize = 2_000;
    let mut out = String::with_capacity(text.len().min(MAX_CHARS));
    for (i, c) in text.chars().enumerate() {
        if i == MAX_CHARS {
            out.push('…');
            break;
        }
        let bidi = matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if (c.is_control() && c != '\n' && c != '\t') || bidi {
            out.extend(c.escape_unicode());
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_is_bounded_and_cannot_steer_a_terminal() {
        assert_eq!(clean("a\u{1b}[31m\u{202e}b\n\tc"), "a\\u{1b}[31m\\u{202e}b\n\tc");
        assert_eq!(clean(&"ä".repeat(5_000)).chars().count(), 2_001);
    }

    #[test]
    fn an_echoed_key_is_masked_wherever_it_stands() {
        let secret = Secret::new("own-key-123".into());
        let mut failure = Failure::new(Proof::Unknown, "x", "bad key own-key-123!");
        failure.code = Some("own-key-123".into());
        let masked = failure.masked(Some(&secret));
        assert_eq!((masked.message.as_str(), masked.code.as_deref()), ("bad key [secret]!", Some("[secret]")));
        assert_eq!(format!("{secret:?}"), "Secret(…)");
    }
}
