//! What an attempt needs to start: a queued job, this process's lease, and for a fallback a permit that is valid at
//! that very moment (R3, R4, R8). The decision may be stale; the statement is not.

use interlock::domain::attempt::AttemptState;
use interlock::domain::ids::{InstanceId, PermitId, RunId};
use interlock::domain::permit::{Change, PermitFlaw};
use interlock::domain::route::Candidate;
use interlock::store::StoreError;
use interlock::store::attempts::Completed;
use interlock::store::contracts::{CheckRow, RunEnd};

use super::ground::{DIGEST, Ground, HOUR, answer};

#[tokio::test]
async fn an_attempt_starts_on_a_queued_job_and_a_repeat_of_the_statement_says_so_too() {
    let ground = Ground::new().await;
    let job = ground.queued("k").await;
    let start = ground.start_of(job, 1, ground.primary());
    for _ in 0..2 {
        ground.store.start_attempt(&start).await.expect("started");
    }
    assert_eq!(ground.states(start.key).await, "running/started");
    let other = ground.store.start_attempt(&ground.start_of(job, 2, ground.primary())).await;
    assert!(matches!(other, Err(StoreError::LostRace)), "{other:?}");
}

#[tokio::test]
async fn nothing_starts_without_a_lease_and_nothing_is_admitted() {
    let ground = Ground::new().await;
    let job = ground.queued("k").await;
    let mut start = ground.start_of(job, 1, ground.primary());
    start.instance = InstanceId::fresh();
    let unregistered = ground.store.start_attempt(&start).await;
    assert!(matches!(unregistered, Err(StoreError::LeaseEnded)), "{unregistered:?}");
    ground.store.end_lease(ground.instance).await.expect("ended");
    start.instance = ground.instance;
    let ended = ground.store.start_attempt(&start).await;
    assert!(matches!(ended, Err(StoreError::LeaseEnded)), "{ended:?}");
    let admitted = ground.store.admit(ground.new_job("another", true)).await;
    assert!(matches!(admitted, Err(StoreError::LeaseEnded)), "{admitted:?}");
    assert_eq!(ground.value("SELECT count(*)::text FROM attempts").await, "0");
    assert_eq!(ground.value("SELECT count(*)::text FROM jobs").await, "1");
}

#[tokio::test]
async fn a_lease_that_has_ended_is_not_renewed() {
    let ground = Ground::new().await;
    ground.store.renew_lease(ground.instance).await.expect("renewed");
    ground.sql("UPDATE instances SET lease_until = now()").await;
    let renewed = ground.store.renew_lease(ground.instance).await;
    assert!(matches!(renewed, Err(StoreError::LeaseEnded)), "{renewed:?}");
    assert!(!ground.store.holds_lease(ground.instance).await.expect("an answer"));
}

#[tokio::test]
async fn nothing_starts_at_an_ordinal_or_in_a_round_that_is_past() {
    let ground = Ground::new().await;
    let job = ground.queued("k").await;
    let first = ground.start_of(job, 1, ground.primary());
    ground.store.start_attempt(&first).await.expect("started");
    let failure = providers::failure::Failure::new(providers::failure::Proof::Refused, "refused", "no");
    ground.store.fail_attempt(first.key, &failure, None).await.expect("failed");
    // Somebody who decided before the first attempt was there.
    let stale = ground.store.start_attempt(&ground.start_of(job, 1, ground.primary())).await;
    assert!(matches!(stale, Err(StoreError::LostRace)), "{stale:?}");
    let mut far = ground.start_of(job, 2, ground.primary());
    far.round = 3;
    let skipped = ground.store.start_attempt(&far).await;
    assert!(matches!(skipped, Err(StoreError::LostRace)), "{skipped:?}");
    far.round = 2;
    ground.store.start_attempt(&far).await.expect("the next round's first");
}

/// R8: decided under a permit that was valid then.
#[tokio::test]
async fn a_fallback_starts_under_a_valid_permit_and_under_no_other() {
    let ground = Ground::new().await;
    let spoilt = [
        ("revoked", "UPDATE permits SET revoked_at = now(), revoked_by = 'ann', revoke_reason = 'why' WHERE id = "),
        (
            "expired",
            "UPDATE permits SET granted_at = now() - interval '2 h', expires_at = now() - interval '1 h' WHERE id = ",
        ),
        ("of another route", "UPDATE permits SET route = 'other' WHERE id = "),
    ];
    for (how, sql) in spoilt {
        let permit = ground.permit().await;
        let job = ground.queued(how).await;
        let start = ground.start_of(job, 1, ground.fallback(&permit));
        ground.sql(format!("{sql} '{}'", permit.id())).await;
        let started = ground.store.start_attempt(&start).await;
        assert!(matches!(started, Err(StoreError::LostRace)), "a permit {how}: {started:?}");
        assert_eq!(
            ground.value(format!("SELECT state FROM jobs WHERE id = '{job}'")).await,
            "queued",
            "a permit {how}"
        );
    }
    let permit = ground.permit().await;
    let job = ground.queued("valid").await;
    let start = ground.start_of(job, 1, ground.fallback(&permit));
    ground.store.start_attempt(&start).await.expect("started");
    assert_eq!(
        ground.value(format!("SELECT rank || permit_id FROM attempts WHERE job_id = '{job}'")).await,
        format!("fallback{}", permit.id())
    );
}

#[tokio::test]
async fn no_permit_is_granted_on_a_run_that_has_not_passed_and_no_run_passes_without_all_kinds() {
    let ground = Ground::new().await;
    let failed = ground.run(false, ["passed", "failed", "passed"]).await;
    let granted = ground.store.grant_permit(PermitId::fresh(), "support", failed, "ann", "why", HOUR).await;
    assert!(
        matches!(&granted, Err(StoreError::Refused { constraint }) if constraint == "permits_run_has_passed"),
        "{granted:?}"
    );
    let nothing = ground.store.grant_permit(PermitId::fresh(), "support", RunId::fresh(), "ann", "why", HOUR).await;
    assert!(matches!(nothing, Ok(false)), "{nothing:?}");
    assert_eq!(ground.value("SELECT count(*)::text FROM operator_actions").await, "0", "a refusal is no deed");
    let run = ground.run(true, ["passed"; 3]).await;
    let end = RunEnd { passed: true, kinds: ["passed", "missing", "passed"], error: None, checks: Vec::new() };
    let again = ground.store.end_run(run, &end).await;
    assert!(matches!(again, Err(StoreError::LostRace)), "a verdict is final: {again:?}");
    ground.sql("UPDATE contract_runs SET verdict = 'running', ended_at = NULL").await;
    let lacking = ground.store.end_run(run, &end).await;
    assert!(
        matches!(&lacking, Err(StoreError::Refused { constraint }) if constraint == "contract_runs_pass_needs_all_kinds"),
        "{lacking:?}"
    );
}

/// Else the run would stay `running` for ever.
#[tokio::test]
async fn a_verdict_is_filed_whatever_the_provider_wrote() {
    let ground = Ground::new().await;
    let nul = || "a\u{0}b".to_owned();
    let check =
        CheckRow { kind: "schema".to_owned(), name: nul(), case: nul(), verdict: "failed".to_owned(), detail: nul() };
    let end =
        RunEnd { passed: false, kinds: ["failed", "missing", "missing"], error: Some(nul()), checks: vec![check] };
    let run = ground.run(false, ["missing"; 3]).await;
    ground.sql("UPDATE contract_runs SET verdict = 'running', ended_at = NULL").await;
    ground.store.end_run(run, &end).await.expect("ended");
    assert_eq!(
        ground.value("SELECT r.error || c.detail FROM contract_runs r, contract_checks c").await,
        r"a\u0000ba\u0000b"
    );
}

#[tokio::test]
async fn a_permit_covers_nothing_that_has_changed_since() {
    let ground = Ground::new().await;
    let permit = ground.permit().await;
    let (route, target, now) = (&*ground.route, &ground.route.targets[1], permit.facts().granted_at);
    let flaw = |target: &_, digest: &str, now| Candidate::fallback(route, target, Some(digest), &permit, now).err();
    assert_eq!(flaw(target, DIGEST, now), None);
    assert!(matches!(flaw(target, "another", now), Some(PermitFlaw::Changed { change: Change::Suite { .. }, .. })));
    assert!(matches!(flaw(target, DIGEST, permit.facts().expires_at), Some(PermitFlaw::Expired { .. })));
    let mut changed = target.clone();
    changed.target.model = "m2".to_owned();
    assert!(matches!(flaw(&changed, DIGEST, now), Some(PermitFlaw::OtherTarget { .. })));
    let mut changed = target.clone();
    changed.adapter_version = "openai/999".to_owned();
    assert!(matches!(flaw(&changed, DIGEST, now), Some(PermitFlaw::Changed { change: Change::Adapter { .. }, .. })));
    let mut changed = target.clone();
    changed.settings_digest = "another".to_owned();
    assert!(matches!(flaw(&changed, DIGEST, now), Some(PermitFlaw::Changed { change: Change::Settings { .. }, .. })));
}

/// R7: who may complete the job has changed since this attempt read it.
#[tokio::test]
async fn a_stale_version_never_completes() {
    let ground = Ground::new().await;
    for state in ["started", "unknown", "released"] {
        let key = ground.running(state).await;
        let job = key.job;
        if state != "started" {
            ground.store.mark_attempt_unknown(key, "timeout", "silence").await.expect("unknown");
        }
        if state == "released" {
            ground.store.release_attempt_by_policy(key, "support").await.expect("released");
        }
        ground.sql(format!("UPDATE jobs SET version = version + 1 WHERE id = '{job}'")).await;
        let completed = ground.store.complete(&answer(key, "stale")).await;
        assert!(!matches!(completed, Ok(Completed::Won)), "{state}: {completed:?}");
        let snapshot = ground.store.job(key.owner, job).await.expect("read").expect("there");
        assert!(!snapshot.job.state.is_terminal(), "{state}: {:?}", snapshot.job.state);
        assert!(!matches!(snapshot.attempts[0].state, AttemptState::Succeeded), "{state}");
        assert_eq!(ground.store.job_result(key.owner, job).await.expect("read"), None, "{state}");
    }
}
