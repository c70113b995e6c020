//! Makes the planned calls: so many at once, within the budget, as fast as the provider allows, and no longer than there
//! is hope.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use providers::failure::{Failure, Proof, Rejection};
use tokio::time::Instant;

use super::pace::Pace;
use super::{Exchange, Options, Progress, Transcript};
use crate::budget::{Ledger, Spent, Tokens};
use crate::estimate::Weigher;
use crate::observation::{Count, Observation};
use crate::probe::Probe;
use crate::upstream::{Call, Mode, Upstream};

/// A call may be made this often where the provider says "later".
pub(super) const TRIES: u32 = 3;
/// The longest `Retry-After` that a run waits for; after a longer one it ends, and can be resumed.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// So many silent calls in a row end the run.
const SILENT_CALLS: u32 = 3;

/// Why a run ends before its plan does.
#[derive(Debug)]
pub(super) enum Stop {
    /// The provider cannot be talked to: why, with the cure.
    Hopeless(String),
    /// Which bound of the budget the next call would break.
    Budget(String),
}

pub(super) struct Caller<'a, U> {
    upstream: &'a U,
    weigher: Weigher,
    state: Mutex<State>,
}

struct State {
    ledger: Ledger,
    pace: Pace,
    /// Calls in a row of which nothing is known.
    silent: u32,
}

impl<'a, U: Upstream> Caller<'a, U> {
    pub(super) fn new(upstream: &'a U, model: &str, options: &Options) -> Self {
        let ledger = Ledger::new(options.budget, options.price.clone());
        let state = State { ledger, pace: Pace::new(options.parallel), silent: 0 };
        Caller { upstream, weigher: Weigher::for_model(model), state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics while holding the state of a run")
    }

    pub(super) fn spent(&self) -> Spent {
        self.state().ledger.spent()
    }

    /// The first call is made alone: a provider that cannot be reached is found at once. When the budget ends the run,
    /// the calls under way come back first: they are paid for.
    pub(super) async fn make_all(
        &self,
        plan: Vec<Probe>,
        progress: &(dyn Fn(Progress<'_>) + Sync),
    ) -> Result<Transcript, Stop> {
        let planned = plan.len();
        let mut waiting = VecDeque::from(plan);
        let mut transcript = Transcript::default();
        let mut flying = FuturesUnordered::new();
        let (mut done, mut over) = (0, None);
        loop {
            let width = if done == 0 { 1 } else { self.state().pace.width() };
            while over.is_none() && flying.len() < width {
                let Some(probe) = waiting.pop_front() else { break };
                progress(Progress { done, planned, call: &probe.call.key });
                flying.push(self.make(probe, done == 0));
            }
            match flying.next().await {
                None => break,
                Some(Ok(exchange)) => {
                    done += 1;
                    transcript.keep(exchange);
                }
                Some(Err(Stop::Hopeless(why))) => return Err(Stop::Hopeless(why)),
                Some(Err(Stop::Budget(why))) => {
                    over.get_or_insert(why);
                }
            }
        }
        match over {
            Some(why) => Err(Stop::Budget(format!("{why} ({done} of {planned} calls are made)"))),
            None => Ok(transcript),
        }
    }

    async fn make(&self, probe: Probe, first: bool) -> Result<Exchange, Stop> {
        let observation = self.ask(&probe.call).await?;
        if let Some(why) = self.hopeless(&probe, &observation, first) {
            return Err(Stop::Hopeless(why));
        }
        let count = if probe.count { self.count(&probe.call).await? } else { Count::NoEndpoint };
        Ok(Exchange { call: probe.call, observation, count })
    }

    /// Counting costs a request and no tokens; nobody to ask costs nothing.
    async fn count(&self, call: &Call) -> Result<Count, Stop> {
        if !self.upstream.can_count(call) {
            return Ok(Count::NoEndpoint);
        }
        if !self.upstream.keeps_count(call) {
            self.state().ledger.reserve(Tokens::default()).map_err(Stop::Budget)?;
        }
        Ok(self.upstream.count(call).await)
    }

    async fn ask(&self, call: &Call) -> Result<Observation, Stop> {
        if self.upstream.keeps(call) {
            self.state().ledger.reused();
            return Ok(self.upstream.call(call).await);
        }
        let most = self.weigher.most(call);
        let mut tries = 0;
        loop {
            tries += 1;
            self.wait_for_our_turn().await;
            self.state().ledger.reserve(most).map_err(Stop::Budget)?;
            let observation = self.upstream.call(call).await;
            let mut state = self.state();
            state.ledger.settle(most, &observation);
            match &observation {
                Observation::Failed(failure) if passes_by_itself(failure) => {
                    let pause = failure.retry_after.unwrap_or(Duration::from_secs(1));
                    if self.upstream.mode() != Mode::Live || tries >= TRIES || pause > LONGEST_PAUSE {
                        return Ok(observation);
                    }
                    tracing::debug!(call = %call.key, reason = failure.reason, ?pause, "contract call is repeated");
                    state.pace.later(Instant::now(), pause);
                }
                _ => {
                    state.pace.came_back();
                    return Ok(observation);
                }
            }
        }
    }

    /// Nobody calls before the provider wants to be called.
    async fn wait_for_our_turn(&self) {
        loop {
            let pause = self.state().pace.pause(Instant::now());
            if pause.is_zero() {
                return;
            }
            tokio::time::sleep(pause).await;
        }
    }

    fn hopeless(&self, probe: &Probe, observation: &Observation, first: bool) -> Option<String> {
        let words = observation.trouble().trim_end_matches('.').to_owned();
        let mut state = self.state();
        match observation {
            Observation::NotRecorded { .. } | Observation::Recording(_) if first => return Some(words),
            Observation::Failed(f) => match f.proof {
                Proof::NotSent => {
                    return Some(format!("{words}. Is the provider's base_url right, and is it up?"));
                }
                Proof::Rejected(Rejection::Setup | Rejection::Billing | Rejection::QuotaExhausted)
                    if probe.call.model.is_none() =>
                {
                    return Some(format!("{words}. Check the provider's api_key, base_url and model"));
                }
                // Told "later" as often as a call may be made: the rest of the run would only wait.
                Proof::Refused | Proof::Rejected(Rejection::RateLimited | Rejection::Overloaded) => {
                    return Some(format!("{words}. Run it again when the provider has room"));
                }
                Proof::Unknown => state.silent += 1,
                _ => state.silent = 0,
            },
            _ => state.silent = 0,
        }
        (state.silent >= SILENT_CALLS).then(|| format!("{SILENT_CALLS} calls in a row came to nothing: {words}"))
    }
}

fn passes_by_itself(failure: &Failure) -> bool {
    matches!(
        failure.proof,
        Proof::NotSent | Proof::Refused | Proof::Rejected(Rejection::RateLimited | Rejection::Overloaded)
    )
}
