//! What a run's evidence covers and what it does not: printed when a permit is granted, so that nobody takes more for
//! proved than was.

use std::collections::BTreeMap;

use crate::config::Config;
use crate::domain::Timestamp;
use crate::domain::permit::Standing;
use crate::domain::route::Route;
use crate::store::contracts::{CheckRow, Run};
use crate::store::permits::ListedPermit;
use crate::store::{Store, StoreError};

/// The evidence behind a permit.
#[derive(Debug, Clone)]
pub struct Coverage {
    pub run: Run,
    /// By kind, in the order of the report: passed, failed, skipped.
    pub kinds: Vec<(&'static str, [usize; 3])>,
    /// The checks that were not judged, each with the suite's reason.
    pub skipped: Vec<CheckRow>,
    /// The database's time when this was read.
    pub read_at: Timestamp,
}

impl Coverage {
    /// Reads the run's checks. A run that is gone covers nothing: `None`.
    pub async fn of(store: &Store, listed: &ListedPermit) -> Result<Option<Coverage>, StoreError> {
        let id = listed.permit.facts().run;
        let Some(run) = store.run(id).await? else { return Ok(None) };
        let checks = store.checks(id).await?;
        let count =
            |kind: &str, verdict: &str| checks.iter().filter(|c| c.kind == kind && c.verdict == verdict).count();
        let kinds = ["schema", "tokenizer", "round_trip"]
            .map(|kind| (kind, ["passed", "failed", "skipped"].map(|verdict| count(kind, verdict))));
        let skipped = checks.iter().filter(|check| check.verdict == "skipped").cloned().collect();
        Ok(Some(Coverage { run, kinds: kinds.to_vec(), skipped, read_at: listed.read_at }))
    }

    /// Seconds since the run began.
    pub fn age_seconds(&self) -> i64 {
        (self.read_at - self.run.started_at).whole_seconds()
    }
}

/// How each permit stands under these settings. Each suite is read once.
pub async fn standings(config: &Config, permits: &[ListedPermit]) -> Vec<Standing> {
    let mut digests: BTreeMap<String, Option<String>> = BTreeMap::new();
    let mut out = Vec::new();
    for listed in permits {
        let facts = listed.permit.facts();
        let route: Option<&Route> = config.routes.get(&facts.route).map(|route| &**route);
        let suite = route.and_then(|route| route.contract.clone()).unwrap_or_default();
        if !digests.contains_key(&suite) {
            let digest = super::read_digest(config, suite.clone()).await.ok();
            digests.insert(suite.clone(), digest);
        }
        let digest = digests.get(&suite).and_then(|digest| digest.as_deref());
        out.push(Standing::of(&listed.permit, route, digest, &listed.recheck, listed.read_at));
    }
    out
}
