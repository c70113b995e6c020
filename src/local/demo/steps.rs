//! The steps of the story, each with what must then be so.

use serde_json::json;

use super::Cast;
use super::scene::{Answer, Scene, SceneError, patience, wait_a_little};
use crate::domain::attempt::AttemptState;
use crate::domain::ids::{JobId, RunId};
use crate::domain::job::JobState;
use crate::local::sim::Behaviour;
use crate::store::contracts::Run;

const TICKET: &str = "I was charged twice for my March invoice, please refund one of them.";

pub async fn double_click(scene: &mut Scene, cast: &Cast) -> Result<(), SceneError> {
    scene.step("Somebody clicks twice: two requests at once, one Idempotency-Key");
    let (first, second) = tokio::try_join!(scene.ask("click-1", TICKET), scene.ask("click-1", TICKET))?;
    let job = first.job()?;
    scene.show(job).await?;
    scene.expect(first.status == 200 && second.status == 200, "both got an answer");
    scene.expect(second.job()? == job && first.body == second.body, "of one job, and the same bytes");
    scene.expect(cast.primary.calls_count() == 1, "the provider was called once");
    let third = scene.ask("click-1", TICKET).await?;
    scene.expect(third.header("idempotent-replayed") == "true", "a third click replays the stored answer");
    scene.expect(cast.primary.calls_count() == 1, "and calls nobody");
    Ok(())
}

pub async fn changed_payload(scene: &mut Scene, cast: &Cast) -> Result<(), SceneError> {
    scene.step("The same key with another payload");
    let answer = scene.ask("click-1", "Delete my account.").await?;
    scene.tell(&format!("{} {}", answer.status, answer.code()));
    scene.show(answer.job()?).await?;
    scene.expect(answer.status == 409 && answer.code() == "idempotency_key_conflict", "is a conflict");
    scene.expect(cast.primary.calls_count() == 1, "and nothing was sent");
    Ok(())
}

/// The job whose first attempt hangs.
pub async fn timeout_blocks(scene: &mut Scene, cast: &Cast) -> Result<JobId, SceneError> {
    scene.step("The provider hangs: after attempt_timeout the outcome is unknown, not failed, and blocks");
    cast.primary.set_behaviour(Behaviour::Hangs);
    let before = cast.primary.calls_count();
    let answer = scene.ask("hang-1", TICKET).await?;
    let job = answer.job()?;
    scene.tell(&format!("{} {}, Location: {}", answer.status, answer.code(), answer.header("location")));
    let snapshot = scene.show(job).await?;
    scene.expect(answer.status == 504 && answer.code() == "attempt_unknown", "the caller is told that nobody knows");
    scene.expect(snapshot.job.state == JobState::Unknown, "the job is unknown");
    let again = scene.ask("hang-1", TICKET).await?;
    scene.expect(again.status == 504 && again.job()? == job, "clicking again waits for the same job");
    scene.expect(cast.primary.calls_count() == before + 1, "and sends nothing: the unknown attempt blocks the next");
    Ok(job)
}

pub async fn reverse_finish(scene: &mut Scene, cast: &Cast, job: JobId) -> Result<(), SceneError> {
    scene.step("Somebody on call releases it; the second attempt wins, the first one's answer comes last and loses");
    let hung = scene.job(job).await?.attempts[0].id;
    cast.primary.set_behaviour(Behaviour::Sound);
    let reason = json!({ "reason": "provider's status page: requests of that minute were dropped", "actor": "demo" });
    let cleared = scene.operate(&format!("/admin/v1/attempts/{hung}/release"), &reason).await?;
    scene.expect(cleared.status == 200, "released by name and with a reason");
    scene.wait_for(job, "the second attempt's answer", |s| s.job.state.is_terminal()).await?;
    cast.primary.release_held();
    let lost = |a: &AttemptState| matches!(a, AttemptState::Superseded { .. });
    scene.wait_for(job, "the first attempt's late answer", |s| s.attempts.iter().any(|a| lost(&a.state))).await?;
    let snapshot = scene.show(job).await?;
    let races = scene.store.list_races(100).await?;
    let second = snapshot.attempts.get(1).map(|a| a.id);
    scene.expect(snapshot.job.state.completed_by() == second, "the second attempt completed the job");
    let logged = races.iter().any(|race| race.job == job && race.attempt == hung && race.winner == second);
    scene.expect(logged, "the late answer was thrown away, and the race is logged");
    Ok(())
}

/// The job that no target would serve.
pub async fn failover_refused(scene: &mut Scene, cast: &Cast) -> Result<JobId, SceneError> {
    scene.step("The primary is overloaded, and no fallback has proved itself");
    cast.primary.set_behaviour(Behaviour::Refuses);
    let answer = scene.ask("failover-1", TICKET).await?;
    let job = answer.job()?;
    scene.tell(&format!("{} {}", answer.status, answer.code()));
    for line in answer.body["error"]["attempts"].as_array().into_iter().flatten() {
        scene.tell(line.as_str().unwrap_or_default());
    }
    let snapshot = scene.show(job).await?;
    scene.expect(answer.code() == "all_targets_failed", "the call fails and says what is missing");
    let asked = cast.loose.calls_count() + cast.sound.calls_count();
    scene.expect(asked == 0 && snapshot.attempts.len() == 1, "no fallback was asked");
    Ok(job)
}

pub async fn suite_fails(scene: &mut Scene) -> Result<(), SceneError> {
    scene.step("The contract suite against a provider that breaks the contract");
    let run = run_suite(scene, "loose/gpt-4.1").await?;
    let failed: Vec<_> = scene.store.checks(run.id).await?.into_iter().filter(|c| c.verdict == "failed").collect();
    for check in failed.iter().take(4) {
        scene.tell(&format!("failed: {}/{} ({})", check.kind, check.name, check.case));
    }
    scene.expect(run.verdict == "failed", "it is found out");
    let granted = grant(scene, run.id).await?;
    scene.tell(granted.body["detail"].as_str().unwrap_or_default());
    scene.expect(granted.status == 409 && granted.code() == "permit_refused", "and gets no permit");
    Ok(())
}

/// The run that passed.
pub async fn suite_passes(scene: &mut Scene) -> Result<RunId, SceneError> {
    scene.step("The same suite against a sound provider of another make");
    let run = run_suite(scene, "sound/claude-sonnet-4-5").await?;
    let checks = scene.store.checks(run.id).await?.len();
    scene.tell(&format!(
        "{checks} checks: schema {}, tokenizer {}, round_trip {}",
        run.kinds[0], run.kinds[1], run.kinds[2]
    ));
    scene.expect(run.verdict == "passed", "all three kinds passed");
    let granted = grant(scene, run.id).await?;
    scene.tell(&format!("permit {} until {}", granted.body["id"], granted.body["expires_at"]));
    scene.expect(granted.status == 201, "somebody enables it: the permit rests on this run");
    Ok(run.id)
}

pub async fn failover_allowed(scene: &mut Scene, cast: &Cast, job: JobId, run: RunId) -> Result<(), SceneError> {
    scene.step("The same click again: the same job goes on, and now a fallback may be tried");
    let answer = scene.ask("failover-1", TICKET).await?;
    let snapshot = scene.show(job).await?;
    scene.tell(&format!("{} from provider `{}`", answer.status, answer.header("x-interlock-provider")));
    scene.expect(answer.status == 200 && answer.job()? == job, "the job that had failed is answered");
    let by_sound = snapshot.winner().is_some_and(|winner| winner.target.provider == cast.sound.name());
    scene.expect(by_sound, "by the fallback that passed, not by the one before it that failed the suite");
    let permits = scene.store.permits(Some("support")).await?;
    let under = snapshot.winner().and_then(|winner| winner.permit);
    let rests = permits.iter().any(|permit| Some(permit.id()) == under && permit.facts().run == run);
    scene.expect(rests, "its attempt names the permit, the permit names the run");
    cast.primary.set_behaviour(Behaviour::Sound);
    Ok(())
}

async fn run_suite(scene: &Scene, target: &str) -> Result<Run, SceneError> {
    let started =
        scene.operate("/admin/v1/contract-runs", &json!({ "suite": "support-triage", "target": target })).await?;
    let id: RunId = started.body["id"]
        .as_str()
        .and_then(|id| id.parse().ok())
        .ok_or_else(|| SceneError::Answer(started.body.to_string()))?;
    let until = patience();
    loop {
        match scene.store.run(id).await? {
            Some(run) if run.verdict != "running" => return Ok(run),
            Some(_) | None => wait_a_little(until, "the contract run").await?,
        }
    }
}

async fn grant(scene: &Scene, run: RunId) -> Result<Answer, SceneError> {
    let order = json!({ "route": "support", "run_id": run, "reason": "demo: primary overloaded", "actor": "demo" });
    scene.operate("/admin/v1/permits", &order).await
}
