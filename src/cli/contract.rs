//! `interlock contract`: suites, and the runs that are a fallback's evidence.

use clap::Subcommand;
use contracts::suite::Suite;
use serde_json::{Value, json};

use super::open::{Opened, during};
use super::{Answer, Context, Failure, output};
use crate::config::Config;
use crate::domain::ids::RunId;
use crate::domain::route::Target;
use crate::engine::certify::{Planned, RunMode};
use crate::http::view;

#[derive(Debug, Subcommand)]
pub enum Command {
    /// List the suites, shipped and own.
    List,
    /// Run a suite against a target and file the verdict.
    Run {
        suite: String,
        /// As provider/model.
        #[arg(long)]
        target: String,
        /// Ask the provider (the default).
        #[arg(long, conflicts_with = "replay")]
        live: bool,
        /// Judge recorded exchanges: no network.
        #[arg(long)]
        replay: bool,
    },
    /// Run live, and write the exchanges down for --replay.
    Record {
        suite: String,
        #[arg(long)]
        target: String,
    },
    /// Show filed runs, or one with its checks.
    Show { run: Option<RunId> },
}

pub async fn run(context: &Context, command: Command) -> Result<Answer, Failure> {
    if let Command::List = command {
        return list(context);
    }
    during(context, async |opened| act(context, opened, command).await).await
}

async fn act(context: &Context, opened: &Opened, command: Command) -> Result<Answer, Failure> {
    match command {
        Command::List => list(context),
        Command::Run { suite, target, replay, live: _ } => {
            let mode = if replay { RunMode::Replay } else { RunMode::Live };
            judge(context, opened, &suite, &target, mode).await
        }
        Command::Record { suite, target } => judge(context, opened, &suite, &target, RunMode::Record).await,
        Command::Show { run: None } => {
            let runs: Vec<Value> = opened.store.runs(50).await?.iter().map(view::run).collect();
            let members = ["id", "suite", "target", "mode", "verdict", "started_at"];
            let rows = output::rows(&runs, &members);
            output::print(context, &Value::Array(runs), &members, rows)?;
            Ok(Answer::Yes)
        }
        Command::Show { run: Some(id) } => show(context, opened, id).await,
    }
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

async fn judge(
    context: &Context,
    opened: &Opened,
    suite: &str,
    target: &str,
    mode: RunMode,
) -> Result<Answer, Failure> {
    let target =
        Target::parse(target).ok_or_else(|| format!("--target: `{target}` is not of the form provider/model"))?;
    let planned = Planned::new(&opened.config, suite, target, mode)?;
    let id = planned.id;
    planned.begin(&opened.store, None).await?;
    let quiet = context.json;
    let report = planned
        .finish(&opened.store, &|progress| {
            if !quiet {
                eprintln!("[{}/{}] {}", progress.done + 1, progress.planned, progress.call);
            }
        })
        .await?;
    if context.json {
        println!("{}", serde_json::to_string_pretty(&report.to_json(&id.to_string()))?);
    } else {
        println!("{}", report.to_table());
        println!("run {id}: {}", report.verdict().as_str());
        if report.passed() {
            println!("enable it with: interlock permit grant --route ROUTE --run {id} --reason TEXT");
        }
    }
    Ok(if report.passed() { Answer::Yes } else { Answer::No })
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
