//! `interlock attempt`: clears an attempt whose outcome nobody knows, by name and with a reason.

use clap::{Args, Subcommand};

use super::open::{Opened, during};
use super::permit::actor;
use super::{Answer, Context, Failure, job, output};
use crate::domain::ids::AttemptId;
use crate::store::operators::{Clearance, Cleared};

#[derive(Debug, Subcommand)]
pub enum Command {
    /// It no longer blocks; if it returns first, it may still win. The work may be done twice.
    Release(Deed),
    /// Fence it: whatever it returns is thrown away. The work may be done twice.
    Cancel(Deed),
    /// You know that it failed.
    Fail(Deed),
}

#[derive(Debug, Args)]
pub struct Deed {
    id: AttemptId,
    /// What the next person on call will read.
    #[arg(long)]
    reason: String,
    /// Who does it. Default: the user at this terminal.
    #[arg(long)]
    by: Option<String>,
}

pub async fn run(context: &Context, command: Command) -> Result<Answer, Failure> {
    let (clearance, deed) = match command {
        Command::Release(deed) => (Clearance::Release, deed),
        Command::Cancel(deed) => (Clearance::Cancel, deed),
        Command::Fail(deed) => (Clearance::Fail, deed),
    };
    if deed.reason.trim().is_empty() {
        return Err("--reason: say why, it is what the next person on call will read".into());
    }
    during(context, async |opened| clear(context, opened, clearance, deed).await).await
}

async fn clear(context: &Context, opened: &Opened, clearance: Clearance, deed: Deed) -> Result<Answer, Failure> {
    let cleared = opened.store.clear_attempt(deed.id, clearance, &actor(deed.by), &deed.reason).await?;
    match cleared {
        Cleared::Done(key) => match opened.store.job(key.owner, key.job).await? {
            Some(snapshot) => job::show(context, &snapshot),
            None => Ok(Answer::No),
        },
        Cleared::NotUnknown(state) => {
            let why = format!("attempt {} is {state}; only an unknown attempt can be cleared", deed.id);
            output::refuse(context, "attempt_not_unknown", &why)
        }
        Cleared::NoSuchAttempt => output::refuse(context, "not_found", &format!("there is no attempt {}", deed.id)),
    }
}
