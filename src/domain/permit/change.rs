//! What has changed since a permit's run: the suite, the model, the adapter or the provider's settings. Each ends it.

use super::Permit;
use crate::domain::ids::RunId;
use crate::domain::route::{Route, RouteTarget, Target};

/// A difference between what a run was made with and what stands now. Its words are the reason that people read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Change {
    #[error("the suite changed since run {run} (digest {earned} → {now}): run it again")]
    Suite { run: RunId, earned: String, now: String },
    #[error("the route's contract is now {now}, and run {run} was of suite `{earned}`: run the new one")]
    Contract { run: RunId, earned: String, now: String },
    #[error("the route's model changed since run {run}: {target} is no target of it any more")]
    Model { run: RunId, target: Target },
    #[error("the adapter changed since run {run} ({earned} → {now}): run the suite again")]
    Adapter { run: RunId, earned: String, now: String },
    #[error(
        "the settings of provider `{provider}` changed since run {run} (digest {earned} → {now}): run the suite again"
    )]
    Settings { run: RunId, provider: String, earned: String, now: String },
}

impl Permit {
    /// What differs on this route now; `target` is the route's own entry for the permit's target, where it has one. A
    /// suite that cannot be read (no digest) has not changed: it may be half written.
    pub fn change(&self, route: &Route, target: Option<&RouteTarget>, suite_digest: Option<&str>) -> Option<Change> {
        let facts = &self.facts;
        let run = facts.run;
        if route.contract.as_ref() != Some(&facts.suite) {
            let now = route.contract.as_ref().map_or("none".to_owned(), |name| format!("`{name}`"));
            return Some(Change::Contract { run, earned: facts.suite.clone(), now });
        }
        let Some(target) = target else {
            return Some(Change::Model { run, target: facts.target.clone() });
        };
        if let Some(now) = suite_digest.filter(|now| *now != facts.suite_digest) {
            return Some(Change::Suite { run, earned: short(&facts.suite_digest), now: short(now) });
        }
        if facts.adapter_version != target.adapter_version {
            let now = target.adapter_version.clone();
            return Some(Change::Adapter { run, earned: facts.adapter_version.clone(), now });
        }
        (facts.settings_digest != target.settings_digest).then(|| Change::Settings {
            run,
            provider: facts.target.provider.clone(),
            earned: short(&facts.settings_digest),
            now: short(&target.settings_digest),
        })
    }

    /// [`Permit::change`] against whatever the route has.
    pub fn change_on(&self, route: &Route, suite_digest: Option<&str>) -> Option<Change> {
        let fallbacks = route.targets.iter().skip(1);
        let target = fallbacks.into_iter().find(|t| t.target == self.facts.target);
        self.change(route, target, suite_digest)
    }
}

/// Enough of a digest to tell two apart.
fn short(digest: &str) -> String {
    digest.chars().take(12).collect()
}
