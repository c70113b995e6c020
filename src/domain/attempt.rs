//! The attempt: one try of a job at one provider, and everything that its state carries.

use std::time::Duration;

use providers::canonical::Usage;
use providers::failure::{Proof, Rejection};
use providers::prices::Cost;

use super::Timestamp;
use super::ids::{AttemptId, InstanceId, PermitId};
use super::route::Target;

/// An attempt as the database holds it.
#[derive(Debug, Clone, PartialEq)]
pub struct Attempt {
    pub id: AttemptId,
    /// 1 for the job's first.
    pub ordinal: i32,
    pub round: i32,
    pub target: Target,
    pub adapter_version: String,
    /// The evidence under which a fallback was tried; none for the primary.
    pub permit: Option<PermitId>,
    pub instance: InstanceId,
    /// The job's version that this attempt read.
    pub job_version: i64,
    pub state: AttemptState,
    pub usage: Option<Usage>,
    /// What that was by the price that held then; none where usage or price is not known.
    pub cost: Option<Cost>,
    /// What of the request this target had no place for and the route let fall.
    pub dropped: Vec<String>,
    pub started_at: Timestamp,
    pub deadline_at: Timestamp,
    pub settle_until: Timestamp,
    pub ended_at: Option<Timestamp>,
}

/// Where an attempt stands, with what that state knows.
#[derive(Debug, Clone, PartialEq)]
pub enum AttemptState {
    /// Committed; bytes may be on their way.
    Started,
    /// Nobody knows. Blocks the next attempt.
    Unknown {
        reason: String,
        message: Option<String>,
    },
    Succeeded,
    Failed(Failed),
    /// No longer blocks; may still win if it returns first.
    Released {
        by: ClearedBy,
    },
    /// Fenced: whatever it returns is thrown away.
    Cancelled {
        by: ClearedBy,
    },
    /// It returned after another had won, or not by `settle_timeout`.
    Superseded {
        by: ClearedBy,
    },
}

/// What is known of a failure.
#[derive(Debug, Clone, PartialEq)]
pub struct Failed {
    pub proof: Proof,
    pub reason: String,
    pub message: Option<String>,
    pub retry_after: Option<Duration>,
    /// The status of the answer, and the provider's own `code`, `type` and `param`, where it gave them.
    pub status: Option<u16>,
    pub code: Option<String>,
    pub kind: Option<String>,
    pub param: Option<String>,
    /// An operator said so, not the provider.
    pub by: Option<ClearedBy>,
}

/// Who cleared an unknown attempt, or fenced it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClearedBy {
    Operator(String),
    /// The route's declared `on_unknown = "fail_over"`.
    Policy(String),
    /// Another attempt won while this one was open.
    Winner(AttemptId),
    /// The owner cancelled the job.
    Owner,
}

impl ClearedBy {
    pub fn to_text(&self) -> String {
        match self {
            ClearedBy::Operator(name) => format!("operator:{name}"),
            ClearedBy::Policy(route) => format!("policy:{route}"),
            ClearedBy::Winner(attempt) => format!("winner:{attempt}"),
            ClearedBy::Owner => "owner".to_owned(),
        }
    }

    pub fn from_text(text: &str) -> Option<Self> {
        match text.split_once(':') {
            Some(("operator", name)) => Some(ClearedBy::Operator(name.to_owned())),
            Some(("policy", route)) => Some(ClearedBy::Policy(route.to_owned())),
            Some(("winner", id)) => id.parse().ok().map(ClearedBy::Winner),
            None if text == "owner" => Some(ClearedBy::Owner),
            Some(_) | None => None,
        }
    }
}

impl AttemptState {
    pub fn as_str(&self) -> &'static str {
        match self {
            AttemptState::Started => "started",
            AttemptState::Unknown { .. } => "unknown",
            AttemptState::Succeeded => "succeeded",
            AttemptState::Failed(_) => "failed",
            AttemptState::Released { .. } => "released",
            AttemptState::Cancelled { .. } => "cancelled",
            AttemptState::Superseded { .. } => "superseded",
        }
    }

    /// Open attempts block the next one (R4, R6).
    pub fn is_open(&self) -> bool {
        match self {
            AttemptState::Started | AttemptState::Unknown { .. } => true,
            AttemptState::Succeeded
            | AttemptState::Failed(_)
            | AttemptState::Released { .. }
            | AttemptState::Cancelled { .. }
            | AttemptState::Superseded { .. } => false,
        }
    }

    /// Whether an operator took this attempt out of the way: the next one may then be at the same target.
    pub fn cleared_by_operator(&self) -> bool {
        match self {
            AttemptState::Released { by } | AttemptState::Cancelled { by } => matches!(by, ClearedBy::Operator(_)),
            AttemptState::Failed(failed) => matches!(failed.by, Some(ClearedBy::Operator(_))),
            AttemptState::Started
            | AttemptState::Unknown { .. }
            | AttemptState::Succeeded
            | AttemptState::Superseded { .. } => false,
        }
    }

    /// The one word that says why, where there is one. Who cleared an attempt stands beside it.
    pub fn reason(&self) -> Option<&str> {
        match self {
            AttemptState::Unknown { reason, .. } => Some(reason),
            AttemptState::Failed(failed) => Some(&failed.reason),
            AttemptState::Released { .. }
            | AttemptState::Cancelled { .. }
            | AttemptState::Superseded { .. }
            | AttemptState::Started
            | AttemptState::Succeeded => None,
        }
    }
}

/// A proof as one word in the `attempts` table.
pub fn proof_to_text(proof: Proof) -> &'static str {
    PROOFS.iter().find(|(p, _)| *p == proof).map_or("unknown", |(_, text)| text)
}

/// The inverse of [`proof_to_text`]. A word that this version does not know proves nothing.
pub fn proof_from_text(text: &str) -> Proof {
    PROOFS.iter().find(|(_, t)| *t == text).map_or(Proof::Unknown, |(proof, _)| *proof)
}

const PROOFS: [(Proof, &str); 12] = [
    (Proof::NotSent, "not_sent"),
    (Proof::Refused, "refused"),
    (Proof::Rejected(Rejection::BadRequest), "rejected:bad_request"),
    (Proof::Rejected(Rejection::ContextLength), "rejected:context_length"),
    (Proof::Rejected(Rejection::ContentPolicy), "rejected:content_policy"),
    (Proof::Rejected(Rejection::Setup), "rejected:setup"),
    (Proof::Rejected(Rejection::Billing), "rejected:billing"),
    (Proof::Rejected(Rejection::RateLimited), "rejected:rate_limited"),
    (Proof::Rejected(Rejection::QuotaExhausted), "rejected:quota_exhausted"),
    (Proof::Rejected(Rejection::Overloaded), "rejected:overloaded"),
    (Proof::EndedWithoutResult, "ended_without_result"),
    (Proof::Unknown, "unknown"),
];
