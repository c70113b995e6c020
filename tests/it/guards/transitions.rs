//! Every transition from every state: the legal ones go where DESIGN 2 says, the others change nothing (R9).

use std::time::Duration;

use interlock::domain::ids::{AttemptId, JobId};
use interlock::domain::job::{JobError, JobErrorCode};
use interlock::store::StoreError;
use interlock::store::attempts::{AttemptKey, Completed};
use interlock::store::operators::{Clearance, Cleared};
use providers::failure::{Failure, Proof};

use super::ground::{Ground, HOUR, answer};

/// Where a job and one of its attempts can stand together: `job/attempt`. In the last two another attempt has won.
const SITUATIONS: [&str; 11] = [
    "running/started",
    "unknown/unknown",
    "succeeded/succeeded",
    "queued/failed",
    "queued/released",
    "queued/cancelled",
    "cancelled/cancelled",
    "queued/superseded",
    "failed/failed",
    "succeeded/released",
    "succeeded/superseded",
];

#[derive(Debug, Clone, Copy)]
enum Deed {
    MarkUnknown,
    Fail,
    Complete,
    ReleaseByPolicy,
    Clear(Clearance),
    StopListening,
}

const DEEDS: [Deed; 8] = [
    Deed::MarkUnknown,
    Deed::Fail,
    Deed::Complete,
    Deed::ReleaseByPolicy,
    Deed::Clear(Clearance::Release),
    Deed::Clear(Clearance::Cancel),
    Deed::Clear(Clearance::Fail),
    Deed::StopListening,
];

/// What comes of it: the answer, and the situation where it changes.
fn expected(deed: Deed, situation: &str) -> (&'static str, Option<&'static str>) {
    let won_by_another = ["succeeded/released", "succeeded/superseded"].contains(&situation);
    match (deed, situation) {
        (Deed::MarkUnknown, "running/started") => ("done", Some("unknown/unknown")),
        (Deed::Fail, "running/started" | "unknown/unknown" | "queued/released") => ("done", Some("queued/failed")),
        (Deed::Fail, "succeeded/released") => ("done", Some("succeeded/failed")),
        (Deed::Complete, "running/started" | "unknown/unknown" | "queued/released") => {
            ("won", Some("succeeded/succeeded"))
        }
        // A repeat of the statement, its first answer lost, says so too.
        (Deed::Complete, "succeeded/succeeded") => ("won", None),
        (Deed::Complete, _) if won_by_another => ("lost to another", None),
        (Deed::Complete, _) => ("lost to nobody", None),
        (Deed::ReleaseByPolicy, "unknown/unknown") => ("done", Some("queued/released")),
        (Deed::Clear(Clearance::Release), "unknown/unknown") => ("done", Some("queued/released")),
        (Deed::Clear(Clearance::Cancel), "unknown/unknown") => ("done", Some("queued/cancelled")),
        (Deed::Clear(Clearance::Fail), "unknown/unknown") => ("done", Some("queued/failed")),
        (Deed::Clear(_), _) => ("not unknown", None),
        (Deed::StopListening, "queued/released") => ("done", Some("queued/superseded")),
        (Deed::StopListening, "succeeded/released") => ("done", Some("succeeded/superseded")),
        (Deed::StopListening, _) => ("done", None),
        (Deed::MarkUnknown | Deed::Fail | Deed::ReleaseByPolicy, _) => ("too late", None),
    }
}

async fn perform(ground: &Ground, deed: Deed, key: AttemptKey) -> &'static str {
    let failure = Failure::new(Proof::EndedWithoutResult, "error_500", "it said so");
    let done = match deed {
        Deed::MarkUnknown => ground.store.mark_attempt_unknown(key, "timeout", "silence").await,
        Deed::Fail => ground.store.fail_attempt(key, &failure, None).await,
        Deed::ReleaseByPolicy => ground.store.release_attempt_by_policy(key, "support").await,
        Deed::StopListening => ground.store.stop_listening(key).await,
        Deed::Complete => {
            return match ground.store.complete(&answer(key, "the answer")).await.expect("an answer") {
                Completed::Won => "won",
                Completed::Lost { winner: Some(_) } => "lost to another",
                Completed::Lost { winner: None } => "lost to nobody",
            };
        }
        Deed::Clear(clearance) => {
            return match ground.store.clear_attempt(key.id, clearance, "ann", "why").await.expect("an answer") {
                Cleared::Done(cleared) => {
                    assert_eq!(cleared, key);
                    "done"
                }
                Cleared::NotUnknown(_) => "not unknown",
                Cleared::NoSuchAttempt => panic!("the attempt is there"),
            };
        }
    };
    match done {
        Ok(()) => "done",
        Err(StoreError::LostRace) => "too late",
        Err(other) => panic!("{deed:?}: {other}"),
    }
}

/// Puts a job and its attempt into a situation, row by row.
async fn set_up(ground: &Ground, situation: &str) -> AttemptKey {
    let (job_state, state) = situation.split_once('/').expect("job/attempt");
    let key = AttemptKey { owner: ground.owner, job: JobId::fresh(), id: AttemptId::fresh() };
    let (owner, job, id, other, instance) = (key.owner, key.job, key.id, AttemptId::fresh(), ground.instance);
    let mut sql = format!(
        "INSERT INTO jobs (owner_id, id, idempotency_key, key_origin, fingerprint, fingerprint_version, url, route, delivery, state, deadline_at)
         VALUES ('{owner}', '{job}', '{job}', 'client', sha256('x'), 1, '/v1/chat/completions', 'support', 'sync', 'queued', now() + interval '1 d');
         INSERT INTO job_requests (owner_id, job_id, body) VALUES ('{owner}', '{job}', '{{}}');"
    );
    let insert = |id: AttemptId, ordinal: i32, state: &str| {
        format!(
            "INSERT INTO attempts (owner_id, job_id, id, ordinal, round, state, rank, provider, model, adapter_version, instance_id,
                                   job_version, reason, cleared_by, ended_at, deadline_at, settle_until)
             VALUES ('{owner}', '{job}', '{id}', {ordinal}, 1, '{state}', 'primary', 'alpha', 'm', 'openai/1', '{instance}', 0,
                     'set up', 'policy:support', CASE WHEN '{state}' NOT IN ('started', 'unknown', 'released') THEN now() END,
                     now() + interval '1 h', now() + interval '1 h');"
        )
    };
    sql += &insert(id, 1, state);
    let winner = if state == "succeeded" { id } else { other };
    if job_state == "succeeded" {
        if winner == other {
            sql += &insert(other, 2, "succeeded");
        }
        sql += &format!(
            "UPDATE jobs SET state = 'succeeded', completed_by = '{winner}', closed_at = now(), version = 1 WHERE id = '{job}';
             INSERT INTO job_results (owner_id, job_id, attempt_id, content_type, body) VALUES ('{owner}', '{job}', '{winner}', 'application/json', 'stored');"
        );
    } else if ["failed", "cancelled"].contains(&job_state) {
        sql += &format!(
            "UPDATE jobs SET state = '{job_state}', error = '{{\"code\":\"all_targets_failed\",\"message\":\"x\",\"details\":[]}}', closed_at = now(), version = 1 WHERE id = '{job}';"
        );
    } else {
        sql += &format!("UPDATE jobs SET state = '{job_state}' WHERE id = '{job}';");
    }
    ground.sql(sql).await;
    key
}

/// Everything that the database holds of a job, but when it was last looked at.
async fn whole(ground: &Ground, key: AttemptKey) -> String {
    let job = key.job;
    ground
        .value(format!(
            "SELECT (SELECT row_to_json(j)::jsonb - 'updated_at' FROM jobs j WHERE id = '{job}')::text
                 || (SELECT string_agg(row_to_json(a)::text, ' ' ORDER BY ordinal) FROM attempts a WHERE job_id = '{job}')
                 || coalesce((SELECT row_to_json(r)::text FROM job_results r WHERE job_id = '{job}'), '')"
        ))
        .await
}

#[tokio::test]
async fn every_transition_is_refused_from_every_state_where_it_is_illegal() {
    let ground = Ground::new().await;
    for deed in DEEDS {
        for situation in SITUATIONS {
            let key = set_up(&ground, situation).await;
            let before = whole(&ground, key).await;
            let (outcome, change) = expected(deed, situation);
            assert_eq!(perform(&ground, deed, key).await, outcome, "{deed:?} of {situation}");
            match change {
                None => assert_eq!(whole(&ground, key).await, before, "{deed:?} of {situation} changed something"),
                Some(after) => assert_eq!(ground.states(key).await, after, "{deed:?} of {situation}"),
            }
        }
    }
}

#[tokio::test]
async fn the_job_s_own_transitions_are_refused_once_it_is_over() {
    let ground = Ground::new().await;
    let error = JobError {
        code: JobErrorCode::AllTargetsFailed,
        message: "nobody could".to_owned(),
        status: None,
        provider_code: None,
        provider_type: None,
        param: None,
        retry_after_ms: None,
        unpermitted: false,
        details: Vec::new(),
    };
    for situation in SITUATIONS {
        let (job, _) = situation.split_once('/').expect("job/attempt");
        let open = ["queued", "running", "unknown"].contains(&job);
        for (deed, legal) in [("cancel", open), ("fail", job == "queued"), ("end the round", job == "queued")] {
            let key = set_up(&ground, situation).await;
            let before = whole(&ground, key).await;
            let done = match deed {
                "cancel" => ground.store.cancel_job(key.owner, key.job).await,
                "fail" => ground.store.fail_job(key.owner, key.job, &error).await,
                _ => ground.store.end_round(key.owner, key.job, &error, Some(HOUR)).await,
            };
            assert_eq!(done.is_ok(), legal, "{deed} of {situation}: {done:?}");
            assert!(legal || matches!(done, Err(StoreError::LostRace)), "{deed} of {situation}: {done:?}");
            assert_eq!(whole(&ground, key).await == before, !legal, "{deed} of {situation}");
        }
    }
}

/// R4, R9: an attempt starts on a queued job and on no other.
#[tokio::test]
async fn nothing_starts_on_a_job_that_is_not_queued() {
    let ground = Ground::new().await;
    for situation in SITUATIONS {
        let key = set_up(&ground, situation).await;
        let before = whole(&ground, key).await;
        let start = ground.start_of(key.job, 3, ground.primary());
        let started = ground.store.start_attempt(&start).await;
        let legal = situation.starts_with("queued");
        assert_eq!(started.is_ok(), legal, "{situation}: {started:?}");
        // Told by the guard itself, before any constraint has to say it.
        assert!(legal || matches!(started, Err(StoreError::LostRace)), "{situation}: {started:?}");
        assert!(legal || whole(&ground, key).await == before, "{situation}");
        if legal {
            // So that the books balance: the second attempt, not the third.
            ground.sql(format!("UPDATE attempts SET ordinal = 2 WHERE id = '{}'", start.key.id)).await;
        }
    }
}

#[tokio::test]
async fn terminal_states_never_change_under_any_sweep() {
    let ground = Ground::new().await;
    let mut settled = Vec::new();
    for situation in [
        "succeeded/succeeded",
        "cancelled/cancelled",
        "failed/failed",
        "succeeded/superseded",
        "queued/superseded",
        "queued/failed",
        "queued/cancelled",
    ] {
        let key = set_up(&ground, situation).await;
        settled.push((situation, key, whole(&ground, key).await));
    }
    let late = set_up(&ground, "succeeded/released").await;
    let lost = set_up(&ground, "running/started").await;
    ground.sql("UPDATE attempts SET settle_until = now() - interval '1 h', deadline_at = now() - interval '1 h'").await;
    for (_, key, before) in &mut settled {
        *before = whole(&ground, *key).await;
    }
    ground.store.end_lease(ground.instance).await.expect("ended");
    assert_eq!(ground.store.mark_lost_attempts_unknown(Duration::ZERO).await.expect("swept"), 1);
    assert_eq!(ground.store.mark_own_attempts_unknown(ground.instance).await.expect("swept"), 0);
    ground.store.settle_leftovers(Duration::ZERO).await.expect("swept");
    assert_eq!(ground.states(lost).await, "unknown/unknown");
    assert_eq!(ground.states(late).await, "succeeded/superseded");
    for (situation, key, before) in settled {
        ground.store.release_losers(key.owner, key.job).await.expect("released");
        assert_eq!(whole(&ground, key).await, before, "{situation}");
    }
}

#[tokio::test]
async fn a_lost_result_leaves_a_race_row_and_no_byte_of_itself() {
    let ground = Ground::new().await;
    let key = set_up(&ground, "succeeded/released").await;
    let late = answer(key, "CANARY of the loser");
    let Completed::Lost { winner } = ground.store.complete(&late).await.expect("an answer") else { panic!("it won") };
    for _ in 0..2 {
        ground.store.lose_race(&late, winner).await.expect("logged");
    }
    assert_eq!(ground.states(key).await, "succeeded/superseded");
    let races = ground.store.list_races(10).await.expect("races");
    assert_eq!((races.len(), races[0].attempt, races[0].winner, races[0].version_seen), (1, key.id, winner, 0));
    assert!(winner.is_some() && winner != Some(key.id));
    assert_eq!(
        ground.value(format!("SELECT encode(body, 'escape') FROM job_results WHERE job_id = '{}'", key.job)).await,
        "stored"
    );
}
