//! The command line. Each subcommand has a file of its own; every one prints a table for people and, with `--json`,
//! JSON for programs. Exit status: 0 done, 1 the answer is no, 2 usage or set-up.

mod attempt;
mod config;
mod contract;
mod demo;
mod job;
mod key;
mod migrate;
mod open;
mod output;
mod permit;
mod provider;
mod serve;
mod sim;

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// What a command came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    Yes,
    /// The answer is no: a suite failed, a permit was refused, there is no such thing.
    No,
}

/// Usage or set-up: told on standard error, exit status 2.
type Failure = Box<dyn Error + Send + Sync>;

/// A multi-provider AI inference gateway: one durable job per intent, failover only on evidence.
#[derive(Debug, Parser)]
#[command(name = "interlock", version, arg_required_else_help = true)]
struct Cli {
    /// The settings file. Default: INTERLOCK_CONFIG, else interlock.toml in this folder.
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print JSON for programs instead of a table for people.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Play the whole story on a private Postgres with simulated providers, then keep serving.
    Demo(demo::Args),
    /// Run the gateway.
    Serve,
    /// Bring the database's schema up to date.
    Migrate,
    /// Check the settings file.
    #[command(subcommand)]
    Config(config::Command),
    /// Run and read contract suites.
    #[command(subcommand)]
    Contract(contract::Command),
    /// Enable and revoke fallbacks.
    #[command(subcommand)]
    Permit(permit::Command),
    /// Read and cancel jobs.
    #[command(subcommand)]
    Job(job::Command),
    /// Clear an attempt whose outcome nobody knows.
    #[command(subcommand)]
    Attempt(attempt::Command),
    /// Make and revoke API keys.
    #[command(subcommand)]
    Key(key::Command),
    /// Serve a simulated provider, sound or misbehaving, to try suites on.
    Sim(sim::Args),
    /// List the configured providers, and see whether they can be reached.
    #[command(subcommand)]
    Provider(provider::Command),
}

/// What every command is given.
#[derive(Debug)]
pub(crate) struct Context {
    pub config: Option<PathBuf>,
    pub json: bool,
}

/// Reads the command line and does what it says.
pub async fn run() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let told = error.print().is_ok();
            return if told && !error.use_stderr() { ExitCode::SUCCESS } else { ExitCode::from(2) };
        }
    };
    // A gateway tells what it does; a command's own output is what its user came for.
    crate::telemetry::init_logs(match cli.command {
        Command::Serve => "info",
        _ => "error",
    });
    let context = Context { config: cli.config, json: cli.json };
    match dispatch(cli.command, &context).await {
        Ok(Answer::Yes) => ExitCode::SUCCESS,
        Ok(Answer::No) => ExitCode::from(1),
        Err(error) => {
            eprintln!("interlock: {}", chain(error.as_ref()));
            ExitCode::from(2)
        }
    }
}

async fn dispatch(command: Command, context: &Context) -> Result<Answer, Failure> {
    match command {
        Command::Demo(args) => demo::run(context, args).await,
        Command::Serve => serve::run(context).await,
        Command::Migrate => migrate::run(context).await,
        Command::Config(command) => config::run(context, command),
        Command::Contract(command) => contract::run(context, command).await,
        Command::Permit(command) => permit::run(context, command).await,
        Command::Job(command) => job::run(context, command).await,
        Command::Attempt(command) => attempt::run(context, command).await,
        Command::Key(command) => key::run(context, command).await,
        Command::Sim(args) => sim::run(context, args).await,
        Command::Provider(command) => provider::run(context, command).await,
    }
}

/// The error and its causes, without saying anything twice.
fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        let words = next.to_string();
        if !text.contains(&words) {
            text.push_str(": ");
            text.push_str(&words);
        }
        cause = next.source();
    }
    text
}
