//! How a run behaves when a provider does not.

use std::path::Path;
use std::sync::Mutex;

use providers::failure::Proof;

use super::*;
use crate::sound::{Honest, Sound};
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
    let results = tokenizer::judge(&suite, &Transcript::default(), Some(&encoding));
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
