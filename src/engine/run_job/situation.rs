//! What the decision about a job's next step rests on beside the job itself.

use std::collections::HashMap;

use providers::dialects::embeddings;

use super::Runner;
use crate::domain::Timestamp;
use crate::domain::cost::Spent;
use crate::domain::job::{JobError, JobErrorCode, Snapshot};
use crate::domain::route::{Route, Target};
use crate::domain::step::NextStep;

impl Runner {
    /// What the database says of the job's attempts.
    pub(super) fn take_in(&mut self, snapshot: &Snapshot) {
        self.attempts = snapshot.attempts.len();
        self.spent = snapshot.attempts.iter().map(|attempt| (attempt.id, Spent::of(attempt))).collect();
        self.reserved_tokens = snapshot.job.reserved_tokens;
    }

    /// The targets whose wire format cannot carry this request, not even without what the route lets fall.
    pub(super) fn unable(&self, route: &Route) -> HashMap<Target, String> {
        let Some(request) = &self.request else { return HashMap::new() };
        let upstreams = self.engine.upstreams();
        let primary = route.targets.first().map(|primary| &primary.target.model);
        let judge = |target: &Target| {
            // A vector means something only beside others of the same model.
            if embeddings::is_asked(request) && primary != Some(&target.model) {
                return Some((target.clone(), "model: its vectors cannot be compared with the primary's".to_owned()));
            }
            let unable = upstreams.can_carry(target, request, &route.drop_unsupported).err()?;
            Some((target.clone(), unable.to_string()))
        };
        route.targets.iter().filter_map(|t| judge(&t.target)).collect()
    }

    /// Circuits run on this process's clock, decisions on the database's: only differences are carried over.
    pub(super) fn cooling(&self, route: &Route, read_at: Timestamp) -> HashMap<Target, Timestamp> {
        let now = self.engine.clock();
        let cooling = self.engine.inner.circuits.cooling(route, now);
        cooling.into_iter().map(|(target, until)| (target, read_at + (until - now))).collect()
    }

    pub(super) fn without_route(&self, snapshot: &Snapshot) -> NextStep {
        if snapshot.job.state.is_terminal() {
            return NextStep::Finished;
        }
        if let Some(open) = snapshot.open_attempt() {
            return NextStep::Wait { attempt: open.id };
        }
        let why = format!("the settings no longer define the route `{}` that this job was sent to", self.route_name);
        NextStep::RoundOver(JobError::new(JobErrorCode::AllTargetsFailed, why, Vec::new()))
    }
}
