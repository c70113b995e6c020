//! `interlock demo`: the whole story, step by step.

use super::{Answer, Context, Failure};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Exit after the story, with status 1 if a step did not hold.
    #[arg(long)]
    once: bool,
}

pub async fn run(_context: &Context, _args: Args) -> Result<Answer, Failure> {
    Ok(Answer::No)
}
