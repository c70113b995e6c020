//! The permit: provider P, model M, adapter version V passed suite S (digest D) at T, valid until U, enabled by W.
//!
//! It ends by time, by somebody, or by a change of what it was earned under; once ended it stays so, even if the change
//! is undone: nobody has looked at what happened in between.

mod change;
mod standing;

pub use change::Change;
pub use standing::{RecheckState, Standing, rfc3339};

use super::Timestamp;
use super::ids::{PermitId, RunId};
use super::route::{Evidence, Route, RouteTarget, Target};

/// Evidence behind a fallback. It is only ever read from the database, which holds it against a passed run.
#[derive(Debug, Clone, PartialEq)]
pub struct Permit {
    id: PermitId,
    facts: PermitFacts,
}

/// What a permit row says.
#[derive(Debug, Clone, PartialEq)]
pub struct PermitFacts {
    pub route: String,
    pub run: RunId,
    pub mode: Evidence,
    pub suite: String,
    pub suite_digest: String,
    pub target: Target,
    pub adapter_version: String,
    pub settings_digest: String,
    pub granted_by: String,
    pub reason: String,
    pub granted_at: Timestamp,
    pub expires_at: Timestamp,
    pub revoked: Option<Revoked>,
}

/// How a permit ended before its time.
#[derive(Debug, Clone, PartialEq)]
pub struct Revoked {
    pub at: Timestamp,
    pub by: String,
    pub reason: String,
    pub cause: EndCause,
}

/// What ended it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndCause {
    /// Somebody, by name.
    Operator,
    /// What it was earned under has changed.
    Changed,
    /// The suite, run again on schedule, failed.
    Recheck,
    /// Live answers broke the contract.
    Drift,
    /// Another permit, on a newer run, stands in its place.
    Renewed,
}

impl EndCause {
    const ALL: [EndCause; 5] =
        [EndCause::Operator, EndCause::Changed, EndCause::Recheck, EndCause::Drift, EndCause::Renewed];

    pub fn as_str(self) -> &'static str {
        match self {
            EndCause::Operator => "operator",
            EndCause::Changed => "changed",
            EndCause::Recheck => "recheck",
            EndCause::Drift => "drift",
            EndCause::Renewed => "renewed",
        }
    }

    pub fn from_word(word: &str) -> Option<Self> {
        EndCause::ALL.into_iter().find(|cause| cause.as_str() == word)
    }
}

/// Why a permit does not cover a target now. Each names what is missing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PermitFlaw {
    #[error("no permit: run the suite `{suite}` against {target} and grant one")]
    Missing { suite: String, target: Target },
    #[error("the route names no contract, so nothing can be proved for {target}; set `routes.{route}.contract`")]
    NoContract { route: String, target: Target },
    #[error(
        "the suite `{suite}` cannot be read, so no permit can be compared with it; see the log for its file and line"
    )]
    SuiteUnreadable { suite: String },
    #[error("permit {id} is for {permitted}, not for {wanted}")]
    OtherTarget { id: PermitId, permitted: String, wanted: String },
    #[error("permit {id} was revoked by {by}: {reason}")]
    Revoked { id: PermitId, by: String, reason: String },
    #[error("permit {id} ended: {reason}")]
    Ended { id: PermitId, reason: String },
    #[error("permit {id} expired at {at}; run the suite again and grant a new one")]
    Expired { id: PermitId, at: Timestamp },
    #[error("permit {id} ended: {change}")]
    Changed { id: PermitId, change: Change },
    #[error("permit {id} rests on a replayed run, and the route wants a live one; run the suite with --live")]
    OnlyReplayed { id: PermitId },
}

impl Permit {
    /// Only the store makes one, from a row that references a passed run.
    pub(crate) fn from_row(id: PermitId, facts: PermitFacts) -> Self {
        Permit { id, facts }
    }

    pub fn id(&self) -> PermitId {
        self.id
    }

    pub fn facts(&self) -> &PermitFacts {
        &self.facts
    }

    /// Whether this permit lets `target` serve `route` now.
    pub fn covers(
        &self,
        route: &Route,
        target: &RouteTarget,
        suite_digest: Option<&str>,
        now: Timestamp,
    ) -> Result<(), PermitFlaw> {
        let facts = &self.facts;
        let id = self.id;
        let Some(contract) = &route.contract else {
            return Err(PermitFlaw::NoContract { route: route.name.clone(), target: target.target.clone() });
        };
        if facts.route != route.name || facts.target != target.target {
            return Err(PermitFlaw::OtherTarget {
                id,
                permitted: format!("{} on route `{}`", facts.target, facts.route),
                wanted: format!("{} on route `{}`", target.target, route.name),
            });
        }
        if let Some(ended) = &facts.revoked {
            return Err(match ended.cause {
                EndCause::Operator | EndCause::Recheck | EndCause::Drift => {
                    PermitFlaw::Revoked { id, by: ended.by.clone(), reason: ended.reason.clone() }
                }
                EndCause::Changed | EndCause::Renewed => PermitFlaw::Ended { id, reason: ended.reason.clone() },
            });
        }
        if facts.expires_at <= now {
            return Err(PermitFlaw::Expired { id, at: facts.expires_at });
        }
        if let Some(change) = self.change(route, Some(target), suite_digest) {
            return Err(PermitFlaw::Changed { id, change });
        }
        if suite_digest.is_none() {
            return Err(PermitFlaw::SuiteUnreadable { suite: contract.clone() });
        }
        match (route.evidence, facts.mode) {
            (Evidence::Live, Evidence::Replay) => Err(PermitFlaw::OnlyReplayed { id }),
            (Evidence::Live, Evidence::Live) | (Evidence::Replay, Evidence::Live | Evidence::Replay) => Ok(()),
        }
    }
}
