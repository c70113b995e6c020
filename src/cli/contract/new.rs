//! `contract new`: a suite from what an application really sent and got.

use std::path::PathBuf;

use contracts::check::Verdict;
use contracts::scaffold::{Draft, Pair, Written};
use serde_json::json;

use crate::cli::{Answer, Context, Failure};
use crate::config::Config;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The suite's name, and its folder's.
    name: String,
    /// A chat-completions request as JSON, or a file with request and response. Several show what varies.
    #[arg(long = "request", value_name = "FILE", required = true)]
    requests: Vec<PathBuf>,
    /// Its answer, in the same order. Default: the request's file holds both.
    #[arg(long = "answer", value_name = "FILE")]
    answers: Vec<PathBuf>,
    /// Where suites are. Default: contracts.dir of the settings.
    #[arg(long, value_name = "FOLDER")]
    dir: Option<PathBuf>,
}

pub async fn run(context: &Context, args: Args) -> Result<Answer, Failure> {
    let answers = if args.answers.is_empty() { &args.requests } else { &args.answers };
    if answers.len() != args.requests.len() {
        let (requests, answers) = (args.requests.len(), answers.len());
        return Err(format!("--answer: {requests} requests and {answers} answers. Give one for each, or none").into());
    }
    let dir = match args.dir {
        Some(dir) => dir,
        None => Config::load(context.config.as_deref())?.contracts_dir,
    };
    let pairs: Vec<Pair> = args
        .requests
        .iter()
        .zip(answers)
        .map(|(request, answer)| Pair::read(request, answer))
        .collect::<Result<_, _>>()?;
    let written = Draft::new(&args.name, &pairs)?.write(&dir).await?;
    let failed = written.tried.iter().any(|check| check.verdict == Verdict::Failed);
    if context.json {
        let value = json!({
            "suite": written.suite.name(),
            "folder": written.folder,
            "files": written.files,
            "notes": written.notes,
            "calls": written.suite.planned_calls(),
            "checks": written.tried,
        });
        println!("{}", serde_json::to_string_pretty(&value)?);
    } else {
        tell(&written, failed);
    }
    Ok(if failed { Answer::No } else { Answer::Yes })
}

fn tell(written: &Written, failed: bool) {
    println!("written to {}:", written.folder.display());
    for file in &written.files {
        println!("  {file}");
    }
    for note in &written.notes {
        println!("note: {note}");
    }
    println!("\nthe given answers, judged by it:");
    for check in written.tried.iter().filter(|check| check.verdict != Verdict::Skipped) {
        let why = if check.verdict == Verdict::Failed { check.detail.as_str() } else { "" };
        println!("  {:<7} {:<25} {:<18} {why}", check.verdict.as_str(), check.name, check.case);
    }
    let name = written.suite.name();
    if failed {
        println!("\nthe answers do not keep the suite: mend suite.toml and schema.json, or the consumer's prompt");
    }
    println!("\nnext: read {}, then", written.folder.join("suite.toml").display());
    println!("  interlock contract show {name}");
    println!("  interlock contract run {name} --target PROVIDER/MODEL --estimate");
}
