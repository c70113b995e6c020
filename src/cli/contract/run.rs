//! `contract run` and `contract record`: what it will come to, the run, and its report.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::builder::RangedU64ValueParser;
use contracts::budget::Budget;
use contracts::estimate::Estimate;
use contracts::report::Report;
use contracts::runner::Options;
use providers::prices::Amount;
use serde_json::json;

use super::progress::Bar;
use crate::cli::open::Opened;
use crate::cli::{Answer, Context, Failure};
use crate::domain::ids::RunId;
use crate::domain::route::Target;
use crate::engine::certify::{self, Planned, RunMode};
use crate::store::StoreError;

#[derive(Debug, clap::Args)]
pub struct Args {
    suite: String,
    /// As provider/model.
    #[arg(long)]
    target: String,
    /// Ask the provider (the default).
    #[arg(long, conflicts_with = "replay")]
    live: bool,
    /// Judge recorded exchanges: no network.
    #[arg(long, conflicts_with_all = ["budget", "parallel", "resume", "estimate"])]
    replay: bool,
    /// Only say what a live run would come to.
    #[arg(long)]
    estimate: bool,
    /// Take up an incomplete run: what it has asked is not asked again.
    #[arg(long, value_name = "RUN_ID")]
    resume: Option<RunId>,
    #[command(flatten)]
    bounds: Bounds,
}

#[derive(Debug, clap::Args)]
pub struct RecordArgs {
    suite: String,
    /// As provider/model.
    #[arg(long)]
    target: String,
    #[command(flatten)]
    bounds: Bounds,
}

#[derive(Debug, clap::Args)]
struct Bounds {
    /// End the run before it breaks one of these: requests=N, tokens=N, money=AMOUNT, with commas between.
    #[arg(long, value_parser = budget)]
    budget: Option<Budget>,
    /// Calls under way at once; fewer while the provider says "later".
    #[arg(long, default_value_t = 1, value_parser = RangedU64ValueParser::<usize>::new().range(1..=64))]
    parallel: usize,
    /// Write the report as JUnit XML, too.
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
}

/// `requests=100,tokens=50000,money=0.5`.
fn budget(text: &str) -> Result<Budget, String> {
    let mut budget = Budget::default();
    for part in text.split(',') {
        let (name, amount) = part.split_once('=').unwrap_or((part, ""));
        let number =
            |amount: &str| amount.trim().parse::<u64>().map_err(|_| format!("{name}: {amount:?} is no whole number"));
        match name.trim() {
            "requests" => budget.requests = Some(number(amount)?),
            "tokens" => budget.tokens = Some(number(amount)?),
            "money" => {
                let money = Amount::parse(amount.trim());
                budget.money = Some(money.ok_or_else(|| format!("money: {amount:?} is no amount, as 0.5"))?);
            }
            other => return Err(format!("{other:?} is none of requests=N, tokens=N, money=AMOUNT")),
        }
    }
    Ok(budget)
}

pub async fn run(context: &Context, opened: &Opened, args: Args) -> Result<Answer, Failure> {
    let mode = if args.replay { RunMode::Replay } else { RunMode::Live };
    let planned = planned(opened, &args.suite, &args.target, mode)?;
    let options = options(&planned, &args.target, &args.bounds)?;
    if mode == RunMode::Replay {
        return judge(context, opened, planned, options, None, &args.bounds).await;
    }
    let estimate = Estimate::new(planned.suite(), model(&args.target), options.price.as_ref());
    let time = time(opened, &args.suite, &args.target, &estimate, options.parallel).await?;
    if args.estimate && context.json {
        println!("{}", serde_json::to_string_pretty(&json!({ "estimate": estimate, "time": time }))?);
    } else if !context.json {
        eprintln!("{}\n{time}", in_words(&estimate, &args.target));
    }
    if args.estimate {
        return Ok(Answer::Yes);
    }
    let root = opened.config.database.data_dir.join("contract-runs");
    let journal = planned.journal(&root, args.resume)?;
    if let Some(earlier) = args.resume {
        // It may have died without a word: then this is its end. Most often it has one.
        let end = certify::not_run(&format!("interrupted, and taken up by run {}", planned.id));
        match opened.store.end_run(earlier, &end).await {
            Ok(()) | Err(StoreError::LostRace) => {}
            Err(error) => return Err(error.into()),
        }
    }
    if !context.json {
        eprintln!("run {}: kept in {} until it has ended", planned.id, journal.folder().display());
    }
    judge(context, opened, planned, options, Some((journal, &args)), &args.bounds).await
}

pub async fn record(context: &Context, opened: &Opened, args: RecordArgs) -> Result<Answer, Failure> {
    let planned = planned(opened, &args.suite, &args.target, RunMode::Record)?;
    let options = options(&planned, &args.target, &args.bounds)?;
    if !context.json {
        let estimate = Estimate::new(planned.suite(), model(&args.target), options.price.as_ref());
        eprintln!("{}", in_words(&estimate, &args.target));
    }
    judge(context, opened, planned, options, None, &args.bounds).await
}

fn planned(opened: &Opened, suite: &str, target: &str, mode: RunMode) -> Result<Planned, Failure> {
    let target =
        Target::parse(target).ok_or_else(|| format!("--target: `{target}` is not of the form provider/model"))?;
    Ok(Planned::new(&opened.config, suite, target, mode)?)
}

fn model(target: &str) -> &str {
    target.split_once('/').map_or(target, |(_, model)| model)
}

fn options(planned: &Planned, target: &str, bounds: &Bounds) -> Result<Options, Failure> {
    let (provider, model) = (planned.provider(), model(target));
    let price = provider.price(model).cloned();
    let budget = bounds.budget.unwrap_or_default();
    if budget.money.is_some() && price.is_none() {
        let name = &provider.name;
        return Err(format!(
            "--budget money=…: the price of {target} is unknown. Set providers.{name}.prices.{model:?}"
        )
        .into());
    }
    Ok(Options { parallel: bounds.parallel, budget, price })
}

fn in_words(estimate: &Estimate, target: &str) -> String {
    let cost = match (estimate.cost, &estimate.currency) {
        (Some(cost), Some(currency)) => format!("at most about {cost:.4} {currency}"),
        _ => "price unknown".to_owned(),
    };
    format!(
        "{target}: up to {} requests, {} tokens in (by {}), up to {} out; {cost}",
        estimate.requests, estimate.input_tokens, estimate.counted_by, estimate.output_tokens
    )
}

/// As long as the last live run of the same kind took, or what a call takes elsewhere.
async fn time(
    opened: &Opened,
    suite: &str,
    target: &str,
    estimate: &Estimate,
    parallel: usize,
) -> Result<String, Failure> {
    let runs = opened.store.runs(200).await?;
    let passed = |run: &&crate::store::contracts::Run| {
        run.suite == suite && run.target.to_string() == target && run.mode == "live" && run.verdict == "passed"
    };
    let last = runs.iter().find(passed).and_then(|run| run.ended_at.map(|ended| ended - run.started_at));
    if let Some(took) = last {
        return Ok(format!("time: the last run that passed took {:.0} s", took.as_seconds_f64().ceil()));
    }
    let rounds = estimate.requests.div_ceil(parallel.max(1) as u64);
    let words = |seconds| humantime::format_duration(Duration::from_secs(seconds)).to_string();
    Ok(format!(
        "time: {} to {}, if a call takes 1 to 8 s; no run has passed here before",
        words(rounds),
        words(8 * rounds)
    ))
}

async fn judge(
    context: &Context,
    opened: &Opened,
    planned: Planned,
    options: Options,
    kept: Option<(contracts::recording::Journal, &Args)>,
    bounds: &Bounds,
) -> Result<Answer, Failure> {
    let id = planned.id;
    planned.begin(&opened.store, None).await?;
    let (journal, args) = kept.map_or((None, None), |(journal, args)| (Some(journal), Some(args)));
    let folder = journal.as_ref().map(contracts::recording::Journal::folder);
    let bar = Bar::on_stderr(!context.json);
    let report = planned.finish_with(&opened.store, &options, journal, &|progress| bar.show(&progress)).await;
    bar.clear();
    let report = report?;
    if let Some(file) = &bounds.junit {
        std::fs::write(file, report.to_junit())
            .map_err(|e| format!("--junit: {} cannot be written: {e}", file.display()))?;
    }
    if context.json {
        println!("{}", serde_json::to_string_pretty(&report.to_json(&id.to_string()))?);
    } else {
        tell(&report, id, args, folder.as_deref());
    }
    Ok(if report.passed() { Answer::Yes } else { Answer::No })
}

fn tell(report: &Report, id: RunId, args: Option<&Args>, folder: Option<&Path>) {
    println!("{}", report.to_table());
    println!("run {id}: {}", report.verdict().as_str());
    if report.passed() {
        println!("enable it with: interlock permit grant --route ROUTE --run {id} --reason TEXT");
    }
    if let (Some(args), Some(folder), Some(_)) = (args, folder, report.incomplete()) {
        println!("what it has seen is kept for a day in {}", folder.display());
        println!("take it up with: interlock contract run {} --target {} --resume {id}", args.suite, args.target);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_read_or_refused_with_what_can_be_said() {
        let read = budget("requests=10,tokens=2000,money=0.5").unwrap();
        assert_eq!((read.requests, read.tokens, read.money), (Some(10), Some(2000), Amount::parse("0.5")));
        for wrong in ["", "10", "requests=", "requests=-1", "tokens=1.5", "money=inf", "money=-1", "calls=3"] {
            assert!(budget(wrong).is_err(), "{wrong:?}");
        }
    }
}
