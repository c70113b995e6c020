//! The claim on a recheck: one instance at a time, as long as it lives; and what outranks the run.

use std::time::Duration;

use interlock::domain::ids::{InstanceId, PermitId};

use super::ground::{Ground, HOUR};

const DAY: Duration = Duration::from_secs(86_400);

async fn old_permit(ground: &Ground) -> PermitId {
    let permit = ground.permit().await.id();
    ground.sql("UPDATE contract_runs SET started_at = now() - interval '25 hours'").await;
    permit
}

async fn another_instance(ground: &Ground) -> InstanceId {
    let id = InstanceId::fresh();
    ground.store.register_instance(id, "there", 2).await.expect("an instance");
    id
}

#[tokio::test]
async fn a_recheck_is_claimed_by_one_instance_when_it_is_due_and_falls_to_another_with_the_first() {
    let ground = Ground::new().await;
    let permit = ground.permit().await.id();
    let store = &ground.store;
    assert_eq!(store.claim_recheck(permit, ground.instance, DAY).await.expect("asked"), None, "it is of today");
    let permit_too = old_permit(&ground).await;
    assert_ne!(permit, permit_too);
    let other = another_instance(&ground).await;
    let claims = futures_util::future::join_all((0..16).map(|n| {
        let instance = if n % 2 == 0 { ground.instance } else { other };
        store.claim_recheck(permit, instance, DAY)
    }));
    let won: Vec<_> = claims.await.into_iter().filter_map(|claim| claim.expect("asked")).collect();
    assert_eq!(won.len(), 1, "{won:?}");
    let (first, rest) = (won[0].instance, if won[0].instance == other { ground.instance } else { other });
    assert_eq!(store.claim_recheck(permit, rest, DAY).await.expect("asked"), None);
    store.end_lease(first).await.expect("ended");
    let taken = store.claim_recheck(permit, rest, DAY).await.expect("asked").expect("a claim");
    assert_eq!(taken.tries, 2);
    let run = ground.run(true, ["passed"; 3]).await;
    let renewed = |claim| store.renew_permit(claim, run, PermitId::fresh(), "why", HOUR);
    assert!(!renewed(won[0]).await.expect("asked"), "the first comes back too late");
    assert!(renewed(taken).await.expect("asked"));
    assert!(!renewed(taken).await.expect("asked"), "once");
    assert_eq!(store.claim_recheck(permit, rest, DAY).await.expect("asked"), None, "it has been decided");
}

#[tokio::test]
async fn what_ended_the_permit_meanwhile_outranks_a_passed_run() {
    let ends = [
        "UPDATE permits SET revoked_at = now(), revoked_by = 'ann', revoke_reason = 'no'",
        "UPDATE permits SET granted_at = now() - interval '2 h', expires_at = now() - interval '1 h'",
        "INSERT INTO contract_circuits (id, route, provider, model, suite, suite_digest, opened_at, reason)
         VALUES (gen_random_uuid(), 'support', 'beta', 'm', 'support-triage', 'd', now() + interval '1 min', 'drift')",
    ];
    for end in ends {
        let ground = Ground::new().await;
        let permit = old_permit(&ground).await;
        let claim = ground.store.claim_recheck(permit, ground.instance, DAY).await.expect("asked").expect("a claim");
        let run = ground.run(true, ["passed"; 3]).await;
        ground.sql(end).await;
        let renewed = ground.store.renew_permit(claim, run, PermitId::fresh(), "why", HOUR).await.expect("asked");
        assert!(!renewed, "{end}");
        assert_eq!(ground.value("SELECT count(*)::text FROM permits").await, "1", "{end}");
    }
}
