//! Contract runs, permits and what the evidence covers, as ML engineers and people on call see them.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;

use super::value;
use crate::domain::permit::{Standing, rfc3339 as to_the_second};
use crate::domain::route::Evidence;
use crate::engine::certify::coverage::Coverage;
use crate::http::headers::rfc3339;
use crate::store::contracts::{CheckRow, Run};
use crate::store::drift::HeldCircuit;
use crate::store::permits::ListedPermit;

/// One run of a contract suite against a target.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ContractRun)]
pub struct RunView {
    id: Uuid,
    /// The same id, by the name that a permit's grant takes.
    run_id: Uuid,
    #[schema(pattern = "^contract_run$")]
    object: &'static str,
    suite: String,
    suite_digest: String,
    /// `provider/model`.
    target: String,
    provider: String,
    model: String,
    adapter_version: String,
    /// `live` or `replay`.
    mode: String,
    /// `running`, `passed`, `failed` or `error`.
    verdict: String,
    kinds: Kinds,
    /// Why it could not be made.
    error: Option<String>,
    #[schema(format = DateTime)]
    started_at: String,
    #[schema(format = DateTime)]
    ended_at: Option<String>,
}

/// The verdict of each kind of checks.
#[derive(Debug, Serialize, ToSchema)]
struct Kinds {
    schema: String,
    tokenizer: String,
    round_trip: String,
}

/// What one check found.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Check)]
pub struct CheckView {
    /// `schema`, `tokenizer` or `round_trip`.
    kind: String,
    name: String,
    case: String,
    /// `passed`, `failed` or `skipped`.
    verdict: String,
    detail: String,
}

/// A run with what each of its checks found.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ContractRunWithChecks)]
pub struct RunWithChecks {
    #[serde(flatten)]
    run: RunView,
    checks: Vec<CheckView>,
}

/// Leave for a target to be a route's fallback, and how it stands under this process's settings.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Permit)]
pub struct PermitView {
    id: Uuid,
    #[schema(pattern = "^permit$")]
    object: &'static str,
    route: String,
    provider: String,
    model: String,
    /// `valid`, `expiring`, `expired`, `ended`, `renewed`, `revoked` or `unusable`.
    state: &'static str,
    /// The state in a sentence, with its reason.
    status: String,
    /// The passed run that it rests on.
    run_id: Uuid,
    mode: &'static str,
    suite: String,
    suite_digest: String,
    adapter_version: String,
    settings_digest: String,
    granted_by: String,
    reason: String,
    /// The permit that this one follows after a recheck.
    renews: Option<Uuid>,
    #[schema(format = DateTime)]
    granted_at: String,
    #[schema(format = DateTime)]
    expires_at: String,
    #[schema(format = DateTime)]
    revoked_at: Option<String>,
    revoked_by: Option<String>,
    revoke_reason: Option<String>,
    /// `operator`, `changed`, `recheck`, `drift` or `renewed`.
    ended_cause: Option<&'static str>,
    #[schema(format = DateTime)]
    evidence_at: String,
    recheck: Option<RecheckView>,
}

/// How the scheduled re-run of a permit's suite stands.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Recheck)]
struct RecheckView {
    tries: i32,
    #[schema(format = DateTime)]
    running_since: Option<String>,
    last_error: Option<String>,
    #[schema(format = DateTime)]
    next_at: Option<String>,
}

/// A fresh permit, with what its evidence covers and what it does not.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = GrantedPermit)]
pub struct GrantedView {
    #[serde(flatten)]
    permit: PermitView,
    evidence: Option<CoverageView>,
}

/// What a run's evidence covers, and what it does not.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Coverage)]
struct CoverageView {
    run_id: Uuid,
    suite: String,
    target: String,
    mode: String,
    #[schema(format = DateTime)]
    started_at: String,
    age_seconds: i64,
    digests: Digests,
    /// By kind of checks.
    checks: BTreeMap<&'static str, Counts>,
    /// The checks that were not judged, each with its reason.
    not_covered: Vec<CheckView>,
}

#[derive(Debug, Serialize, ToSchema)]
struct Digests {
    suite: String,
    settings: String,
    adapter_version: String,
}

#[derive(Debug, Serialize, ToSchema)]
struct Counts {
    passed: usize,
    failed: usize,
    skipped: usize,
}

/// Live answers broke the contract: only a passed run closes this.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = HeldCircuit)]
pub struct HeldCircuitView {
    provider: String,
    model: String,
    route: String,
    #[schema(format = DateTime)]
    open_since: String,
    reason: String,
    closes_with: String,
}

/// A contract run without its checks.
pub fn run(run: &Run) -> Value {
    value(&RunView {
        id: run.id.as_uuid(),
        run_id: run.id.as_uuid(),
        object: "contract_run",
        suite: run.suite.clone(),
        suite_digest: run.suite_digest.clone(),
        target: run.target.to_string(),
        provider: run.target.provider.clone(),
        model: run.target.model.clone(),
        adapter_version: run.adapter_version.clone(),
        mode: run.mode.clone(),
        verdict: run.verdict.clone(),
        kinds: Kinds {
            schema: run.kinds[0].clone(),
            tokenizer: run.kinds[1].clone(),
            round_trip: run.kinds[2].clone(),
        },
        error: run.error.clone(),
        started_at: rfc3339(run.started_at),
        ended_at: run.ended_at.map(rfc3339),
    })
}

/// One check of a run.
pub fn check(check: &CheckRow) -> Value {
    value(&checked(check))
}

fn checked(check: &CheckRow) -> CheckView {
    CheckView {
        kind: check.kind.clone(),
        name: check.name.clone(),
        case: check.case.clone(),
        verdict: check.verdict.clone(),
        detail: check.detail.clone(),
    }
}

/// A permit, and how it stands under these settings.
pub fn permit(listed: &ListedPermit, standing: &Standing) -> Value {
    let (permit, recheck) = (&listed.permit, &listed.recheck);
    let facts = permit.facts();
    let ended = facts.revoked.as_ref();
    value(&PermitView {
        id: permit.id().as_uuid(),
        object: "permit",
        route: facts.route.clone(),
        provider: facts.target.provider.clone(),
        model: facts.target.model.clone(),
        state: standing.word,
        status: standing.text.clone(),
        run_id: facts.run.as_uuid(),
        mode: match facts.mode {
            Evidence::Live => "live",
            Evidence::Replay => "replay",
        },
        suite: facts.suite.clone(),
        suite_digest: facts.suite_digest.clone(),
        adapter_version: facts.adapter_version.clone(),
        settings_digest: facts.settings_digest.clone(),
        granted_by: facts.granted_by.clone(),
        reason: facts.reason.clone(),
        renews: listed.renews.map(|id| id.as_uuid()),
        granted_at: to_the_second(facts.granted_at),
        expires_at: to_the_second(facts.expires_at),
        revoked_at: ended.map(|r| to_the_second(r.at)),
        revoked_by: ended.map(|r| r.by.clone()),
        revoke_reason: ended.map(|r| r.reason.clone()),
        ended_cause: ended.map(|r| r.cause.as_str()),
        evidence_at: to_the_second(recheck.evidence_at),
        recheck: (recheck.tries > 0).then(|| RecheckView {
            tries: recheck.tries,
            running_since: recheck.running_since.map(to_the_second),
            last_error: recheck.last_error.clone(),
            next_at: recheck.next_at.map(to_the_second),
        }),
    })
}

/// What the evidence covers, and what it does not.
pub fn coverage(coverage: &Coverage) -> Value {
    let run = &coverage.run;
    let counts = |[passed, failed, skipped]: [usize; 3]| Counts { passed, failed, skipped };
    value(&CoverageView {
        run_id: run.id.as_uuid(),
        suite: run.suite.clone(),
        target: run.target.to_string(),
        mode: run.mode.clone(),
        started_at: to_the_second(run.started_at),
        age_seconds: coverage.age_seconds(),
        digests: Digests {
            suite: run.suite_digest.clone(),
            settings: run.settings_digest.clone(),
            adapter_version: run.adapter_version.clone(),
        },
        checks: coverage.kinds.iter().map(|(kind, of)| (*kind, counts(*of))).collect(),
        not_covered: coverage.skipped.iter().map(checked).collect(),
    })
}

/// A circuit that live answers have opened.
pub fn held_circuit(circuit: &HeldCircuit) -> HeldCircuitView {
    HeldCircuitView {
        provider: circuit.target.provider.clone(),
        model: circuit.target.model.clone(),
        route: circuit.route.clone(),
        open_since: to_the_second(circuit.opened_at),
        reason: circuit.reason.clone(),
        closes_with: format!("a passed live run of `{}`", circuit.suite),
    }
}
