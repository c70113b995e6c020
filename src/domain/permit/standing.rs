//! How a permit stands, in one word for programs and in a sentence for whoever reads the list at night.

use std::time::Duration;

use time::format_description::well_known::Rfc3339;

use super::{EndCause, Permit, PermitFlaw};
use crate::domain::Timestamp;
use crate::domain::route::Route;

/// A permit with less time than this, or than a quarter of its whole life, expires soon.
const SOON: Duration = Duration::from_secs(24 * 3600);

/// How the scheduled re-run of a permit's suite stands.
#[derive(Debug, Clone, PartialEq)]
pub struct RecheckState {
    /// The run that the permit rests on began then.
    pub evidence_at: Timestamp,
    pub tries: i32,
    pub running_since: Option<Timestamp>,
    /// Why the last try came to no verdict.
    pub last_error: Option<String>,
    pub next_at: Option<Timestamp>,
}

/// A permit's state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// `valid`, `expiring`, `expired`, `ended`, `renewed`, `revoked` or `unusable`.
    pub word: &'static str,
    pub text: String,
}

impl Standing {
    fn new(word: &'static str, text: String) -> Self {
        Standing { word, text }
    }

    /// How `permit` stands for `route` as it is set up here (`None`: these settings have no such route).
    pub fn of(
        permit: &Permit,
        route: Option<&Route>,
        suite_digest: Option<&str>,
        recheck: &RecheckState,
        now: Timestamp,
    ) -> Standing {
        let facts = permit.facts();
        if let Some(ended) = &facts.revoked {
            let (at, by, reason) = (rfc3339(ended.at), &ended.by, &ended.reason);
            return match ended.cause {
                EndCause::Changed => Standing::new("ended", format!("ended: {reason} (at {at}, by {by})")),
                EndCause::Renewed => Standing::new("renewed", format!("{reason} (at {at}, by {by})")),
                EndCause::Operator | EndCause::Recheck | EndCause::Drift => {
                    Standing::new("revoked", format!("revoked by {by} at {at}: {reason}"))
                }
            };
        }
        if facts.expires_at <= now {
            let at = rfc3339(facts.expires_at);
            return Standing::new("expired", format!("expired at {at}: run the suite again and grant a new one"));
        }
        let Some(route) = route else {
            return Standing::new("unusable", format!("not used here: these settings have no route `{}`", facts.route));
        };
        if let Some(change) = permit.change_on(route, suite_digest) {
            return Standing::new("ended", format!("ended: {change}"));
        }
        let entry = route.targets.iter().find(|t| t.target == facts.target);
        match entry.map(|target| permit.covers(route, target, suite_digest, now)) {
            Some(Err(flaw @ (PermitFlaw::OnlyReplayed { .. } | PermitFlaw::SuiteUnreadable { .. }))) => {
                Standing::new("unusable", format!("not usable: {flaw}"))
            }
            Some(Err(flaw)) => Standing::new("ended", flaw.to_string()),
            Some(Ok(())) | None => in_force(permit, route, recheck, now),
        }
    }
}

fn in_force(permit: &Permit, route: &Route, recheck: &RecheckState, now: Timestamp) -> Standing {
    let facts = permit.facts();
    let (left, life) = (facts.expires_at - now, facts.expires_at - facts.granted_at);
    let at = rfc3339(facts.expires_at);
    let soon = left < SOON.min(Duration::try_from(life / 4).unwrap_or_default());
    let mut standing = match soon {
        true => Standing::new("expiring", format!("expires soon: in {}, at {at}", in_words(left))),
        false => Standing::new("valid", format!("valid until {at}")),
    };
    if let Some(words) = route.recheck.and_then(|age| overdue(recheck, recheck.evidence_at + age, now)) {
        standing.text.push_str("; ");
        standing.text.push_str(&words);
    }
    standing
}

/// What is to be said of a recheck that is due; nothing where it is not.
fn overdue(recheck: &RecheckState, due: Timestamp, now: Timestamp) -> Option<String> {
    if due > now {
        return None;
    }
    let mut words = match recheck.running_since {
        Some(since) => format!("being rechecked since {}", rfc3339(since)),
        None => format!("recheck overdue since {}", rfc3339(due)),
    };
    if let Some(error) = &recheck.last_error {
        words.push_str(&format!(", last error ({} tried): {error}", recheck.tries));
        if let (None, Some(next)) = (recheck.running_since, recheck.next_at) {
            words.push_str(&format!("; next try at {}", rfc3339(next)));
        }
    }
    Some(words)
}

fn in_words(left: time::Duration) -> String {
    match (left.whole_hours(), left.whole_minutes() % 60) {
        (0, minutes) => format!("{minutes} min"),
        (hours, minutes) => format!("{hours} h {minutes} min"),
    }
}

/// To the second: nobody at night reads nanoseconds.
pub fn rfc3339(at: Timestamp) -> String {
    at.replace_nanosecond(0).unwrap_or(at).format(&Rfc3339).unwrap_or_else(|_| at.to_string())
}
