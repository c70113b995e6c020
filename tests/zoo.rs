//! The zoo: every misbehaviour is caught by the kind of check that ought to catch it, and a sound provider, however
//! noisy, is never refused. Real sockets, real runs of the shipped suites; no database.
//!
//! `INTERLOCK_ZOO_SEEDS=200 cargo test --test zoo -- sound` runs as many seeds as it says instead of 20;
//! `interlock sim --kill-table` prints what the first test judges.

use std::collections::BTreeMap;

use contracts::{Mode, RecordingUpstream, ReplayUpstream, Report, Suite, Verdict};
use futures_util::StreamExt;
use interlock::local::kill_table::{self, Line, NOT_MEASURED, Outcome, is_measured};
use interlock::local::sim::{Expect, Wire, catalogue};
use providers::compatible;

/// Rows that the shipped suites cannot catch, each with its reason in the catalogue.
const UNSEEN: [&str; 4] = ["one-in-fifty-is-prose", "free-text-translated", "drops-temperature", "usage-total-differs"];

const WIRES: [Wire; 3] = [Wire::OpenAiChat, Wire::AnthropicMessages, Wire::Gemini];

/// Runs at a time: calls wait for sockets and tasks more than they compute.
const AT_ONCE: usize = 6;

fn shown(line: &Line) -> String {
    let failed: Vec<_> = line.suites.iter().filter(|(_, failed)| !failed.is_empty()).collect();
    format!("{} ({}): {}: {failed:?}", line.row.name, line.wire.as_str(), line.outcome().as_str())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_misbehaviour_is_caught_by_the_kind_that_ought_to_catch_it() {
    let table = kill_table::measure(catalogue(), AT_ONCE, &|_| ()).await.expect("a kill table");
    let wrong: Vec<String> = table.lines.iter().filter(|line| !line.outcome().as_expected()).map(shown).collect();
    assert!(
        wrong.is_empty(),
        "{} of {} lines are not as src/local/sim/zoo says:\n  {}\n{}",
        wrong.len(),
        table.lines.len(),
        wrong.join("\n  "),
        table.summary()
    );
    let caught = table.lines.iter().filter(|line| line.outcome() == Outcome::Caught).count();
    assert!(caught >= 200, "only {caught} lines are caught");
    assert!(table.is_as_expected());
}

#[test]
fn what_cannot_be_caught_is_named_and_few() {
    let unseen: Vec<&str> =
        catalogue().filter(|row| matches!(row.expect, Expect::Unseen(..))).map(|row| row.name).collect();
    let (mut unseen, mut wanted) = (unseen, UNSEEN.to_vec());
    unseen.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(unseen, wanted);
    assert_eq!(NOT_MEASURED.len(), 2);
}

/// The checks of every run that did not pass, and of which seed.
async fn refusals(seeds: u64) -> BTreeMap<String, Vec<String>> {
    let suites: Vec<Suite> = kill_table::suites().expect("suites");
    let all = suites.iter().flat_map(|suite| WIRES.map(|wire| (suite, wire)));
    let pairs: Vec<_> = all.filter(|(suite, wire)| is_measured(suite.name(), *wire)).collect();
    let runs = (0..seeds).flat_map(|seed| pairs.iter().map(move |(suite, wire)| (seed, *suite, *wire)));
    let runs: Vec<_> = runs
        .map(|(seed, suite, wire)| async move {
            let report = kill_table::run(suite, wire, None, Some(seed)).await.expect("a run");
            let failed = report.checks().iter().filter(|check| check.verdict == Verdict::Failed);
            let mut why: Vec<String> =
                failed.map(|c| format!("{}/{} {}: {}", c.kind, c.name, c.case, c.detail)).collect();
            why.extend(report.evidence().err().filter(|_| why.is_empty()).map(|missing| missing.to_string()));
            (format!("{} {} seed {seed}", suite.name(), wire.as_str()), why)
        })
        .collect();
    let found: Vec<_> = futures_util::stream::iter(runs).buffer_unordered(AT_ONCE).collect().await;
    assert_eq!(found.len() as u64, seeds * pairs.len() as u64);
    found.into_iter().filter(|(_, why)| !why.is_empty()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn sound_under_sampling_noise_is_never_refused() {
    let seeds = seeds();
    let refused = refusals(seeds).await;
    assert!(refused.is_empty(), "{} false refusals in {seeds} seeds:\n{refused:#?}", refused.len());
}

#[expect(clippy::disallowed_methods, reason = "how many seeds is asked of whoever runs the test, not of a setting")]
fn seeds() -> u64 {
    let told = std::env::var("INTERLOCK_ZOO_SEEDS").ok();
    told.map_or(20, |seeds| seeds.parse().expect("INTERLOCK_ZOO_SEEDS is a number"))
}

#[tokio::test(flavor = "multi_thread")]
async fn sound_without_noise_passes_every_suite() {
    for suite in kill_table::suites().expect("suites") {
        for wire in WIRES.into_iter().filter(|wire| is_measured(suite.name(), *wire)) {
            let report = kill_table::run(&suite, wire, None, None).await.expect("a run");
            assert!(report.evidence().is_ok(), "{} over {}: {report}", suite.name(), wire.as_str());
        }
    }
}

/// What was recorded of each suite is judged as it was live, without a network. Prints how long the replays take.
#[tokio::test(flavor = "multi_thread")]
async fn a_replay_of_every_suite_judges_as_the_live_run_did() {
    let shipped = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("contracts/suites");
    let (root, mut replayed, mut took) = (tempfile::tempdir().expect("a folder"), 0, std::time::Duration::ZERO);
    for suite in kill_table::suites().expect("suites") {
        copied(&shipped.join(suite.name()), &root.path().join(suite.name()));
        let suite = Suite::load(&root.path().join(suite.name())).expect("the copy is a suite");
        for wire in WIRES.into_iter().filter(|wire| is_measured(suite.name(), *wire)) {
            let put_up = kill_table::put_up(&suite, wire, None, None).await.expect("a provider");
            let kill_table::PutUp { upstream, target, sim } = put_up;
            let (provider, model) = (target.provider.as_str(), target.model.as_str());
            let recorder = RecordingUpstream::new(upstream, &suite, provider).expect("a recorder");
            let live = contracts::run(&suite, &recorder, target.clone(), &|_| ()).await;
            drop(sim);
            let adapter = compatible::adapter_named(wire.as_str()).expect("an adapter");
            let recorded = ReplayUpstream::new(&suite, adapter, provider, model);
            let begun = std::time::Instant::now();
            let replay = contracts::run(&suite, &recorded, target.clone(), &|_| ()).await;
            took += begun.elapsed();
            replayed += 1;
            assert!(live.evidence().is_ok() && replay.evidence().is_ok(), "{live}\n{replay}");
            assert_eq!((replay.mode(), verdicts(&replay)), (Mode::Replay, verdicts(&live)));
        }
    }
    eprintln!("{replayed} replays of all suites took {took:?}");
}

fn verdicts(report: &Report) -> Vec<(&'static str, &str, Verdict)> {
    report.checks().iter().map(|check| (check.name, check.case.as_str(), check.verdict)).collect()
}

/// Copies a folder and what is in it.
fn copied(from: &std::path::Path, to: &std::path::Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        let (path, copy) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            copied(&path, &copy);
        } else {
            std::fs::copy(path, copy).expect("copied");
        }
    }
}
