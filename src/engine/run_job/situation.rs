//! What the decision about a job's next step rests on beside the job itself.

use std::collections::HashMap;
use std::sync::Arc;

use super::Runner;
use crate::domain::Timestamp;
use crate::domain::cost::Spent;
use crate::domain::job::{JobError, JobErrorCode, Snapshot};
use crate::domain::route::{Route, Target};
use crate::domain::step::NextStep;
use crate::engine::room::TooLong;

impl Runner {
    /// What the database says of the job's attempts.
    pub(super) fn take_in(&mut self, snapshot: &Snapshot) {
        self.attempts = snapshot.attempts.len();
        self.spent = snapshot.attempts.iter().map(|attempt| (attempt.id, Spent::of(attempt))).collect();
        self.reserved_tokens = snapshot.job.reserved_tokens;
    }

    /// The targets that cannot carry the request, where there are several, and those that are too small for it. The latter
    /// are judged once: a window is a setting.
    pub(super) async fn unfit(&mut self, route: &Arc<Route>) -> (HashMap<Target, String>, TooLong) {
        let fallbacks = route.targets.len() > 1;
        let nothing = (HashMap::new(), TooLong::default());
        if !fallbacks && route.targets.iter().all(|target| target.window.is_none()) {
            return nothing;
        }
        let Some(request) = self.request().await else { return nothing };
        let too_long = match &self.too_long {
            Some(known) => Arc::clone(known),
            None => self.engine.too_long(route, &request).await,
        };
        self.too_long = Some(Arc::clone(&too_long));
        let unable = if fallbacks { self.engine.upstreams().unable(route, &request) } else { HashMap::new() };
        (unable, too_long)
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
