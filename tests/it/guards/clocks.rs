//! The database's clock is the only one: its time zone changes nothing (B154), and age counts from a job's end (B108).

use std::time::Duration;

use interlock::store::attempts::Completed;
use interlock::store::jobs::Admitted;

use super::ground::{Ground, HOUR, answer};

/// The database's default, as `psql` and its operators see it. The store's own sessions are in UTC whatever it says.
#[tokio::test]
async fn every_time_zone_of_the_database_gives_the_same_leases_deadlines_and_ages() {
    for zone in ["UTC", "Asia/Tokyo", "America/New_York"] {
        let mut ground = Ground::new().await;
        ground.sql(format!("ALTER DATABASE {} SET timezone = '{zone}'", ground.database.name)).await;
        ground.reconnect().await;
        assert_eq!(ground.value("SELECT current_setting('TimeZone')").await, "UTC");
        ground.store.renew_lease(ground.instance).await.expect("renewed");
        let key = ground.running("k").await;
        assert_eq!(ground.store.mark_lost_attempts_unknown(Duration::ZERO).await.expect("swept"), 0, "{zone}");
        let snapshot = ground.store.job(key.owner, key.job).await.expect("read").expect("there");
        let attempt = &snapshot.attempts[0];
        assert_eq!((attempt.deadline_at - attempt.started_at).whole_seconds(), 3600, "{zone}");
        assert!((snapshot.read_at - attempt.started_at).whole_seconds() < 60, "{zone}");
        ground.sql("UPDATE attempts SET deadline_at = now() - interval '1 s'").await;
        assert_eq!(ground.store.mark_lost_attempts_unknown(HOUR).await.expect("swept"), 0, "{zone}: within the grace");
        assert_eq!(ground.store.mark_lost_attempts_unknown(Duration::ZERO).await.expect("swept"), 1, "{zone}");
        assert_eq!(ground.store.complete(&answer(key, "x")).await.expect("an answer"), Completed::Won, "{zone}");
        assert_eq!(ground.store.erase_payloads(HOUR).await.expect("erased"), 0, "{zone}");
        let permit = ground.permit().await;
        assert_eq!((permit.facts().expires_at - permit.facts().granted_at).whole_seconds(), 3600, "{zone}");
    }
}

#[tokio::test]
async fn no_column_is_a_timestamp_without_a_time_zone() {
    let ground = Ground::new().await;
    let naive = "SELECT coalesce(string_agg(table_name || '.' || column_name, ', '), '') FROM information_schema.columns
                 WHERE table_schema = 'public' AND data_type IN ('timestamp without time zone', 'time without time zone', 'date')";
    assert_eq!(ground.value(naive).await, "");
}

#[tokio::test]
async fn payloads_are_kept_for_as_long_as_it_says_after_the_job_s_end_and_not_from_its_beginning() {
    let ground = Ground::new().await;
    let (old, long, open) = (ground.running("old").await, ground.running("long").await, ground.running("open").await);
    for key in [old, long] {
        assert_eq!(ground.store.complete(&answer(key, "x")).await.expect("an answer"), Completed::Won);
    }
    ground.sql("UPDATE job_requests SET created_at = now() - interval '2 d'").await;
    ground.sql(format!("UPDATE jobs SET closed_at = now() - interval '2 d' WHERE id = '{}'", old.job)).await;
    assert_eq!(ground.store.erase_payloads(24 * HOUR).await.expect("erased"), 1);
    assert_eq!(ground.store.erase_payloads(24 * HOUR).await.expect("erased"), 0, "once");
    for (key, kept) in [(old, false), (long, true), (open, true)] {
        assert_eq!(ground.store.job_request(key.owner, key.job).await.expect("read").is_some(), kept);
    }
    assert_eq!(ground.store.job_result(old.owner, old.job).await.expect("read"), None);
    assert!(ground.store.job_result(long.owner, long.job).await.expect("read").is_some());
}

/// B104: the tombstone decides, whatever was swept meanwhile.
#[tokio::test]
async fn a_key_whose_payloads_are_erased_is_still_taken() {
    let ground = Ground::new().await;
    let key = ground.running("k").await;
    ground.store.complete(&answer(key, "x")).await.expect("an answer");
    ground.sql("UPDATE job_requests SET created_at = now() - interval '2 d'; UPDATE jobs SET closed_at = now() - interval '2 d'").await;
    assert_eq!(ground.store.erase_payloads(HOUR).await.expect("erased"), 1);
    let Admitted::Existing(there, _) = ground.store.admit(ground.new_job("k", true)).await.expect("an answer") else {
        panic!("a new job")
    };
    assert!(there.job.id == key.job && there.job.erased && there.job.fingerprint == [7; 32]);
    assert_eq!(ground.value("SELECT count(*)::text FROM attempts").await, "1", "nothing was started");
}

/// Retention is erased in batches, and none is forgotten.
#[tokio::test]
async fn more_jobs_than_one_batch_are_all_erased() {
    let ground = Ground::new().await;
    ground
        .sql(format!(
            "INSERT INTO jobs (owner_id, id, idempotency_key, key_origin, fingerprint, fingerprint_version, url, route, delivery, state, closed_at, deadline_at)
             SELECT '{0}', md5(n::text)::uuid, n::text, 'client', sha256('x'), 1, '/', 'r', 'sync', 'cancelled', now() - interval '2 d', now()
             FROM generate_series(1, 450) n;
             INSERT INTO job_requests (owner_id, job_id, body, created_at) SELECT owner_id, id, 'x', now() - interval '2 d' FROM jobs",
            ground.owner
        ))
        .await;
    let mut erased = 0;
    for _ in 0..4 {
        erased += ground.store.erase_payloads(HOUR).await.expect("erased");
    }
    assert_eq!((erased, ground.value("SELECT count(*)::text FROM job_requests").await.as_str()), (450, "0"));
    assert_eq!(ground.value("SELECT count(*)::text FROM jobs WHERE erased_at IS NULL").await, "0");
}
