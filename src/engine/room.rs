//! Whether a prompt has room at a target, before an attempt is opened there: nothing is sent that certainly does not fit.
//!
//! Most requests have fewer bytes than their targets hold tokens: that is one comparison, and nothing is counted. The
//! others are counted away from the threads that serve, few at a time, once per request and tokenizer.

use std::collections::HashMap;
use std::sync::Arc;
use std::thread::available_parallelism;

use providers::canonical::Request;
use providers::windows::{Overflow, overflows};
use tokio::sync::Semaphore;

use super::{Engine, EngineError};
use crate::domain::job::JobError;
use crate::domain::route::{Route, Target};
use crate::domain::step::Reach;

/// The targets of a route that a prompt is too long for, and by how much.
pub type TooLong = Arc<HashMap<Target, Overflow>>;

/// Counts under way in this process.
#[derive(Debug)]
pub struct Counting {
    seats: Semaphore,
}

impl Default for Counting {
    fn default() -> Self {
        Counting { seats: Semaphore::new(available_parallelism().map_or(1, usize::from)) }
    }
}

impl Engine {
    /// The targets that are too small for a new request, whose body has so many bytes. `None`: the primary holds it, and
    /// nobody has looked at the fallbacks.
    pub(super) async fn too_long_for_primary(
        &self,
        route: &Arc<Route>,
        request: &Arc<Request>,
        bytes: usize,
    ) -> Option<TooLong> {
        let window = route.targets.first()?.window.as_ref()?;
        if window.surely_holds(request, bytes) {
            return None;
        }
        Some(self.too_long(route, request).await)
    }

    /// Every target of the route that is certainly too small.
    pub(super) async fn too_long(&self, route: &Arc<Route>, request: &Arc<Request>) -> TooLong {
        if route.targets.iter().all(|target| target.window.is_none()) {
            return TooLong::default();
        }
        let Ok(_seat) = self.inner.counting.seats.acquire().await else { return TooLong::default() };
        let (route, request) = (Arc::clone(route), Arc::clone(request));
        let counted = tokio::task::spawn_blocking(move || judge(&route, &request)).await;
        // A count that came to nothing proves nothing: the provider may say itself that it is too long.
        let too_long = counted.unwrap_or_default();
        let verdict = if too_long.is_empty() { "fits" } else { "too_long" };
        self.inner.metrics.prompts_counted.with_label_values(&[verdict]).inc();
        Arc::new(too_long)
    }

    /// Why a request that is too long for its primary is refused before there is a job, as what the primary cannot carry
    /// is: the client has to change it, and a job that had failed for good could not go on once a larger target is
    /// permitted. `None`: a permitted fallback may hold it.
    pub(super) async fn no_room(
        &self,
        route: &Route,
        request: &Request,
        too_long: &TooLong,
    ) -> Result<Option<JobError>, EngineError> {
        if !route.targets.first().is_some_and(|primary| too_long.contains_key(&primary.target)) {
            return Ok(None);
        }
        let (mut permits, mut digest) = (Vec::new(), None);
        if route.targets.len() > 1 {
            permits = self.store().permits(Some(&route.name)).await?;
            digest = self.suite_digest(route).await;
        }
        let unable = self.upstreams().unable(route, request);
        let (suite_digest, now) = (digest.as_deref(), self.store().now().await?);
        let reach = Reach { route, permits: &permits, suite_digest, unable: &unable, too_long, now };
        let refusal = reach.refusal();
        if refusal.is_none() {
            tracing::info!(route = route.name, ?too_long, "too long for the primary: a permitted fallback may hold it");
        }
        Ok(refusal)
    }
}

fn judge(route: &Route, request: &Request) -> HashMap<Target, Overflow> {
    let bounded = route.targets.iter().filter_map(|target| Some((&target.target, target.window.as_ref()?)));
    let (targets, windows): (Vec<_>, Vec<_>) = bounded.unzip();
    let verdicts = targets.into_iter().zip(overflows(request, &windows));
    verdicts.filter_map(|(target, overflow)| Some((target.clone(), overflow?))).collect()
}
