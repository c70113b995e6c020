//! The history test: real gateway processes on a real Postgres, scripted providers, rude clients and a fault controller;
//! then a checker that reads what was seen, what the database holds and what the providers got.
//!
//! `cargo test --test history` runs one short seed; `-- --seeds 30 --seconds 30` is a long run. See README.md.

mod adversary;
mod brawl;
mod caller_moves;
mod callers;
mod check;
mod counts;
mod dump;
mod faults;
mod fleet;
mod history;
mod http;
mod operator;
mod plan;
mod postgres;
mod provider;
mod rng;
mod run;
mod settings;
mod wire;

use std::process::ExitCode;
use std::time::Instant;

use plan::{Options, Plan};

fn main() -> ExitCode {
    let options = match Options::read(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(why) => {
            eprintln!("{why}");
            return ExitCode::from(2);
        }
    };
    if options.list {
        if !options.list_nothing {
            println!("history: test");
        }
        return ExitCode::SUCCESS;
    }
    if options.filtered_out {
        println!(
            "\nrunning 0 tests\n\ntest result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 1 filtered out; finished in 0.00s\n"
        );
        return ExitCode::SUCCESS;
    }
    let begun = Instant::now();
    println!("\nrunning {} test{}", options.seeds, if options.seeds == 1 { "" } else { "s" });
    let (mut passed, mut failed) = (0, 0);
    let mut total = counts::Counts::default();
    for seed in options.seeds() {
        let verdict = run_one(&options.plan(seed));
        total.add(&verdict.counts);
        let word = if verdict.faults.is_empty() { "ok" } else { "FAILED" };
        println!("test history::seed_{seed} ... {word} ({:.1} s, {})", verdict.seconds, verdict.counts.line());
        for fault in &verdict.faults {
            println!("    {fault}");
        }
        *(if verdict.faults.is_empty() { &mut passed } else { &mut failed }) += 1;
    }
    println!("\n{}", total.table());
    let word = if failed == 0 { "ok" } else { "FAILED" };
    let seconds = begun.elapsed().as_secs_f64();
    println!(
        "test result: {word}. {passed} passed; {failed} failed; 0 ignored; 0 measured; 0 filtered out; finished in {seconds:.2}s\n"
    );
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// One seed in a runtime of its own, so that nothing of it is left for the next.
fn run_one(plan: &Plan) -> run::Verdict {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    runtime.block_on(run::run(plan))
}
