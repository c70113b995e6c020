//! Many at once, none of whom knows of the others: one wins, the others are told, and nobody blocks for ever.

use std::sync::Arc;

use interlock::domain::ids::JobId;
use interlock::store::StoreError;
use interlock::store::attempts::Completed;
use interlock::store::jobs::Admitted;
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use super::ground::{Ground, answer};
use crate::support::eventually;

const RIVALS: usize = 32;
const JOBS: usize = 20;

/// Each rival at a different ordinal: nothing but the open attempt itself holds it off (R4).
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_blind_starts_one_wins() {
    let ground = Arc::new(Ground::new().await);
    for round in 0..JOBS {
        let job = ground.queued(&format!("k{round}")).await;
        let barrier = Arc::new(Barrier::new(RIVALS));
        let mut rivals = JoinSet::new();
        for ordinal in 1..=RIVALS {
            let (ground, barrier) = (ground.clone(), barrier.clone());
            rivals.spawn(async move {
                let start = ground.start_of(job, i32::try_from(ordinal).expect("small"), ground.primary());
                barrier.wait().await;
                ground.store.start_attempt(&start).await
            });
        }
        let outcomes = rivals.join_all().await;
        let started = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
        assert_eq!(started, 1, "job {round}");
        assert!(outcomes.iter().all(|o| matches!(o, Ok(()) | Err(StoreError::LostRace))), "{outcomes:?}");
        assert_eq!(ground.value(format!("SELECT count(*)::text FROM attempts WHERE job_id = '{job}'")).await, "1");
        // So that the books can be closed: the ordinal is whichever won.
        ground.sql(format!("UPDATE attempts SET ordinal = 1 WHERE job_id = '{job}'")).await;
    }
}

/// R1, R2.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_admissions_under_one_key_one_is_new_and_the_others_find_it() {
    let ground = Arc::new(Ground::new().await);
    for round in 0..JOBS {
        let barrier = Arc::new(Barrier::new(RIVALS));
        let mut rivals = JoinSet::new();
        for _ in 0..RIVALS {
            let (ground, barrier, new) = (ground.clone(), barrier.clone(), ground.new_job(&format!("k{round}"), true));
            rivals.spawn(async move {
                let id = new.id;
                barrier.wait().await;
                match ground.store.admit(new).await.expect("an answer") {
                    Admitted::New => (id, true),
                    Admitted::Existing(snapshot, _) => (snapshot.job.id, false),
                }
            });
        }
        let outcomes = rivals.join_all().await;
        assert_eq!(outcomes.iter().filter(|(_, new)| *new).count(), 1);
        assert!(outcomes.iter().all(|(id, _)| *id == outcomes[0].0), "one job");
    }
    assert_eq!(ground.value("SELECT count(*) || '/' || (SELECT count(*) FROM attempts) FROM jobs").await, "20/20");
}

/// B128: the loser of the insert waits for the winner's commit, and takes over when there is none.
#[tokio::test(flavor = "multi_thread")]
async fn an_admission_waits_for_its_rival_and_takes_over_when_that_one_rolls_back() {
    let ground = Arc::new(Ground::new().await);
    for commits in [false, true] {
        let key = format!("commits {commits}");
        let rival = JobId::fresh();
        let mut tx = ground.pool.begin().await.expect("a transaction");
        sqlx::query(
            "INSERT INTO jobs (owner_id, id, idempotency_key, key_origin, fingerprint, fingerprint_version, url, route, delivery, state, deadline_at)
             VALUES ($1, $2, $3, 'client', sha256('x'), 1, '/', 'support', 'sync', 'queued', now() + interval '1 d')",
        )
        .bind(ground.owner)
        .bind(rival)
        .bind(&key)
        .execute(&mut *tx)
        .await
        .expect("inserted");
        let admission = {
            let (ground, new) = (ground.clone(), ground.new_job(&key, false));
            async move { ground.store.admit(new).await }
        };
        let mut waiting = JoinSet::new();
        waiting.spawn(admission);
        blocked(&ground, "admit_job").await;
        if commits {
            tx.commit().await.expect("committed")
        } else {
            tx.rollback().await.expect("rolled back")
        }
        let admitted = waiting.join_next().await.expect("a task").expect("no panic").expect("an answer");
        match admitted {
            Admitted::New => assert!(!commits),
            Admitted::Existing(there, _) => assert!(commits && there.job.id == rival),
        }
    }
}

/// Waits, bounded, until the statement of this name waits for a lock.
async fn blocked(ground: &Ground, statement: &str) {
    let query = format!(
        "SELECT count(*)::text FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '/* {statement} */%'"
    );
    eventually(&format!("{statement} waits for a lock"), async || ground.value(query.clone()).await != "0").await;
}

/// B121: the sweep has seen the attempt as lost, then it is finished, then the sweep goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_sweep_that_waited_for_a_finish_leaves_the_finished_job_alone() {
    let ground = Arc::new(Ground::new().await);
    let key = ground.running("k").await;
    ground.sql("UPDATE instances SET lease_until = now() - interval '1 s'").await;
    let mut finish = ground.pool.begin().await.expect("a transaction");
    sqlx::query("SELECT 1 FROM jobs WHERE id = $1 FOR UPDATE")
        .bind(key.job)
        .execute(&mut *finish)
        .await
        .expect("locked");
    let mut sweep = JoinSet::new();
    let sweeper = ground.clone();
    sweep.spawn(async move { sweeper.store.mark_lost_attempts_unknown(std::time::Duration::ZERO).await });
    blocked(&ground, "mark_lost_attempts_unknown").await;
    for sql in [
        "UPDATE attempts SET state = 'succeeded', ended_at = now() WHERE id = $2 AND job_id = $1",
        "UPDATE jobs SET state = 'succeeded', completed_by = $2, version = 1, closed_at = now() WHERE id = $1",
        "INSERT INTO job_results (owner_id, job_id, attempt_id, content_type, body) SELECT owner_id, $1, $2, 't', '' FROM jobs WHERE id = $1",
    ] {
        sqlx::query(sql).bind(key.job).bind(key.id).execute(&mut *finish).await.expect("finished");
    }
    finish.commit().await.expect("committed");
    let swept = sweep.join_next().await.expect("a task").expect("no panic").expect("swept");
    assert_eq!((swept, ground.states(key).await.as_str()), (0, "succeeded/succeeded"));
}

/// The same in every order that the database comes up with.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sweeps_finishes_and_clearances_at_once_always_end_in_one_winner() {
    let ground = Arc::new(Ground::new().await);
    for round in 0..60 {
        let key = ground.running(&format!("k{round}")).await;
        ground.sql("UPDATE attempts SET deadline_at = now() - interval '1 s' WHERE state = 'started'").await;
        let barrier = Arc::new(Barrier::new(4));
        let mut rivals = JoinSet::new();
        for rival in 0..4 {
            let (ground, barrier) = (ground.clone(), barrier.clone());
            rivals.spawn(async move {
                barrier.wait().await;
                match rival {
                    0 | 1 => {
                        let completed = ground.store.complete(&answer(key, "the answer")).await.expect("an answer");
                        assert_eq!(completed, Completed::Won, "the one answer of the one attempt, told twice");
                    }
                    2 => drop(ground.store.mark_lost_attempts_unknown(std::time::Duration::ZERO).await.expect("swept")),
                    _ => drop(ground.store.release_attempt_by_policy(key, "support").await),
                }
            });
        }
        rivals.join_all().await;
        assert_eq!(ground.states(key).await, "succeeded/succeeded", "round {round}");
    }
}

/// B135: one compare-and-swap decides, and the loser learns it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_cancel_and_a_finish_at_once_agree_on_who_was_first() {
    let ground = Arc::new(Ground::new().await);
    let mut seen = [0, 0];
    for round in 0..60 {
        let key = ground.running(&format!("k{round}")).await;
        let late = answer(key, "the answer");
        let (cancelled, completed) =
            tokio::join!(ground.store.cancel_job(key.owner, key.job), ground.store.complete(&late));
        let completed = completed.expect("an answer");
        let states = ground.states(key).await;
        match (cancelled, completed) {
            (Ok(()), Completed::Lost { winner: None }) => assert_eq!(states, "cancelled/cancelled"),
            (Err(StoreError::LostRace), Completed::Won) => assert_eq!(states, "succeeded/succeeded"),
            other => panic!("{other:?}: {states}"),
        }
        seen[usize::from(completed == Completed::Won)] += 1;
    }
    println!("cancelled first {} times, completed first {} times", seen[0], seen[1]);
}
