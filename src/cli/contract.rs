//! `interlock contract`: suites, and the runs that are a fallback's evidence.

mod diff;
mod new;
mod progress;
mod run;

use clap::Subcommand;
use contracts::suite::Suite;
use serde_json::{Value, json};

use super::open::{Opened, during};
use super::{Answer, Context, Failure, output};
use crate::config::Config;
use crate::domain::ids::RunId;
use crate::http::view;

#[derive(Debug, Subcommand)]
pub enum Command {
    /// List the suites, shipped and own.
    List,
    /// Write a new suite from real requests and their answers.
    New(new::Args),
    /// Run a suite against a target and file the verdict.
    Run(run::Args),
    /// Run live, and write the exchanges down for --replay.
    Record(run::RecordArgs),
    /// Show filed runs, one with its checks, or a suite.
    Show {
        /// A run's id or a suite's name.
        what: Option<String>,
    },
    /// Say what changed between two runs of a suite; exit 1 where something newly fails.
    Diff { before: RunId, after: RunId },
}

pub async fn run(context: &Context, command: Command) -> Result<Answer, Failure> {
    match command {
        Command::List => list(context),
        Command::New(args) => new::run(context, args).await,
        Command::Show { what: Some(what) } if what.parse::<RunId>().is_err() => suite(context, &what),
        command => during(context, async |opened| act(context, opened, command).await).await,
    }
}

async fn act(context: &Context, opened: &Opened, command: Command) -> Result<Answer, Failure> {
    match command {
        Command::List => list(context),
        Command::New(args) => new::run(context, args).await,
        Command::Run(args) => run::run(context, opened, args).await,
        Command::Record(args) => run::record(context, opened, args).await,
        Command::Diff { before, after } => diff::run(context, opened, before, after).await,
        Command::Show { what: Some(id) } => show(context, opened, id.parse()?).await,
        Command::Show { what: None } => {
            let runs: Vec<Value> = opened.store.runs(50).await?.iter().map(view::run).collect();
            let members = ["id", "suite", "target", "mode", "verdict", "started_at"];
            let rows = output::rows(&runs, &members);
            output::print(context, &Value::Array(runs), &members, rows)?;
            Ok(Answer::Yes)
        }
    }
}

/// A suite as it is read: an error says where it is wrong.
fn suite(context: &Context, name: &str) -> Result<Answer, Failure> {
    let config = Config::load(context.config.as_deref())?;
    let suite = Suite::find(Some(&config.contracts_dir), name)?;
    let cases: Vec<&str> = suite.cases().iter().map(|case| case.name.as_str()).collect();
    let value = json!({
        "suite": suite.name(),
        "description": suite.description(),
        "folder": suite.folder(),
        "digest": suite.digest(),
        "reads": suite.reads(),
        "cases": cases,
        "repeats": suite.repeats(),
        "pass_rate": suite.pass_rate(),
        "calls": suite.planned_calls(),
        "required": suite.required(),
        "skipped": suite.skipped(),
    });
    let members = [
        "suite",
        "description",
        "folder",
        "digest",
        "reads",
        "cases",
        "repeats",
        "pass_rate",
        "calls",
        "required",
        "skipped",
    ];
    let rows = members.iter().map(|name| vec![(*name).to_owned(), output::cell(&value, name)]).collect();
    output::print(context, &value, &["what", "value"], rows)?;
    Ok(Answer::Yes)
}

fn list(context: &Context) -> Result<Answer, Failure> {
    let config = Config::load(context.config.as_deref())?;
    let mut suites = Vec::new();
    let own = if config.contracts_dir.is_dir() { Suite::list(&config.contracts_dir)? } else { Vec::new() };
    let shipped = Suite::shipped().into_iter().filter(|name| !own.contains(name)).map(|name| (name, "shipped"));
    for (name, from) in own.iter().map(|name| (name.clone(), "own")).chain(shipped) {
        let suite = Suite::find(Some(&config.contracts_dir), &name)?;
        suites
            .push(json!({ "name": name, "from": from, "digest": suite.digest(), "description": suite.description() }));
    }
    let rows = output::rows(&suites, &["name", "from", "description"]);
    output::print(context, &Value::Array(suites), &["suite", "from", "description"], rows)?;
    Ok(Answer::Yes)
}

async fn show(context: &Context, opened: &Opened, id: RunId) -> Result<Answer, Failure> {
    let Some(run) = opened.store.run(id).await? else {
        return output::refuse(context, "not_found", &format!("there is no contract run {id}"));
    };
    let checks: Vec<Value> = opened.store.checks(id).await?.iter().map(view::check).collect();
    let mut value = view::run(&run);
    if let Value::Object(value) = &mut value {
        value.insert("checks".to_owned(), Value::Array(checks.clone()));
    }
    let members = ["kind", "name", "case", "verdict", "detail"];
    output::print(context, &value, &members, output::rows(&checks, &members))?;
    if !context.json {
        println!("run {id} of {} against {}: {}", run.suite, run.target, run.verdict);
    }
    Ok(Answer::Yes)
}
