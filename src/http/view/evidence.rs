//! Permits and the evidence behind them, as JSON: how each stands, in one word and in a sentence.

use serde_json::{Value, json};

use super::check;
use crate::domain::permit::{Standing, rfc3339};
use crate::domain::route::Evidence;
use crate::engine::certify::coverage::Coverage;
use crate::store::drift::HeldCircuit;
use crate::store::permits::ListedPermit;

/// A permit, and how it stands under these settings.
pub fn permit(listed: &ListedPermit, standing: &Standing) -> Value {
    let (permit, recheck) = (&listed.permit, &listed.recheck);
    let facts = permit.facts();
    let ended = facts.revoked.as_ref();
    json!({
        "id": permit.id(),
        "object": "permit",
        "route": facts.route,
        "provider": facts.target.provider,
        "model": facts.target.model,
        "state": standing.word,
        "status": standing.text,
        "run_id": facts.run,
        "mode": match facts.mode { Evidence::Live => "live", Evidence::Replay => "replay" },
        "suite": facts.suite,
        "suite_digest": facts.suite_digest,
        "adapter_version": facts.adapter_version,
        "settings_digest": facts.settings_digest,
        "granted_by": facts.granted_by,
        "reason": facts.reason,
        "renews": listed.renews,
        "granted_at": rfc3339(facts.granted_at),
        "expires_at": rfc3339(facts.expires_at),
        "revoked_at": ended.map(|r| rfc3339(r.at)),
        "revoked_by": ended.map(|r| r.by.clone()),
        "revoke_reason": ended.map(|r| r.reason.clone()),
        "ended_cause": ended.map(|r| r.cause.as_str()),
        "evidence_at": rfc3339(recheck.evidence_at),
        "recheck": (recheck.tries > 0).then(|| json!({
            "tries": recheck.tries,
            "running_since": recheck.running_since.map(rfc3339),
            "last_error": recheck.last_error,
            "next_at": recheck.next_at.map(rfc3339),
        })),
    })
}

/// What the evidence covers, and what it does not.
pub fn coverage(coverage: &Coverage) -> Value {
    let run = &coverage.run;
    let kinds = coverage.kinds.iter().map(|(kind, [passed, failed, skipped])| {
        ((*kind).to_owned(), json!({ "passed": passed, "failed": failed, "skipped": skipped }))
    });
    json!({
        "run_id": run.id,
        "suite": run.suite,
        "target": run.target.to_string(),
        "mode": run.mode,
        "started_at": rfc3339(run.started_at),
        "age_seconds": coverage.age_seconds(),
        "digests": {
            "suite": run.suite_digest,
            "settings": run.settings_digest,
            "adapter_version": run.adapter_version,
        },
        "checks": kinds.collect::<serde_json::Map<_, _>>(),
        "not_covered": coverage.skipped.iter().map(check).collect::<Vec<_>>(),
    })
}

/// A circuit that live answers have opened.
pub fn held_circuit(circuit: &HeldCircuit) -> Value {
    json!({
        "provider": circuit.target.provider,
        "model": circuit.target.model,
        "route": circuit.route,
        "open_since": rfc3339(circuit.opened_at),
        "reason": circuit.reason,
        "closes_with": format!("a passed live run of `{}`", circuit.suite),
    })
}
