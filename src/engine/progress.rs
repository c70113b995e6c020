//! What those who wait for a job are told.

use std::sync::Arc;

use bytes::Bytes;

use crate::domain::Timestamp;
use crate::domain::cost::JobCost;
use crate::domain::ids::AttemptId;
use crate::domain::job::JobError;
use crate::engine::stream_log::StreamLog;
use crate::store::streams::Streamed;

/// The newest word on a running job.
#[derive(Debug, Clone)]
pub enum Progress {
    /// Somebody works on it.
    Running,
    /// Content has begun to arrive, and is to be seen as it comes.
    Streaming(Arc<StreamLog>),
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
    /// What the winner left out of the request, as its route says.
    pub dropped: Vec<String>,
    /// The whole job's, so far.
    pub cost: JobCost,
    pub content_type: String,
    /// The whole answer.
    pub body: Bytes,
    /// The same answer as it was streamed; `None` where it came whole.
    pub stream: Option<Streamed>,
}
