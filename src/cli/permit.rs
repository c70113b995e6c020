//! `interlock permit`: a fallback is enabled on the evidence of a passed run, and ended by name.

use clap::Subcommand;
use serde_json::Value;

use super::open::{Opened, during};
use super::{Answer, Context, Failure, output};
use crate::config::environment;
use crate::domain::ids::{PermitId, RunId};
use crate::engine::certify::{GrantError, grant_permit};
use crate::http::view;

#[derive(Debug, Subcommand)]
pub enum Command {
    /// List permits, newest first.
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
            let permits: Vec<Value> = opened.store.permits(route.as_deref()).await?.iter().map(view::permit).collect();
            show(context, &Value::Array(permits.clone()), &permits)
        }
        Command::Grant { route, run, reason, by } => {
            match grant_permit(&opened.store, &opened.config, &route, run, &actor(by), &reason).await {
                Ok(permit) => {
                    let permit = view::permit(&permit);
                    show(context, &permit, std::slice::from_ref(&permit))
                }
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
            let permits = opened.store.permits(None).await?;
            let revoked: Vec<Value> = permits.iter().filter(|p| p.id() == id).map(view::permit).collect();
            show(context, &revoked.first().cloned().unwrap_or_default(), &revoked)
        }
    }
}

fn show(context: &Context, value: &Value, permits: &[Value]) -> Result<Answer, Failure> {
    let members = ["id", "route", "provider", "model", "mode", "granted_by", "expires_at", "revoked_at", "reason"];
    output::print(context, value, &members, output::rows(permits, &members))?;
    Ok(Answer::Yes)
}
