//! The database's clock is the only one: its time zone changes nothing (B154).

use std::time::Duration;

use interlock::domain::step::overdue;
use interlock::store::attempts::Completed;
use interlock::store::retention::Removed;

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
        let removed = ground.store.remove_payloads(HOUR, &overdue()).await.expect("a look");
        assert_eq!(removed, Removed::default(), "{zone}");
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
