//! What those who wait for a job are told.

use bytes::Bytes;

use crate::domain::Timestamp;
use crate::domain::ids::AttemptId;
use crate::domain::job::JobError;

/// The newest word on a running job.
#[derive(Debug, Clone)]
pub enum Progress {
    /// Somebody works on it.
    Running,
    /// Its open attempt's outcome is not known, and nothing may be tried until it is cleared.
    Unknown {
        attempt: AttemptId,
        since: Timestamp,
    },
    Succeeded(Delivered),
    /// The round is over; the same key may open the next.
    RoundOver(JobError),
    Failed(JobError),
    Cancelled,
    /// This process stops before the job is over.
    Interrupted,
}

/// The winner's answer with what the response headers say of it.
#[derive(Debug, Clone)]
pub struct Delivered {
    pub attempt: AttemptId,
    pub provider: String,
    pub attempts: usize,
    pub content_type: String,
    pub body: Bytes,
}
