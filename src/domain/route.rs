//! Routes, targets, and the candidate: a target that may be tried now.

use std::fmt;
use std::time::Duration;

use providers::windows::Window;

use super::Timestamp;
use super::drift::DriftRule;
use super::ids::PermitId;
use super::permit::{Permit, PermitFlaw};

/// A provider and one of its models, as `provider/model`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Target {
    pub provider: String,
    pub model: String,
}

impl Target {
    /// Reads `provider/model`; the model may hold further slashes.
    pub fn parse(text: &str) -> Option<Self> {
        let (provider, model) = text.split_once('/')?;
        (!provider.is_empty() && !model.is_empty())
            .then(|| Target { provider: provider.to_owned(), model: model.to_owned() })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.provider, self.model)
    }
}

/// The name that clients put into `model`: a primary target and its fallbacks, and how to treat them.
#[derive(Debug, Clone, PartialEq)]
pub struct Route {
    pub name: String,
    /// The suite whose passed run a fallback needs; without one no fallback can be enabled.
    pub contract: Option<String>,
    /// The first is the primary.
    pub targets: Vec<RouteTarget>,
    /// From the start to: unknown.
    pub attempt_timeout: Duration,
    /// Until the first content of the answer; unset: 20 s for a stream, `attempt_timeout` alone for a whole answer.
    pub first_byte_timeout: Option<Duration>,
    /// Between two pieces of content; unset: 15 s for a stream, `attempt_timeout` alone for a whole answer.
    pub idle_timeout: Option<Duration>,
    /// How long a late answer is still listened for.
    pub settle_timeout: Duration,
    /// Further tries of the same target within a round, after a failure that allows them.
    pub retries: u32,
    pub on_unknown: OnUnknown,
    pub stream: StreamDelivery,
    pub idempotency: KeyPolicy,
    /// Attempts of a job in all.
    pub max_attempts: u32,
    pub job_deadline: Duration,
    pub evidence: Evidence,
    /// How long a new permit is valid.
    pub permit_ttl: Duration,
    /// How old a fallback's evidence may grow before its suite is run again; unset: nothing runs by itself.
    pub recheck: Option<Duration>,
    /// How live answers are held against the contract; unset: they are not.
    pub drift: Option<DriftRule>,
    /// Whether an account without credit may send the work elsewhere.
    pub fail_over_on_billing: bool,
    /// Members of a request that fall where a target has no place for them, instead of being refused.
    pub drop_unsupported: Vec<String>,
}

/// A target with what a permit for it must have been earned under.
#[derive(Debug, Clone, PartialEq)]
pub struct RouteTarget {
    pub target: Target,
    pub adapter_version: String,
    /// Changes with every setting of the provider that could change its answers.
    pub settings_digest: String,
    /// How much its model holds; `None`: that is not known.
    pub window: Option<Window>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnUnknown {
    /// Wait for an outcome or an operator.
    Hold,
    /// The work is declared free of side effects: release, and try the next permitted target.
    FailOver,
}

/// When a stream's bytes go out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamDelivery {
    /// As they come; after the first content there is no failover.
    Live,
    /// Once the attempt has won: a cut stream can fail over unseen.
    Settled,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyPolicy {
    Required,
    Generate,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evidence {
    Live,
    Replay,
}

/// A target that may be tried now: the primary, or a fallback *with its permit*. It has no other constructors, and
/// nothing else can be started.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    target: RouteTarget,
    permit: Option<PermitId>,
}

impl Candidate {
    /// The route's first target needs no permit: it is what the consumer was built against.
    pub fn primary(route: &Route) -> Option<Self> {
        route.targets.first().map(|target| Candidate { target: target.clone(), permit: None })
    }

    /// A fallback, if the permit is for this very target of this route and valid now.
    pub fn fallback(
        route: &Route,
        target: &RouteTarget,
        suite_digest: Option<&str>,
        permit: &Permit,
        now: Timestamp,
    ) -> Result<Self, PermitFlaw> {
        permit.covers(route, target, suite_digest, now)?;
        Ok(Candidate { target: target.clone(), permit: Some(permit.id()) })
    }

    pub fn target(&self) -> &Target {
        &self.target.target
    }

    pub fn adapter_version(&self) -> &str {
        &self.target.adapter_version
    }

    pub fn permit(&self) -> Option<PermitId> {
        self.permit
    }
}
