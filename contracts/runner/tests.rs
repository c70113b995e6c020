//! How a run behaves when a provider does not.

use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use providers::failure::{Failure, Proof, Rejection};

use super::caller::TRIES;
use super::*;
use crate::sound::{Honest, Sound};
use crate::upstream::Mode;
use crate::{Kind, Verdict};

/// A live provider that says "later" once for each call, then answers soundly.
struct Busy<'a> {
    sound: Sound<'a>,
    seen: Mutex<Vec<String>>,
}

impl Upstream for Busy<'_> {
    fn mode(&self) -> Mode {
        Mode::Live
    }

    async fn call(&self, call: &Call) -> Observation {
        let name = call.key.to_string();
        let first = {
            let mut seen = self.seen.lock().unwrap();
            let first = !seen.contains(&name);
            seen.push(name);
            first
        };
        if first {
            let mut later = Failure::new(Proof::Rejected(Rejection::RateLimited), "rate_limited", "later");
            later.retry_after = Some(Duration::ZERO);
            return Observation::Failed(later);
        }
        self.sound.call(call).await
    }

    async fn count(&self, call: &Call) -> Count {
        self.sound.count(call).await
    }
}

fn target() -> TargetInfo {
    TargetInfo { provider: "p".into(), model: "m".into(), adapter_version: "test/1".into() }
}

fn everything() -> Suite {
    Suite::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("suites/refused/everything")).unwrap()
}

#[tokio::test]
async fn a_call_that_is_told_to_come_later_is_made_again() {
    let suite = everything();
    let busy = Busy { sound: Sound { suite: &suite, window: 4_000 }, seen: Mutex::default() };
    let calls = Mutex::new(0);
    let progress = |p: Progress<'_>| {
        assert!(p.done < p.planned);
        *calls.lock().unwrap() += 1;
    };
    let report = run_with_counter(&suite, &busy, target(), Some(&Honest), &progress).await;
    assert!(report.passed(), "{report}");
    assert_eq!(busy.seen.lock().unwrap().len(), 2 * *calls.lock().unwrap());
    assert_eq!(report.mode(), Mode::Live);
}

#[tokio::test]
async fn a_provider_that_keeps_saying_later_ends_the_run_at_once() {
    struct Full;
    impl Upstream for Full {
        fn mode(&self) -> Mode {
            Mode::Live
        }
        async fn call(&self, _call: &Call) -> Observation {
            let mut later = Failure::new(Proof::Rejected(Rejection::Overloaded), "overloaded", "later");
            later.retry_after = Some(Duration::ZERO);
            Observation::Failed(later)
        }
        async fn count(&self, _call: &Call) -> Count {
            Count::NoEndpoint
        }
    }
    let report = run(&everything(), &Full, target(), &|_| ()).await;
    assert_eq!((report.calls(), report.checks().len()), (u64::from(TRIES), 1));
    assert!(report.to_table().contains("Run it again when the provider has room"), "{report}");
}

#[test]
fn a_run_can_be_a_task_of_its_own() {
    fn can_be_sent<T: Send>(_: &T) {}
    let suite = everything();
    let sound = Sound { suite: &suite, window: 4_000 };
    can_be_sent(&run(&suite, &sound, target(), &|_| ()));
    let replay = crate::ReplayUpstream::new(&suite, providers::compatible::adapter_named("openai").unwrap(), "p", "m");
    can_be_sent(&run(&suite, &replay, target(), &|_| ()));
}

/// Sound, but one file of the recordings is missing or old.
struct Patchy<'a> {
    sound: Sound<'a>,
    probe: &'static str,
}

impl Upstream for Patchy<'_> {
    fn mode(&self) -> Mode {
        Mode::Replay
    }

    async fn call(&self, call: &Call) -> Observation {
        if call.key.probe == self.probe {
            return Observation::Stale { file: "x.json".into(), difference: "in the request /n changed".into() };
        }
        self.sound.call(call).await
    }

    async fn count(&self, call: &Call) -> Count {
        self.sound.count(call).await
    }
}

#[tokio::test]
async fn a_stale_recording_of_any_probe_fails_the_run() {
    let suite = everything();
    let plan = probe::plan(&suite, "m");
    let probes: std::collections::BTreeSet<&str> = plan.iter().map(|p| p.call.key.probe).collect();
    for probe in probes {
        let upstream = Patchy { sound: Sound { suite: &suite, window: 4_000 }, probe };
        let report = run_with_counter(&suite, &upstream, target(), Some(&Honest), &|_| ()).await;
        assert!(report.evidence().is_err(), "{probe}: {report}");
        assert!(report.to_table().contains("stale recording x.json"), "{probe}: {report}");
    }
}

/// Wrong in the first repeat in one way and in the second in another.
struct Unsteady<'a> {
    sound: Sound<'a>,
    faults: [Option<&'static str>; 2],
}

impl Upstream for Unsteady<'_> {
    fn mode(&self) -> Mode {
        Mode::Replay
    }

    async fn call(&self, call: &Call) -> Observation {
        let mut observation = self.sound.call(call).await;
        let fault = self.faults.get(call.key.repeat as usize - 1).copied().flatten();
        if let (Observation::Answered(reply), Some(text), probe::OUTPUT) = (&mut observation, fault, call.key.probe) {
            reply.choices[0].text = Some(text.to_owned());
        }
        observation
    }

    async fn count(&self, call: &Call) -> Count {
        self.sound.count(call).await
    }
}

#[tokio::test]
async fn a_pass_rate_counts_whole_answers_not_single_checks() {
    let mut suite = everything();
    suite.pass_rate = 0.5;
    let judged = async |faults| {
        let upstream = Unsteady { sound: Sound { suite: &suite, window: 4_000 }, faults };
        run_with_counter(&suite, &upstream, target(), Some(&Honest), &|_| ()).await
    };
    let one = judged([Some("not JSON"), None]).await;
    assert!(one.passed(), "{one}");
    // Each check alone fails in half of the repeats; no answer is good.
    let both = judged([Some("not JSON"), Some("{}")]).await;
    assert!(!both.passed(), "{both}");
    assert!(both.checks().iter().any(|c| c.name == "valid" && c.verdict == Verdict::Failed), "{both}");
}

#[tokio::test]
async fn a_consumer_that_reads_tool_arguments_is_served_too() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("tooled");
    std::fs::create_dir(&dir).unwrap();
    let schema = r#"{"type":"object","properties":{"order":{"type":"integer"}},"required":["order"]}"#;
    std::fs::write(dir.join("schema.json"), schema).unwrap();
    let text = "name = \"tooled\"\ndescription = \"x\"\noutput = \"tool\"\n[prompt]\nuser = \"Order 1?\"\n\
        [[parameters.tools]]\nname = \"look_up\"\ndescription = \"Finds\"\nparameters = \"schema.json\"\n\
        [[cases]]\nname = \"one\"\nassert = [{ at = \"/order\", equals = 1 }]\n";
    std::fs::write(dir.join("suite.toml"), text).unwrap();
    let suite = Suite::load(&dir).unwrap();
    let sound = Sound { suite: &suite, window: 100_000 };
    let report = run_with_counter(&suite, &sound, target(), Some(&Honest), &|_| ()).await;
    assert!(report.passed(), "{report}");
}

#[test]
fn tiktoken_keeps_every_kind_of_text_and_takes_no_literal_for_a_control_token() {
    let encoding = providers::tokens::encoding_for("gpt-4.1").unwrap();
    let suite = Suite::embedded("support-triage").unwrap();
    let results =
        tokenizer::judge(&suite, "gpt-4.1", &Transcript::default(), &tokenizer::Inspected::nothing(), Some(&encoding));
    for name in ["unknown_tokenizer", "text_fidelity"] {
        assert!(results.iter().any(|r| r.name == name && r.verdict == Verdict::Passed), "{results:?}");
    }
    assert!(results.iter().all(|r| r.kind == Kind::Tokenizer));
    assert!(providers::tokens::encoding_for("claude-sonnet-4-5").is_none());
}

#[tokio::test]
async fn the_recordings_of_the_real_server_replay_as_they_were_judged_live() {
    let suite = Suite::embedded("small-model").unwrap();
    let adapter = providers::compatible::adapter_named("llama-cpp").unwrap();
    let target = TargetInfo {
        provider: "llama-server".into(),
        model: "smollm2-135m".into(),
        adapter_version: adapter.version(),
    };
    let replay = crate::ReplayUpstream::new(&suite, adapter, &target.provider, target.model.clone());
    let report = run(&suite, &replay, target, &|_| ()).await;
    assert!(report.passed(), "{report}");
    assert_eq!(report.evidence().unwrap().mode(), Mode::Replay);
}

/// Sound, counts how many calls are under way, and says "later" to those whose turn is in `later`.
struct Counted<'a> {
    sound: Sound<'a>,
    under_way: Mutex<(usize, usize)>,
    made: Mutex<Vec<tokio::time::Instant>>,
    later: &'a [usize],
}

impl<'a> Counted<'a> {
    fn new(suite: &'a Suite, later: &'a [usize]) -> Self {
        let sound = Sound { suite, window: 4_000 };
        Counted { sound, under_way: Mutex::default(), made: Mutex::default(), later }
    }
}

impl Upstream for Counted<'_> {
    fn mode(&self) -> Mode {
        Mode::Live
    }

    async fn call(&self, call: &Call) -> Observation {
        let turn = {
            let mut made = self.made.lock().unwrap();
            made.push(tokio::time::Instant::now());
            made.len()
        };
        {
            let mut under_way = self.under_way.lock().unwrap();
            under_way.0 += 1;
            under_way.1 = under_way.1.max(under_way.0);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        self.under_way.lock().unwrap().0 -= 1;
        if self.later.contains(&turn) {
            let mut later = Failure::new(Proof::Rejected(Rejection::RateLimited), "rate_limited", "later");
            later.retry_after = Some(Duration::from_secs(7));
            return Observation::Failed(later);
        }
        self.sound.call(call).await
    }

    async fn count(&self, call: &Call) -> Count {
        self.sound.count(call).await
    }
}

/// Without the consumer's program: a paused clock would run past its limit at once.
fn without_program() -> Suite {
    let mut suite = everything();
    suite.program = None;
    suite.required.retain(|name| *name != "program");
    suite
}

async fn paced(upstream: &Counted<'_>, options: Options) -> Report {
    run_whole(upstream.sound.suite, upstream, target(), Some(&Honest), &options, &|_| ()).await
}

#[tokio::test(start_paused = true)]
async fn calls_in_parallel_come_to_the_same_verdict_and_the_first_is_made_alone() {
    let suite = without_program();
    let (one, four) = (Counted::new(&suite, &[]), Counted::new(&suite, &[]));
    let alone = paced(&one, Options::default()).await;
    let together = paced(&four, Options { parallel: 4, ..Options::default() }).await;
    assert!(together.passed(), "{together}");
    assert_eq!(alone.checks(), together.checks());
    assert_eq!((one.under_way.lock().unwrap().1, four.under_way.lock().unwrap().1), (1, 4));
    let made = four.made.lock().unwrap();
    assert_eq!(made[1] - made[0], Duration::from_millis(100), "the second waits for the first");
    assert_eq!(made[4] - made[1], Duration::ZERO, "then four at once");
}

#[tokio::test(start_paused = true)]
async fn nobody_calls_before_the_provider_wants_to_be_called() {
    let suite = without_program();
    let upstream = Counted::new(&suite, &[5]);
    let report = paced(&upstream, Options { parallel: 4, ..Options::default() }).await;
    assert!(report.passed(), "{report}");
    let made = upstream.made.lock().unwrap();
    let told = made[4] + Duration::from_millis(100);
    let early = made.iter().filter(|at| **at > told && **at < told + Duration::from_secs(7)).count();
    assert_eq!(early, 0, "every call waits, not only the one that was told");
}

#[tokio::test]
async fn a_budget_ends_the_run_cleanly_and_such_a_run_has_not_passed() {
    let suite = without_program();
    let planned = suite.planned_calls() as u64;
    for parallel in [1, 3] {
        let upstream = Counted::new(&suite, &[]);
        let budget = Budget { requests: Some(5), ..Budget::default() };
        let report = paced(&upstream, Options { parallel, budget, price: None }).await;
        assert!(report.evidence().is_err());
        assert_eq!(report.spent().requests, 5, "not one more");
        let why = report.incomplete().unwrap();
        assert!(why.starts_with("budget: requests: 5 of 5 are made"), "{why}");
        assert!(report.to_table().contains("FAILED, INCOMPLETE"), "{report}");
    }
    let enough = Budget { requests: Some(planned), tokens: Some(1_000_000), money: None };
    let upstream = Counted::new(&suite, &[]);
    let report = paced(&upstream, Options { budget: enough, ..Options::default() }).await;
    assert!(report.passed() && report.spent().requests == planned, "the plan fits its own estimate: {report}");
    assert!(report.spent().input_tokens > 0 && report.spent().unbilled == 7, "{}", report.spent());
}
