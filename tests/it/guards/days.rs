//! Payloads lie by day and go by day: nothing that is still needed goes with them, nothing is refused for its id, and
//! nobody waits for it.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use bytes::Bytes;
use interlock::domain::ids::{JobId, OwnerId};
use interlock::domain::job::{JobErrorCode, JobState};
use interlock::domain::step::overdue;
use interlock::store::Store;
use interlock::store::attempts::{AttemptKey, Completed};
use interlock::store::jobs::Admitted;
use interlock::store::retention::Removed;
use providers::adapter::Secret;
use tokio::task::JoinSet;
use uuid::Uuid;

use super::ground::{Ground, HOUR, answer};
use crate::support::cluster::Database;
use crate::support::eventually;

const DAY: Duration = Duration::from_secs(86_400);
/// The longest that a request may stand behind a change of the partitions, and as much again for a busy machine.
const BEARABLE: Duration = Duration::from_millis(800);

/// An id as it would have been made `days` ago.
async fn id_of(ground: &Ground, days: i64) -> JobId {
    let ms: String = ground.value("SELECT (extract(epoch FROM now()) * 1000)::int8::text").await;
    let ms = ms.parse::<i64>().expect("a number") - days * 86_400_000;
    let random = JobId::fresh().as_uuid().as_u128() & ((1 << 80) - 1);
    JobId::from(Uuid::from_u128((u128::from(ms.cast_unsigned()) << 80) | random))
}

/// The day `days` ago, in both tables, as it was made ahead of its time.
async fn day_of(ground: &Ground, days: i64) -> String {
    let ms = id_of(ground, days).await.as_uuid().as_u128() >> 80;
    let bound = |day: u128| Uuid::from_u128((day * 86_400_000) << 80);
    let (from, to) = (bound(ms / 86_400_000), bound(ms / 86_400_000 + 1));
    let name =
        ground.value(format!("SELECT to_char(to_timestamp({ms} / 1000.0) AT TIME ZONE 'UTC', 'YYYYMMDD')")).await;
    for table in ["job_requests", "job_results"] {
        let values = format!("FOR VALUES FROM ('{from}') TO ('{to}')");
        ground.sql(format!("CREATE TABLE IF NOT EXISTS {table}_{name} PARTITION OF {table} {values}")).await;
    }
    name
}

/// A running job under an id of that day.
async fn running_since(ground: &Ground, key: &str, id: JobId) -> AttemptKey {
    let mut new = ground.new_job(key, true);
    new.id = id;
    let key = AttemptKey { owner: new.owner, job: id, id: new.first.as_ref().expect("an attempt").id };
    assert_eq!(ground.store.admit(new).await.expect("admitted"), Admitted::New);
    key
}

async fn won(ground: &Ground, key: AttemptKey) {
    assert_eq!(ground.store.complete(&answer(key, "x")).await.expect("an answer"), Completed::Won);
}

async fn ended(ground: &Ground, key: AttemptKey, days: i64) {
    won(ground, key).await;
    ground.sql(format!("UPDATE jobs SET closed_at = now() - interval '{days} d' WHERE id = '{}'", key.job)).await;
}

async fn removed(ground: &Ground, retention: Duration) -> Removed {
    ground.store.remove_payloads(retention, &overdue()).await.expect("a look")
}

/// Whether the request and the answer are there.
async fn there(ground: &Ground, key: AttemptKey) -> (bool, bool) {
    let request = ground.store.job_request(key.owner, key.job).await.expect("read").is_some();
    (request, ground.store.job_result(key.owner, key.job).await.expect("read").is_some())
}

/// The partitions that hold the job's payloads.
async fn places(ground: &Ground, id: JobId) -> String {
    ground
        .value(format!(
            "SELECT string_agg(place, ' ' ORDER BY place) FROM (
             SELECT tableoid::regclass::text AS place FROM job_requests WHERE job_id = '{id}'
             UNION ALL SELECT tableoid::regclass::text FROM job_results WHERE job_id = '{id}') p"
        ))
        .await
}

#[tokio::test]
async fn payloads_lie_in_the_day_of_their_job() {
    let ground = Ground::new().await;
    ground.store.make_days().await.expect("days");
    let key = ground.running("k").await;
    won(&ground, key).await;
    let ms = key.job.as_uuid().as_u128() >> 80;
    let day = ground.value(format!("SELECT to_char(to_timestamp({ms} / 1000.0) AT TIME ZONE 'UTC', 'YYYYMMDD')")).await;
    assert_eq!(places(&ground, key.job).await, format!("job_requests_{day} job_results_{day}"));
    let ahead = "SELECT count(*)::text FROM pg_class WHERE relispartition AND relkind = 'r' AND relname ~ '_[0-9]{8}$'";
    assert_eq!(ground.value(ahead).await, "16", "today and a week, of both");
    ground.store.make_days().await.expect("days");
    assert_eq!(ground.value(ahead).await, "16");
}

/// B104, B108: age counts from the end; the tombstone decides.
#[tokio::test]
async fn a_day_goes_whole_and_what_is_still_needed_of_it_stays() {
    let ground = Ground::new().await;
    let day = day_of(&ground, 3).await;
    let ids = [id_of(&ground, 3).await, id_of(&ground, 3).await, id_of(&ground, 3).await];
    let old = running_since(&ground, "old", ids[0]).await;
    let open = running_since(&ground, "open", ids[1]).await;
    let recent = running_since(&ground, "recent", ids[2]).await;
    ended(&ground, old, 2).await;
    won(&ground, recent).await;
    assert_eq!(removed(&ground, 10 * DAY).await, Removed::default(), "too young");
    assert_eq!(places(&ground, old.job).await, format!("job_requests_{day} job_results_{day}"));
    assert_eq!(removed(&ground, DAY).await, Removed { days: 2, rows: 0 });
    assert_eq!(removed(&ground, DAY).await, Removed::default(), "once");
    assert_eq!(there(&ground, old).await, (false, false));
    assert_eq!(there(&ground, open).await, (true, false));
    assert_eq!(there(&ground, recent).await, (true, true));
    assert_eq!(ground.value(format!("SELECT to_regclass('job_results_{day}')::text")).await, "null");
    // The job that took longer than its day ends as any other.
    won(&ground, open).await;
    assert_eq!(there(&ground, open).await, (true, true));
    // The key is still taken, and the job is as it was.
    let Admitted::Existing(found, result) = ground.store.admit(ground.new_job("old", true)).await.expect("an answer")
    else {
        panic!("a new job")
    };
    assert_eq!((found.job.id, found.job.fingerprint, result), (old.job, [7; 32], None));
    assert!(matches!(found.job.state, JobState::Succeeded { .. }));
    // What was moved goes row by row, in its time.
    ground.sql("UPDATE jobs SET closed_at = now() - interval '3 d'; UPDATE job_results SET created_at = now() - interval '3 d'; UPDATE job_requests SET created_at = now() - interval '3 d'").await;
    assert_eq!(removed(&ground, DAY).await, Removed { days: 0, rows: 4 });
    assert_eq!(there(&ground, recent).await, (false, false));
}

/// As an idle transaction, a report or a dump would, somebody reads the whole table and does not end.
#[tokio::test]
async fn nobody_waits_longer_than_the_lock_timeout_while_a_removal_waits_for_a_long_transaction() {
    let ground = Ground::new().await;
    ground.store.make_days().await.expect("days");
    day_of(&ground, 3).await;
    let old = running_since(&ground, "old", id_of(&ground, 3).await).await;
    ended(&ground, old, 2).await;
    let mut reader = ground.database.connect().await;
    sqlx::raw_sql("BEGIN; SELECT count(*) FROM job_results").execute(&mut reader).await.expect("a report");
    let store = ground.store.clone();
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
                 AND query LIKE '%set_day_aside%'";
    let mut removal = JoinSet::new();
    removal.spawn(async move {
        let began = Instant::now();
        let mut removed = Removed::default();
        while began.elapsed() < Duration::from_secs(2) {
            removed = store.remove_payloads(DAY, &overdue()).await.expect("it is put off");
        }
        removed
    });
    let watched = ground.database.clone();
    eventually("the removal waits", async || watched.count(waits).await > 0).await;
    let (mut longest, mut put_off) = (Duration::ZERO, None);
    for n in 0.. {
        put_off = removal.try_join_next();
        if put_off.is_some() {
            break;
        }
        let began = Instant::now();
        let key = ground.running(&format!("k{n}")).await;
        won(&ground, key).await;
        assert_eq!(there(&ground, key).await, (true, true));
        longest = longest.max(began.elapsed());
    }
    assert_eq!(put_off.expect("it is over").expect("a task"), Removed::default());
    assert!(longest < BEARABLE, "a job waited {longest:?}");
    Database::end(&mut reader, "COMMIT").await;
    assert_eq!(removed(&ground, DAY).await.days, 2);
}

#[tokio::test]
async fn ids_of_no_day_are_taken_answered_and_erased_like_any_other() {
    let ground = Ground::new().await;
    let far = JobId::from(Uuid::from_u128(0x03bb_2cc3_d800 << 80 | 7));
    let never = JobId::from(Uuid::from_u128(u128::MAX - 1));
    for (name, id) in [("1970", JobId::from(Uuid::from_u128(1))), ("2100", far), ("beyond the calendar", never)] {
        let key = running_since(&ground, name, id).await;
        won(&ground, key).await;
        assert_eq!(places(&ground, id).await, "job_requests_default job_results_default", "{name}");
        assert_eq!(there(&ground, key).await, (true, true), "{name}");
    }
    assert_eq!(removed(&ground, DAY).await, Removed::default());
    ground.sql("UPDATE jobs SET closed_at = now() - interval '3 d'; UPDATE job_results SET created_at = now() - interval '3 d'").await;
    assert_eq!(removed(&ground, DAY).await.rows, 3, "the requests are younger, as it seems");
    ground.sql("UPDATE job_requests SET created_at = now() - interval '3 d'").await;
    assert_eq!(removed(&ground, DAY).await.rows, 3);
}

/// A job under an id of a day to come keeps its place; the days after it are made.
#[tokio::test]
async fn a_day_whose_rows_lie_elsewhere_already_is_left_out() {
    let ground = Ground::new().await;
    let day = day_of(&ground, -3).await;
    ground.sql(format!("DROP TABLE job_requests_{day}; DROP TABLE job_results_{day}")).await;
    let key = running_since(&ground, "k", id_of(&ground, -3).await).await;
    ground.store.make_days().await.expect("days");
    let made = |table: &str| format!("SELECT (to_regclass('{table}_{day}') IS NOT NULL)::text");
    assert_eq!(ground.value(made("job_requests")).await, "false");
    assert_eq!(ground.value(made("job_results")).await, "true");
    won(&ground, key).await;
    assert_eq!(places(&ground, key.job).await, format!("job_requests_default job_results_{day}"));
    assert_eq!(there(&ground, key).await, (true, true));
}

/// Postgres refuses a row that waits for the default partition while its day is attached; it is written again.
#[tokio::test]
async fn a_day_that_is_made_under_a_job_s_feet_does_not_refuse_it() {
    let ground = Ground::new().await;
    let id = JobId::from(Uuid::from_u128(0x03bb_2cc3_d800 << 80 | 7));
    let mut maker = ground.database.connect().await;
    let make = "BEGIN; CREATE TABLE later (LIKE job_requests INCLUDING ALL);
                ALTER TABLE job_requests ATTACH PARTITION later
                FOR VALUES FROM ('03bb2cc3-d800-0000-0000-000000000000') TO ('03bb2cc3-d801-0000-0000-000000000000')";
    sqlx::raw_sql(make).execute(&mut maker).await.expect("a day in the making");
    let mut new = ground.new_job("k", true);
    new.id = id;
    let store = ground.store.clone();
    let mut admitted = JoinSet::new();
    admitted.spawn(async move { store.admit(new).await });
    eventually("it waits", async || ground.database.waiting("admit_job").await > 0).await;
    Database::end(&mut maker, "COMMIT").await;
    assert_eq!(admitted.join_next().await.expect("one").expect("a task").expect("admitted"), Admitted::New);
    assert_eq!(places(&ground, id).await, "later");
}

/// A process that died between setting a day aside and dropping it, with a job that came too late to be noticed.
#[tokio::test]
async fn a_day_that_was_set_aside_is_finished_by_whoever_comes_next() {
    let ground = Ground::new().await;
    let day = day_of(&ground, 3).await;
    let (open, old) = (id_of(&ground, 3).await, id_of(&ground, 3).await);
    let (open, old) = (running_since(&ground, "open", open).await, running_since(&ground, "old", old).await);
    ended(&ground, old, 2).await;
    ground.sql(format!("ALTER TABLE job_requests DETACH PARTITION job_requests_{day}")).await;
    assert_eq!(removed(&ground, DAY).await, Removed { days: 2, rows: 0 });
    assert_eq!(there(&ground, open).await, (true, false));
    assert_eq!(there(&ground, old).await, (false, false));
    assert_eq!(removed(&ground, DAY).await, Removed::default());
}

#[tokio::test]
async fn processes_that_make_and_remove_days_at_once_do_each_of_them_once() {
    let ground = Ground::new().await;
    let mut open = Vec::new();
    for days in 3..8 {
        day_of(&ground, days).await;
        ended(&ground, running_since(&ground, &format!("old-{days}"), id_of(&ground, days).await).await, 2).await;
        open.push(running_since(&ground, &format!("open-{days}"), id_of(&ground, days).await).await);
    }
    let ahead = day_of(&ground, -5).await;
    ground.sql(format!("DROP TABLE job_requests_{ahead}; DROP TABLE job_results_{ahead}")).await;
    let other = Store::connect(&Secret::new(ground.database.url.clone()), 8).await.expect("another process");
    let mut tasks = JoinSet::new();
    for store in [&ground.store, &other, &ground.store, &other] {
        let store = store.clone();
        tasks.spawn(async move {
            store.make_days().await.expect("days");
            store.remove_payloads(DAY, &overdue()).await.expect("a look").days
        });
    }
    let days: u32 = tasks.join_all().await.into_iter().sum();
    assert_eq!(days, 10);
    for key in open {
        assert_eq!(there(&ground, key).await, (true, false));
    }
}

/// Nobody came back for it: it fails as it would have if somebody had, and its payload goes.
#[tokio::test]
async fn a_job_that_nobody_came_back_for_fails_at_its_deadline() {
    let ground = Ground::new().await;
    day_of(&ground, 3).await;
    let mut jobs = Vec::new();
    for key in ["overdue", "in time"] {
        let mut new = ground.new_job(key, false);
        new.id = id_of(&ground, 3).await;
        jobs.push(new.id);
        assert_eq!(ground.store.admit(new).await.expect("admitted"), Admitted::New);
    }
    ground.sql("UPDATE jobs SET deadline_at = now() - interval '2 d' WHERE idempotency_key = 'overdue'").await;
    assert_eq!(removed(&ground, DAY).await.days, 2);
    let job = ground.store.job(ground.owner, jobs[0]).await.expect("read").expect("there").job;
    assert_eq!((job.state, job.error.map(|error| error.code)), (JobState::Failed, Some(JobErrorCode::JobDeadline)));
    assert_eq!(ground.store.job_request(ground.owner, jobs[0]).await.expect("read"), None);
    let job = ground.store.job(ground.owner, jobs[1]).await.expect("read").expect("there").job;
    assert_eq!(job.state, JobState::Queued);
    assert!(ground.store.job_request(ground.owner, jobs[1]).await.expect("read").is_some());
}

/// What a database of the version before holds, when it is brought up to date.
const BEFORE: &str = "
INSERT INTO owners (id, name) VALUES ('00000000-0000-0000-0000-000000000001', 'one');
INSERT INTO instances (id, host, pid, lease_until) VALUES ('00000000-0000-0000-0000-000000000001', 'here', 1, now());
CREATE FUNCTION id_of(days int) RETURNS uuid LANGUAGE sql AS $$ SELECT (lpad(to_hex(
    (extract(epoch FROM now()) * 1000)::int8 - days::int8 * 86400000), 12, '0') || '70008000000000000000')::uuid $$;
INSERT INTO jobs (owner_id, id, idempotency_key, key_origin, fingerprint, fingerprint_version, url, route, delivery, state, deadline_at)
SELECT '00000000-0000-0000-0000-000000000001', id_of(n), n::text, 'client', sha256('x'), 1, '/', 'r', 'sync', 'running', now()
FROM unnest('{200, 1, 0, -30}'::int[]) n;
INSERT INTO job_requests (owner_id, job_id, body, created_at) SELECT owner_id, id, convert_to('request ' || idempotency_key, 'UTF8'), now() - interval '200 d' FROM jobs;
INSERT INTO attempts (owner_id, job_id, id, ordinal, round, state, rank, provider, model, adapter_version, instance_id, job_version, deadline_at, settle_until, ended_at)
SELECT owner_id, id, id, 1, 1, 'succeeded', 'primary', 'a', 'm', 'a/1', '00000000-0000-0000-0000-000000000001', 0, now(), now(), now() FROM jobs;
UPDATE jobs SET state = 'succeeded', completed_by = id, version = 1, closed_at = now() - greatest(idempotency_key::int, 0) * interval '1 d';
INSERT INTO job_results (owner_id, job_id, attempt_id, content_type, body, stream, created_at)
SELECT owner_id, id, id, 't', convert_to('answer ' || idempotency_key, 'UTF8'), 'lines', closed_at FROM jobs;";

#[tokio::test]
async fn what_was_there_before_the_days_is_still_there_and_goes_in_its_time() {
    let ground = Ground::new().await;
    ground.sql("DROP SCHEMA public CASCADE; CREATE SCHEMA public").await;
    let mut before = sqlx::migrate!("./migrations");
    before.migrations = Cow::Owned(before.iter().filter(|m| m.version < 9).cloned().collect());
    before.run(&ground.pool).await.expect("the schema of the version before");
    ground.sql(BEFORE).await;
    ground.store.migrate().await.expect("the migration runs");
    ground.store.make_days().await.expect("days");
    let owner = OwnerId::from(Uuid::from_u128(1));
    for (days, place) in [(200, "before"), (1, "before"), (0, "before"), (-30, "default")] {
        let id = ground.value(format!("SELECT id::text FROM jobs WHERE idempotency_key = '{days}'")).await;
        let job: JobId = id.parse().expect("an id");
        assert_eq!(places(&ground, job).await, format!("job_requests_{place} job_results_{place}"), "{days}");
        let request = ground.store.job_request(owner, job).await.expect("read").expect("there");
        assert_eq!(request.body, Bytes::from(format!("request {days}")));
        let result = ground.store.job_result(owner, job).await.expect("read").expect("there");
        assert_eq!(
            (result.body, result.stream.map(|s| s.lines)),
            (Bytes::from(format!("answer {days}")), Some(Bytes::from("lines")))
        );
    }
    assert_eq!(removed(&ground, 90 * DAY).await, Removed { days: 0, rows: 2 });
    assert_eq!(
        ground
            .value("SELECT string_agg(idempotency_key, ' ' ORDER BY id) FROM jobs JOIN job_results ON job_id = id")
            .await,
        "1 0 -30"
    );
    assert_eq!(removed(&ground, HOUR).await.rows, 2, "of yesterday's job, which ended a day ago");
}
