//! What it proves that a provider has no record of an attempt: nothing, until no request can still be on its way.
//!
//! A sender that slept through its lease may wake and send; a request may stand in a queue before it is recorded. So
//! absence counts only some time after the last moment at which anybody could have sent (found with a model checker:
//! without it, the second attempt starts in nine steps while the first is sent).

use std::time::Duration;

/// What is known when a provider answers "no such request". Taken before it was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Circumstances {
    /// How long nobody can have sent anything: since the lease of the attempt's process ended, or since that process
    /// itself, alive, found its call to have ended. `None`: its process lives, and may still send or hear.
    pub quiet_for: Option<Duration>,
    pub started_ago: Duration,
    /// Whether the time is over for which a late answer is waited for (`settle_timeout`).
    pub past_settle: bool,
    pub grace: Duration,
    /// Whether the provider shows requests that are still worked on.
    pub shows_running: bool,
    /// How long it remembers one that has ended; `None`: for ever.
    pub remembered_for: Option<Duration>,
}

impl Circumstances {
    /// `Ok`: the provider never had it, or has nothing of it any more and never will. `Err`: why that is not proved.
    pub fn judge(self) -> Result<(), &'static str> {
        let Some(quiet_for) = self.quiet_for else {
            return Err("its process lives, and its call may still send or hear");
        };
        if quiet_for <= self.grace || self.started_ago <= self.grace {
            return Err("the grace is not over: it may still be on its way");
        }
        if !self.shows_running && !self.past_settle {
            return Err("it may be worked on still, which this provider does not show");
        }
        if self.remembered_for.is_some_and(|kept| self.started_ago >= kept) {
            return Err("it may have ended and been forgotten");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Absent, and nothing speaks against it.
    const SURE: Circumstances = Circumstances {
        quiet_for: Some(Duration::from_secs(36)),
        started_ago: Duration::from_secs(60),
        past_settle: false,
        grace: Duration::from_secs(35),
        shows_running: true,
        remembered_for: Some(Duration::from_secs(300)),
    };

    #[test]
    fn absence_counts_only_when_nothing_can_be_on_its_way() {
        let proves = |change: fn(&mut Circumstances)| {
            let mut circumstances = SURE;
            change(&mut circumstances);
            circumstances.judge().is_ok()
        };
        assert!(proves(|_| {}));
        assert!(!proves(|c| c.quiet_for = None), "a living process may send");
        assert!(!proves(|c| c.quiet_for = Some(c.grace)), "the grace counts from the end of the lease");
        assert!(!proves(|c| c.started_ago = c.grace), "and from the start");
        assert!(!proves(|c| c.shows_running = false), "what runs is not shown");
        assert!(proves(|c| (c.shows_running, c.past_settle) = (false, true)));
        assert!(!proves(|c| c.started_ago = 300 * SECOND), "it is forgotten by then");
        assert!(proves(|c| (c.started_ago, c.remembered_for) = (900 * SECOND, None)));
    }
}
