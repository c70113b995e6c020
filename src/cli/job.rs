//! `interlock job`: what became of an intent.

use clap::Subcommand;
use serde_json::Value;

use super::open::{Opened, during};
use super::permit::actor;
use super::{Answer, Context, Failure, output};
use crate::domain::cost::JobCost;
use crate::domain::ids::JobId;
use crate::domain::job::Snapshot;
use crate::http::view;
use crate::store::StoreError;

#[derive(Debug, Subcommand)]
pub enum Command {
    /// List jobs, newest first.
    List {
        #[arg(long, value_parser = ["queued", "running", "unknown", "succeeded", "failed", "cancelled"])]
        state: Option<String>,
        #[arg(long)]
        owner: Option<String>,
    },
    /// Show one job with its attempts.
    Show { id: JobId },
    /// Cancel a job: whatever still comes back is thrown away.
    Cancel {
        id: JobId,
        #[arg(long)]
        reason: String,
        #[arg(long)]
        by: Option<String>,
    },
}

pub async fn run(context: &Context, command: Command) -> Result<Answer, Failure> {
    during(context, async |opened| act(context, opened, command).await).await
}

async fn act(context: &Context, opened: &Opened, command: Command) -> Result<Answer, Failure> {
    match command {
        Command::List { state, owner } => {
            let owner = match owner {
                None => None,
                Some(name) => match opened.store.owner_by_name(&name).await? {
                    Some(id) => Some(id),
                    None => return output::refuse(context, "not_found", &format!("there is no owner `{name}`")),
                },
            };
            let jobs = opened.store.list_jobs(state.as_deref(), owner, None, 100).await?;
            let values: Vec<Value> = jobs.iter().map(view::job).collect();
            let members = ["id", "state", "route", "idempotency_key", "created_at"];
            let rows = output::rows(&values, &members);
            output::print(context, &Value::Array(values), &members, rows)?;
            Ok(Answer::Yes)
        }
        Command::Show { id } => match find(opened, id).await? {
            Some(snapshot) => show(context, &snapshot),
            None => output::refuse(context, "not_found", &format!("there is no job {id}")),
        },
        Command::Cancel { id, reason, by } => cancel(context, opened, id, &reason, &actor(by)).await,
    }
}

async fn find(opened: &Opened, id: JobId) -> Result<Option<Snapshot>, Failure> {
    let Some(owner) = opened.store.job_owner(id).await? else { return Ok(None) };
    Ok(opened.store.job(owner, id).await?)
}

/// Prints a job and its attempts.
pub fn show(context: &Context, snapshot: &Snapshot) -> Result<Answer, Failure> {
    let value = view::job(snapshot);
    let attempts: Vec<Value> = value["attempts"].as_array().into_iter().flatten().map(in_words).collect();
    let members =
        ["ordinal", "id", "state", "provider", "model", "reason", "cleared_by", "started_at", "cost", "dropped"];
    if !context.json {
        println!(
            "job {} on route `{}`: {} (version {})",
            snapshot.job.id,
            snapshot.job.route,
            snapshot.job.state.as_str(),
            snapshot.job.version
        );
        let cost = JobCost::of(&snapshot.attempts).to_text();
        println!("cost so far: {}", cost.as_deref().unwrap_or("not known"));
    }
    output::print(context, &value, &members, output::rows(&attempts, &members))?;
    Ok(Answer::Yes)
}

/// An attempt for a table: its cost and what it left out on one line each.
fn in_words(attempt: &Value) -> Value {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut attempt = attempt.clone();
    let cost = &attempt["cost"];
    let cost =
        if cost.is_null() { String::new() } else { format!("{} {}", text(&cost["amount"]), text(&cost["currency"])) };
    let dropped: Vec<String> = attempt["dropped"].as_array().into_iter().flatten().map(text).collect();
    attempt["cost"] = cost.into();
    attempt["dropped"] = dropped.join(", ").into();
    attempt
}

async fn cancel(context: &Context, opened: &Opened, id: JobId, reason: &str, actor: &str) -> Result<Answer, Failure> {
    if reason.trim().is_empty() {
        return Err("--reason: say why, it is what the next person on call will read".into());
    }
    let Some(snapshot) = find(opened, id).await? else {
        return output::refuse(context, "not_found", &format!("there is no job {id}"));
    };
    match opened.store.cancel_job(snapshot.job.owner, id).await {
        Ok(()) => opened.store.record_action(actor, "job.cancel", id.as_uuid(), reason).await?,
        Err(StoreError::LostRace) => {
            let state = find(opened, id).await?.map_or("gone", |s| s.job.state.as_str());
            return output::refuse(context, "job_over", &format!("job {id} is {state} already, and that is final"));
        }
        Err(error) => return Err(error.into()),
    }
    match find(opened, id).await? {
        Some(snapshot) => show(context, &snapshot),
        None => Ok(Answer::No),
    }
}
