//! The permit: provider P, model M, adapter version V passed suite S (digest D) at T, valid until U, enabled by W.

use super::Timestamp;
use super::ids::{PermitId, RunId};
use super::route::{Evidence, Route, RouteTarget, Target};

/// Evidence behind a fallback. It is only ever read from the database, which holds it against a passed run.
#[derive(Debug, Clone, PartialEq)]
pub struct Permit {
    id: PermitId,
    facts: PermitFacts,
}

/// What a permit row says.
#[derive(Debug, Clone, PartialEq)]
pub struct PermitFacts {
    pub route: String,
    pub run: RunId,
    pub mode: Evidence,
    pub suite: String,
    pub suite_digest: String,
    pub target: Target,
    pub adapter_version: String,
    pub settings_digest: String,
    pub granted_by: String,
    pub reason: String,
    pub granted_at: Timestamp,
    pub expires_at: Timestamp,
    pub revoked: Option<Revoked>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Revoked {
    pub at: Timestamp,
    pub by: String,
    pub reason: String,
}

/// Why a permit does not cover a target now. Each names what is missing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PermitFlaw {
    #[error("no permit: run the suite `{suite}` against {target} and grant one")]
    Missing { suite: String, target: Target },
    #[error("the route names no contract, so nothing can be proved for {target}; set `routes.{route}.contract`")]
    NoContract { route: String, target: Target },
    #[error("permit {id} is for {permitted}, not for {wanted}")]
    OtherTarget { id: PermitId, permitted: String, wanted: String },
    #[error("permit {id} was revoked by {by}: {reason}")]
    Revoked { id: PermitId, by: String, reason: String },
    #[error("permit {id} expired at {at}; run the suite again and grant a new one")]
    Expired { id: PermitId, at: Timestamp },
    #[error("permit {id} was earned under suite digest {earned}, the suite now has {now}; run it again")]
    SuiteChanged { id: PermitId, earned: String, now: String },
    #[error("permit {id} was earned with adapter {earned}, this gateway speaks {now}; run the suite again")]
    AdapterChanged { id: PermitId, earned: String, now: String },
    #[error("permit {id} was earned under other settings of provider `{provider}`; run the suite again")]
    SettingsChanged { id: PermitId, provider: String },
    #[error("permit {id} rests on a replayed run, and the route wants a live one; run the suite with --live")]
    OnlyReplayed { id: PermitId },
}

impl Permit {
    /// Only the store makes one, from a row that references a passed run.
    pub(crate) fn from_row(id: PermitId, facts: PermitFacts) -> Self {
        Permit { id, facts }
    }

    pub fn id(&self) -> PermitId {
        self.id
    }

    pub fn facts(&self) -> &PermitFacts {
        &self.facts
    }

    /// Whether this permit lets `target` serve `route` now.
    pub fn covers(
        &self,
        route: &Route,
        target: &RouteTarget,
        suite_digest: Option<&str>,
        now: Timestamp,
    ) -> Result<(), PermitFlaw> {
        let facts = &self.facts;
        let id = self.id;
        let (Some(contract), Some(digest)) = (&route.contract, suite_digest) else {
            return Err(PermitFlaw::NoContract { route: route.name.clone(), target: target.target.clone() });
        };
        if facts.route != route.name || facts.target != target.target || facts.suite != *contract {
            return Err(PermitFlaw::OtherTarget {
                id,
                permitted: format!("{} on route `{}` under suite `{}`", facts.target, facts.route, facts.suite),
                wanted: format!("{} on route `{}` under suite `{contract}`", target.target, route.name),
            });
        }
        if let Some(revoked) = &facts.revoked {
            return Err(PermitFlaw::Revoked { id, by: revoked.by.clone(), reason: revoked.reason.clone() });
        }
        if facts.expires_at <= now {
            return Err(PermitFlaw::Expired { id, at: facts.expires_at });
        }
        if facts.suite_digest != digest {
            return Err(PermitFlaw::SuiteChanged { id, earned: short(&facts.suite_digest), now: short(digest) });
        }
        if facts.adapter_version != target.adapter_version {
            return Err(PermitFlaw::AdapterChanged {
                id,
                earned: facts.adapter_version.clone(),
                now: target.adapter_version.clone(),
            });
        }
        if facts.settings_digest != target.settings_digest {
            return Err(PermitFlaw::SettingsChanged { id, provider: target.target.provider.clone() });
        }
        match (route.evidence, facts.mode) {
            (Evidence::Live, Evidence::Replay) => Err(PermitFlaw::OnlyReplayed { id }),
            (Evidence::Live, Evidence::Live) | (Evidence::Replay, Evidence::Live | Evidence::Replay) => Ok(()),
        }
    }
}

fn short(digest: &str) -> String {
    digest.chars().take(12).collect()
}
