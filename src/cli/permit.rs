//! `interlock permit`: a fallback is enabled on the evidence of a passed run, and ended by name.

use std::time::Duration;

use clap::Subcommand;
use serde_json::Value;

use super::open::{Opened, during};
use super::{Answer, Context, Failure, output};
use crate::config::environment;
use crate::domain::ids::{PermitId, RunId};
use crate::engine::certify::coverage::{Coverage, standings};
use crate::engine::certify::{GrantError, grant_permit};
use crate::http::view;
use crate::store::permits::ListedPermit;

#[derive(Debug, Subcommand)]
pub enum Command {
    /// List permits, newest first, each with how it stands and why.
    List {
        #[arg(long)]
        route: Option<String>,
    },
    /// Enable a fallback of a route on the evidence of a passed run.
    Grant {
        #[arg(long)]
        route: String,
        /// The run's id, as `contract run` prints it.
        #[arg(long)]
        run: RunId,
        /// What the next person on call will read.
        #[arg(long)]
        reason: String,
        /// Who grants it. Default: the user at this terminal.
        #[arg(long)]
        by: Option<String>,
    },
    /// End a permit at once.
    Revoke {
        id: PermitId,
        #[arg(long)]
        reason: String,
        #[arg(long)]
        by: Option<String>,
    },
}

/// Who is at this terminal.
pub fn actor(by: Option<String>) -> String {
    let named = by.or_else(|| environment("USER")).or_else(|| environment("LOGNAME"));
    named.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).unwrap_or_else(|| "operator".to_owned())
}

pub async fn run(context: &Context, command: Command) -> Result<Answer, Failure> {
    during(context, async |opened| act(context, opened, command).await).await
}

async fn act(context: &Context, opened: &Opened, command: Command) -> Result<Answer, Failure> {
    match command {
        Command::List { route } => {
            let listed = opened.store.listed_permits(route.as_deref()).await?;
            let permits = shown(opened, &listed).await;
            show(context, &Value::Array(permits.clone()), &permits)
        }
        Command::Grant { route, run, reason, by } => {
            match grant_permit(&opened.store, &opened.config, &route, run, &actor(by), &reason).await {
                Ok(permit) => granted(context, opened, permit.id()).await,
                Err(GrantError::Store(error)) => Err(error.into()),
                Err(refusal) => output::refuse(context, "permit_refused", &refusal.to_string()),
            }
        }
        Command::Revoke { id, reason, by } => {
            if reason.trim().is_empty() {
                return Err("--reason: say why, it is what the next person on call will read".into());
            }
            if !opened.store.revoke_permit(id, &actor(by), &reason).await? {
                return output::refuse(context, "not_found", &format!("there is no live permit {id}"));
            }
            let listed: Vec<ListedPermit> = opened.store.listed_permit(id).await?.into_iter().collect();
            let revoked = shown(opened, &listed).await;
            show(context, &revoked.first().cloned().unwrap_or_default(), &revoked)
        }
    }
}

/// Permits, each with how it stands under these settings.
async fn shown(opened: &Opened, permits: &[ListedPermit]) -> Vec<Value> {
    let standings = standings(&opened.config, permits).await;
    permits.iter().zip(&standings).map(|(permit, standing)| view::permit(permit, standing)).collect()
}

/// The new permit, and what its evidence covers and does not.
async fn granted(context: &Context, opened: &Opened, id: PermitId) -> Result<Answer, Failure> {
    let Some(listed) = opened.store.listed_permit(id).await? else {
        return Err(format!("the permit {id} was granted and cannot be read").into());
    };
    let mut permit = shown(opened, std::slice::from_ref(&listed)).await.pop().unwrap_or_default();
    let covered = Coverage::of(&opened.store, &listed).await?;
    if let (Some(covered), Value::Object(permit)) = (&covered, &mut permit) {
        permit.insert("evidence".to_owned(), view::coverage(covered));
    }
    let answer = show(context, &permit, std::slice::from_ref(&permit))?;
    if let (Some(covered), false) = (covered, context.json) {
        println!("\n{}", in_words(&covered, &permit["status"]));
    }
    Ok(answer)
}

/// The coverage for whoever has just enabled a fallback, perhaps at night.
fn in_words(covered: &Coverage, status: &Value) -> String {
    let run = &covered.run;
    let age = humantime::format_duration(Duration::from_secs(covered.age_seconds().unsigned_abs()));
    let short = |digest: &str| digest.chars().take(12).collect::<String>();
    let kinds: Vec<String> =
        covered.kinds.iter().map(|(kind, [passed, ..])| format!("{kind} {passed} passed")).collect();
    let mut out = format!(
        "The evidence: run {} of `{}` against {}, {}, {age} old; {}\n  covers        {}\n",
        run.id,
        run.suite,
        run.target,
        run.mode,
        status.as_str().unwrap_or_default(),
        kinds.join(", ")
    );
    match covered.skipped.is_empty() {
        true => out.push_str("  leaves out    nothing that the suite asks for\n"),
        false => out.push_str("  leaves out\n"),
    }
    for check in &covered.skipped {
        out.push_str(&format!("    {}/{} ({}): {}\n", check.kind, check.name, check.case, check.detail));
    }
    let (suite, settings) = (short(&run.suite_digest), short(&run.settings_digest));
    out.push_str(&format!("  stands on     suite {suite}, settings {settings}, adapter {}", run.adapter_version));
    out.push_str("; a change of any of them ends the permit");
    out
}

fn show(context: &Context, value: &Value, permits: &[Value]) -> Result<Answer, Failure> {
    let members = ["id", "route", "provider", "model", "mode", "granted_by", "state", "status", "reason"];
    output::print(context, value, &members, output::rows(permits, &members))?;
    Ok(Answer::Yes)
}
