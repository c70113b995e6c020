//! The job: one intent of one owner, from its first request to its one final answer.

use serde::{Deserialize, Serialize};

use super::Timestamp;
use super::attempt::{Attempt, AttemptState};
use super::ids::{AttemptId, JobId, OwnerId};

/// A job as the database holds it, without its payloads.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    pub owner: OwnerId,
    pub id: JobId,
    pub idempotency_key: String,
    pub key_origin: KeyOrigin,
    pub fingerprint: [u8; 32],
    pub fingerprint_version: i16,
    pub url: String,
    pub route: String,
    pub delivery: Delivery,
    pub state: JobState,
    /// Rises whenever who may complete the job changes.
    pub version: i64,
    /// The current walk over the targets, from 1.
    pub round: i32,
    pub error: Option<JobError>,
    pub resume_at: Option<Timestamp>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub deadline_at: Timestamp,
    /// What was set aside for it of its owner's limits; `None` where there were none.
    pub reserved_tokens: Option<u64>,
}

/// Where a job stands. The winner is part of having succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobState {
    /// Accepted, no attempt open.
    Queued,
    Running,
    /// Its open attempt is unknown.
    Unknown,
    Succeeded {
        completed_by: AttemptId,
    },
    Failed,
    Cancelled,
}

impl JobState {
    pub fn as_str(self) -> &'static str {
        match self {
            JobState::Queued => "queued",
            JobState::Running => "running",
            JobState::Unknown => "unknown",
            JobState::Succeeded { .. } => "succeeded",
            JobState::Failed => "failed",
            JobState::Cancelled => "cancelled",
        }
    }

    /// Terminal states never change.
    pub fn is_terminal(self) -> bool {
        match self {
            JobState::Queued | JobState::Running | JobState::Unknown => false,
            JobState::Succeeded { .. } | JobState::Failed | JobState::Cancelled => true,
        }
    }

    pub fn completed_by(self) -> Option<AttemptId> {
        match self {
            JobState::Succeeded { completed_by } => Some(completed_by),
            JobState::Queued | JobState::Running | JobState::Unknown | JobState::Failed | JobState::Cancelled => None,
        }
    }
}

/// Who made the idempotency key. A client that does not know its key cannot retry safely, so it must not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyOrigin {
    Client,
    Gateway,
}

impl KeyOrigin {
    pub fn as_str(self) -> &'static str {
        match self {
            KeyOrigin::Client => "client",
            KeyOrigin::Gateway => "gateway",
        }
    }
}

/// Who carries the job on when a round has ended: the client's next call, or any instance by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    Sync,
    Async,
}

impl Delivery {
    pub fn as_str(self) -> &'static str {
        match self {
            Delivery::Sync => "sync",
            Delivery::Async => "async",
        }
    }
}

/// Why a round ended without a result, as stored and as told to the client. Holds no secret and no model output.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobError {
    pub code: JobErrorCode,
    pub message: String,
    /// The status of the last refusal, where it is the client's to see.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The provider's own `code`, `type` and `param`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_code: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub param: Option<String>,
    /// Milliseconds from the end of the round after which a new one makes sense.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// A fallback stands in the route that may not be tried for want of a valid permit.
    #[serde(default)]
    pub unpermitted: bool,
    /// A line for each attempt of the round and each target that was not tried: what happened, what is missing.
    pub details: Vec<String>,
}

impl JobError {
    /// An error of the gateway's own making: no provider has said anything to be passed on.
    pub fn new(code: JobErrorCode, message: impl Into<String>, details: Vec<String>) -> Self {
        JobError {
            code,
            message: message.into(),
            status: None,
            provider_code: None,
            provider_type: None,
            param: None,
            retry_after_ms: None,
            unpermitted: false,
            details,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobErrorCode {
    /// The provider refused the request for what it is.
    RequestRefused,
    /// The provider's content policy refused it.
    ContentPolicy,
    /// The prompt does not fit any permitted target's window.
    ContextLengthExceeded,
    /// Every permitted target has failed; the same key may try again.
    AllTargetsFailed,
    /// `max_attempts` were used up.
    MaxAttempts,
    /// `job_deadline` has passed.
    JobDeadline,
}

impl JobErrorCode {
    pub fn as_str(self) -> &'static str {
        match self {
            JobErrorCode::RequestRefused => "request_refused",
            JobErrorCode::ContentPolicy => "content_policy",
            JobErrorCode::ContextLengthExceeded => "context_length_exceeded",
            JobErrorCode::AllTargetsFailed => "all_targets_failed",
            JobErrorCode::MaxAttempts => "max_attempts",
            JobErrorCode::JobDeadline => "job_deadline",
        }
    }
}

/// A job and its attempts, read together.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    pub job: Job,
    /// In the order they started.
    pub attempts: Vec<Attempt>,
    /// The database's clock when this was read.
    pub read_at: Timestamp,
}

impl Snapshot {
    /// The attempt that blocks the next one, if any. There is never more than one (R4).
    pub fn open_attempt(&self) -> Option<&Attempt> {
        self.attempts.iter().find(|a| a.state.is_open())
    }

    /// When the open attempt's outcome became unknown.
    pub fn unknown_attempt(&self) -> Option<&Attempt> {
        self.attempts.iter().find(|a| matches!(a.state, AttemptState::Unknown { .. }))
    }

    pub fn winner(&self) -> Option<&Attempt> {
        let id = self.job.state.completed_by()?;
        self.attempts.iter().find(|a| a.id == id)
    }
}
