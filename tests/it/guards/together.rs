//! Rows that share a commit: none fails, waits or is written twice for another's sake, and nobody's going away loses one.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use interlock::store::Store;
use interlock::store::StoreError;
use interlock::store::attempts::{AttemptKey, Completed};
use interlock::store::jobs::{Admitted, NewJob};
use providers::adapter::Secret;
use tokio::task::JoinSet;

use super::ground::{Ground, answer};
use crate::support::eventually;

const MANY: usize = 64;

/// Admits all of them at once; what each was told, in their order.
async fn admit_all(ground: &Arc<Ground>, jobs: Vec<NewJob>) -> Vec<Result<Admitted, StoreError>> {
    let mut calls = JoinSet::new();
    for (n, new) in jobs.into_iter().enumerate() {
        let ground = Arc::clone(ground);
        calls.spawn(async move { (n, ground.store.admit(new).await) });
    }
    let mut told = calls.join_all().await;
    told.sort_by_key(|(n, _)| *n);
    told.into_iter().map(|(_, told)| told).collect()
}

/// Completes all of them at once; what each was told, in their order.
async fn complete_all(ground: &Arc<Ground>, keys: &[AttemptKey]) -> Vec<Result<Completed, StoreError>> {
    let mut calls = JoinSet::new();
    for (n, key) in keys.iter().copied().enumerate() {
        let ground = Arc::clone(ground);
        calls.spawn(async move { (n, ground.store.complete(&answer(key, "the answer")).await) });
    }
    let mut told = calls.join_all().await;
    told.sort_by_key(|(n, _)| *n);
    told.into_iter().map(|(_, told)| told).collect()
}

fn jobs(ground: &Ground, count: usize) -> Vec<NewJob> {
    (0..count).map(|n| ground.new_job(&format!("k{n:03}"), true)).collect()
}

fn attempts_of(jobs: &[NewJob]) -> Vec<AttemptKey> {
    let attempt = |new: &NewJob| new.first.as_ref().expect("an attempt").id;
    jobs.iter().map(|new| AttemptKey { owner: new.owner, job: new.id, id: attempt(new) }).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_that_come_together_share_their_commits_and_each_is_told_its_own() {
    let ground = Arc::new(Ground::new().await);
    let mut new = jobs(&ground, MANY);
    let callback = "https://example.com/done".to_owned();
    (new[3].callback, new[4].metadata, new[5].first) = (Some(callback), Some(Bytes::from_static(b"{}")), None);
    new[6].body = Bytes::from_static(b"{\"n\":6}");
    let keys = attempts_of(&new[6..]);
    let six = new[6].id;
    let told = admit_all(&ground, new).await;
    assert!(told.iter().all(|told| matches!(told, Ok(Admitted::New))), "{told:?}");
    let commits: usize =
        ground.value("SELECT count(DISTINCT xmin::text)::text FROM jobs").await.parse().expect("a count");
    assert!(commits <= MANY / 2, "{MANY} jobs took {commits} commits");
    assert_eq!(
        ground
            .value(
                "SELECT (SELECT count(*) FROM attempts) || ' ' || (SELECT string_agg(j.idempotency_key, ',') FROM callbacks c
                 JOIN jobs j ON j.id = c.job_id) || ' ' || (SELECT string_agg(j.idempotency_key, ',') FROM job_requests r
                 JOIN jobs j ON j.id = r.job_id WHERE r.metadata IS NOT NULL) || ' ' ||
                 (SELECT string_agg(idempotency_key, ',') FROM jobs WHERE state = 'queued')"
            )
            .await,
        format!("{} k003 k004 k005", MANY - 1)
    );
    assert_eq!(
        ground.store.job_request(ground.owner, six).await.expect("an answer").map(|stored| stored.body).as_deref(),
        Some(&b"{\"n\":6}"[..])
    );
    let told = complete_all(&ground, &keys).await;
    assert!(told.iter().all(|told| matches!(told, Ok(Completed::Won))), "{told:?}");
    let commits = "SELECT count(DISTINCT xmin::text)::text FROM job_results";
    let commits: usize = ground.value(commits).await.parse().expect("a count");
    assert!(commits <= MANY / 2, "{MANY} answers took {commits} commits");
    let own =
        "SELECT count(*)::text FROM jobs j JOIN job_results r ON r.job_id = j.id AND r.attempt_id = j.completed_by";
    assert_eq!(ground.value(own).await, (MANY - 6).to_string());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_the_database_refuses_fails_alone() {
    let ground = Arc::new(Ground::new().await);
    let mut new = jobs(&ground, MANY);
    let bad = MANY / 2;
    new[bad].idempotency_key = "k".repeat(256);
    new[bad + 1].url = "\0".to_owned();
    let told = admit_all(&ground, new).await;
    for (n, told) in told.iter().enumerate() {
        match told {
            Ok(Admitted::New) => assert!(n != bad && n != bad + 1, "{n}"),
            Err(StoreError::Refused { constraint }) => assert_eq!((n, constraint.as_str()), (bad, "jobs_key_is_short")),
            Err(StoreError::Broken(_)) => assert_eq!(n, bad + 1),
            other => panic!("{n}: {other:?}"),
        }
    }
    assert_eq!(ground.value("SELECT count(*)::text FROM jobs").await, (MANY - 2).to_string());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_waits_for_a_lock_holds_up_nobody_else() {
    let ground = Arc::new(Ground::new().await);
    let new = jobs(&ground, MANY);
    let keys = attempts_of(&new);
    admit_all(&ground, new).await;
    let mut tx = ground.pool.begin().await.expect("a transaction");
    let lock = "SELECT 1 FROM jobs WHERE idempotency_key = 'k031' FOR UPDATE";
    sqlx::query(lock).execute(&mut *tx).await.expect("locked");
    let began = Instant::now();
    let mut calls = JoinSet::new();
    for (n, key) in keys.into_iter().enumerate() {
        let ground = Arc::clone(&ground);
        calls.spawn(async move { (n, ground.store.complete(&answer(key, "x")).await.expect("an answer")) });
    }
    for _ in 1..MANY {
        let (n, told) = calls.join_next().await.expect("a call").expect("no panic");
        assert!(n != 31 && told == Completed::Won, "{n}: {told:?}");
    }
    assert!(began.elapsed() < Duration::from_secs(3), "the others waited {:?}", began.elapsed());
    tx.rollback().await.expect("released");
    assert_eq!(calls.join_next().await.expect("a call").expect("no panic"), (31, Completed::Won));
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_attempts_that_come_together_one_wins_and_a_repeat_says_so_too() {
    let ground = Arc::new(Ground::new().await);
    for round in 0..8 {
        let first = ground.running(&format!("k{round}")).await;
        ground.store.mark_attempt_unknown(first, "timeout", "").await.expect("unknown");
        ground.store.release_attempt_by_policy(first, "support").await.expect("released");
        let second = ground.start_of(first.job, 2, ground.primary());
        ground.store.start_attempt(&second).await.expect("started");
        let told = complete_all(&ground, &[first, second.key, first, second.key, first]).await;
        let told: Vec<Completed> = told.into_iter().map(|told| told.expect("an answer")).collect();
        let winner = if told[0] == Completed::Won { first.id } else { second.key.id };
        let lost = Completed::Lost { winner: Some(winner) };
        let (one, other) = if winner == first.id { (Completed::Won, lost) } else { (lost, Completed::Won) };
        assert_eq!(told, [one, other, one, other, one]);
    }
    assert_eq!(ground.value("SELECT count(*)::text FROM job_results").await, "8");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_goes_away_loses_neither_its_row_nor_anybody_elses() {
    let ground = Arc::new(Ground::new().await);
    for (n, new) in jobs(&ground, MANY).into_iter().enumerate() {
        let admission = ground.store.admit(new);
        if n % 2 == 0 {
            // Polled once, which queues it, and dropped; on a busy machine the answer may be there by then.
            tokio::select! {
                biased;
                told = admission => assert_eq!(told.expect("an answer"), Admitted::New),
                () = std::future::ready(()) => {}
            }
        } else {
            assert_eq!(admission.await.expect("an answer"), Admitted::New);
        }
    }
    let all = MANY.to_string();
    eventually("every job is there", async || ground.value("SELECT count(*)::text FROM jobs").await == all).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_die_under_a_batch_lose_nothing_and_double_nothing() {
    let ground = Arc::new(Ground::new().await);
    let kill = "SELECT count(pg_terminate_backend(pid)) > 0 FROM pg_stat_activity WHERE datname = current_database()
                AND application_name = 'interlock' AND state = 'active' AND query LIKE '/* %_job */%'";
    let mut killed = 0;
    let killer = async {
        loop {
            let hit: bool = sqlx::query_scalar(kill).fetch_one(&ground.pool).await.expect("an answer");
            killed += usize::from(hit);
            tokio::time::sleep(Duration::from_millis(if hit { 80 } else { 1 })).await;
        }
    };
    let work = async {
        let (mut keys, mut acknowledged) = (Vec::new(), 0);
        for round in 0..6 {
            let part: Vec<NewJob> = (0..MANY).map(|n| ground.new_job(&format!("{round}-{n}"), true)).collect();
            let attempts = attempts_of(&part);
            for (told, key) in admit_all(&ground, part).await.into_iter().zip(attempts) {
                match told {
                    Ok(admitted) => assert_eq!(admitted, Admitted::New),
                    Err(StoreError::Unavailable(_)) => continue,
                    Err(error) => panic!("{error}"),
                }
                acknowledged += 1;
                keys.push(key);
            }
            for told in complete_all(&ground, &keys).await {
                assert!(matches!(told, Ok(Completed::Won) | Err(StoreError::Unavailable(_))), "{told:?}");
            }
        }
        (keys, acknowledged)
    };
    let (keys, acknowledged) = tokio::select! {
        done = work => done,
        () = killer => unreachable!("it never ends"),
    };
    assert!(killed > 2 && acknowledged > MANY, "{killed} times killed, {acknowledged} admitted");
    for told in complete_all(&ground, &keys).await {
        assert_eq!(told.expect("an answer"), Completed::Won);
    }
    let twins =
        "SELECT (SELECT count(*) FROM jobs) - (SELECT count(*) FROM attempts) || ' ' || (SELECT count(*) FROM races)";
    assert_eq!(ground.value(twins).await, "0 0");
    assert_eq!(ground.value("SELECT count(*)::text FROM job_results").await, keys.len().to_string());
}

/// Connections stay with the writers between their statements: not where others would go without, and not at the end.
#[tokio::test(flavor = "multi_thread")]
async fn connections_that_writers_keep_starve_nobody_and_are_closed_with_the_store() {
    let ground = Ground::new().await;
    for most in [2, 6, 16] {
        let store = Store::connect(&Secret::new(ground.database.url.clone()), most).await.expect("a store");
        for n in 0..3 {
            let new = ground.new_job(&format!("kept-{most}-{n}"), true);
            assert!(matches!(store.admit(new).await, Ok(Admitted::New)), "{most}");
        }
        let mut asked = JoinSet::new();
        for _ in 0..MANY {
            let store = store.clone();
            asked.spawn(async move { store.now().await.is_ok() });
        }
        assert!(asked.join_all().await.into_iter().all(|answered| answered), "{most}: somebody found no connection");
        tokio::time::timeout(Duration::from_secs(5), store.close()).await.expect("nothing is kept from being closed");
    }
}
