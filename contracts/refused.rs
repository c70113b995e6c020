//! Test only: walks `suites/refused/<check>/*.json`. Each file changes something of a sound provider's answers, and
//! exactly the named check must fail for it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use providers::canonical::{Finish, Reply, ToolCall};
use providers::failure::{Failure, Proof, Rejection};
use providers::tokens::Counter;
use serde::Deserialize;

use crate::check::{self, Verdict};
use crate::observation::{Count, Observation};
use crate::report::Report;
use crate::runner::{TargetInfo, run_with_counter};
use crate::sound::{Gullible, Honest, Lossy, Sound};
use crate::suite::Suite;
use crate::upstream::{Call, Mode, Shown, Upstream};

/// One refused case.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Refused {
    /// What the provider does wrong, in words.
    why: String,
    /// Where it was seen: an id of the field list, or nothing.
    #[serde(default)]
    #[expect(dead_code, reason = "for readers of the data")]
    seen: Option<String>,
    /// Checks that cannot but fail along with the one that the folder names.
    #[serde(default)]
    also: Vec<String>,
    #[serde(default)]
    counter: LocalCounter,
    change: Vec<Change>,
}

#[derive(Debug, Default, Deserialize, Clone, Copy)]
#[serde(rename_all = "snake_case")]
enum LocalCounter {
    #[default]
    Honest,
    Lossy,
    Gullible,
    None,
}

/// What is changed, and in which answers: absent = all of them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Change {
    probe: Option<String>,
    case: Option<String>,
    repeat: Option<u32>,
    text: Option<String>,
    refusal: Option<String>,
    finish: Option<String>,
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cached_input_tokens: Option<u64>,
    #[serde(default)]
    no_usage: bool,
    #[serde(default)]
    usage_unreadable: bool,
    tool_calls: Option<Vec<CallFile>>,
    count: Option<u64>,
    #[serde(default)]
    no_count: bool,
    failure: Option<String>,
    param: Option<String>,
    /// Choices that come back, where that is not as many as were asked for.
    choices: Option<usize>,
    /// The model that says it answered.
    model: Option<String>,
    /// In the rendered prompt: what is replaced, and by what.
    rendered: Option<(String, String)>,
    /// What the provider's tokenizer makes of each text: what is replaced, and by what.
    coded: Option<(String, String)>,
    /// The provider does not show its tokenizer.
    #[serde(default)]
    shows_nothing: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CallFile {
    id: String,
    name: String,
    arguments: String,
}

struct Changed<'a> {
    sound: Sound<'a>,
    changes: &'a [Change],
}

impl Change {
    fn applies(&self, call: &Call) -> bool {
        self.probe.as_ref().is_none_or(|p| *p == call.key.probe)
            && self.case.as_ref().is_none_or(|c| *c == call.key.case)
            && self.repeat.is_none_or(|r| r == call.key.repeat)
    }

    fn apply(&self, observation: Observation) -> Observation {
        if let Some(word) = &self.failure {
            let proof = match word.as_str() {
                "not_sent" => Proof::NotSent,
                "unknown" => Proof::Unknown,
                "ended_without_result" => Proof::EndedWithoutResult,
                "bad_request" => Proof::Rejected(Rejection::BadRequest),
                "setup" => Proof::Rejected(Rejection::Setup),
                other => panic!("unknown failure {other}"),
            };
            let mut failure = Failure::new(proof, "scripted", "as the refused case says");
            failure.param = self.param.clone();
            return Observation::Failed(failure);
        }
        let mut reply = match observation {
            Observation::Answered(reply) => reply,
            other if self.text.is_none() => return other,
            _ => answer_where_a_failure_was_due(),
        };
        self.change_choice(&mut reply);
        if let (Some(n), Some(last)) = (self.choices, reply.choices.last().cloned()) {
            reply.choices.resize(n, last);
        }
        if self.model.is_some() {
            reply.model = self.model.clone();
        }
        self.change_usage(&mut reply);
        Observation::Answered(reply)
    }

    fn change_choice(&self, reply: &mut Reply) {
        let choice = &mut reply.choices[0];
        if let Some(text) = &self.text {
            choice.text = Some(text.clone());
            choice.tool_calls.clear();
        }
        if let Some(calls) = &self.tool_calls {
            choice.tool_calls = calls
                .iter()
                .map(|c| ToolCall { id: c.id.clone(), name: c.name.clone(), arguments: c.arguments.clone() })
                .collect();
        }
        if let Some(refusal) = &self.refusal {
            choice.refusal = Some(refusal.clone());
        }
        if let Some(word) = &self.finish {
            choice.finish = match word.as_str() {
                "stop" => Finish::Stop,
                "length" => Finish::Length,
                "tool_calls" => Finish::ToolCalls,
                "content_filter" => Finish::ContentFilter,
                other => panic!("unknown finish {other}"),
            };
            choice.native_finish = word.clone();
        }
    }

    fn change_usage(&self, reply: &mut Reply) {
        if self.no_usage || self.usage_unreadable {
            reply.usage = None;
            reply.usage_unreadable = self.usage_unreadable;
        }
        if let Some(usage) = &mut reply.usage {
            usage.input_tokens = self.input_tokens.unwrap_or(usage.input_tokens);
            usage.output_tokens = self.output_tokens.unwrap_or(usage.output_tokens);
            usage.cached_input_tokens = self.cached_input_tokens.unwrap_or(0);
        }
    }
}

fn answer_where_a_failure_was_due() -> Reply {
    let choice = providers::canonical::Choice {
        index: 0,
        text: None,
        refusal: None,
        tool_calls: Vec::new(),
        finish: Finish::Stop,
        native_finish: "stop".to_owned(),
    };
    let usage = providers::canonical::Usage { input_tokens: 9, output_tokens: 9, ..Default::default() };
    Reply { id: None, model: None, choices: vec![choice], usage: Some(usage), usage_unreadable: false }
}

impl Upstream for Changed<'_> {
    fn mode(&self) -> Mode {
        Mode::Replay
    }

    async fn call(&self, call: &Call) -> Observation {
        let mut observation = self.sound.call(call).await;
        for change in self.changes.iter().filter(|c| c.applies(call)) {
            observation = change.apply(observation);
        }
        observation
    }

    async fn count(&self, call: &Call) -> Count {
        let mut count = self.sound.count(call).await;
        for change in self.changes.iter().filter(|c| c.applies(call)) {
            if change.no_count {
                count = Count::NoEndpoint;
            }
            if let Some(n) = change.count {
                count = Count::Tokens(n);
            }
        }
        count
    }

    async fn render(&self, call: &Call) -> Shown<String> {
        if self.changes.iter().any(|c| c.shows_nothing) {
            return Shown::NoEndpoint;
        }
        let rendered = self.sound.render(call).await;
        replaced(rendered, self.changes.iter().find_map(|c| c.rendered.as_ref()))
    }

    async fn code(&self, name: &str, text: &str) -> Shown<String> {
        if self.changes.iter().any(|c| c.shows_nothing) {
            return Shown::NoEndpoint;
        }
        replaced(self.sound.code(name, text).await, self.changes.iter().find_map(|c| c.coded.as_ref()))
    }
}

/// One change of what is shown, where a case has one.
fn replaced(shown: Shown<String>, change: Option<&(String, String)>) -> Shown<String> {
    match (shown, change) {
        (Shown::Seen(text), Some((from, to))) => Shown::Seen(text.replace(from.as_str(), to)),
        (shown, _) => shown,
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("suites/refused")
}

fn target() -> TargetInfo {
    TargetInfo { provider: "scripted".into(), model: "sound".into(), adapter_version: "test/1".into() }
}

async fn judged(suite: &Suite, changes: &[Change], counter: LocalCounter) -> Report {
    let upstream = Changed { sound: Sound { suite, window: 4_000 }, changes };
    let local: Option<&dyn Counter> = match counter {
        LocalCounter::Honest => Some(&Honest),
        LocalCounter::Lossy => Some(&Lossy),
        LocalCounter::Gullible => Some(&Gullible),
        LocalCounter::None => None,
    };
    run_with_counter(suite, &upstream, target(), local, &|_| ()).await
}

fn failed(report: &Report) -> BTreeSet<String> {
    let failed = report.checks().iter().filter(|c| c.verdict == Verdict::Failed);
    failed.map(|c| format!("{}/{}", c.kind, c.name)).collect()
}

fn cases_of(check: &str) -> Vec<(String, Refused)> {
    let mut files: Vec<PathBuf> = match std::fs::read_dir(folder().join(check)) {
        Ok(entries) => entries.map(|e| e.unwrap().path()).collect(),
        Err(_) => Vec::new(),
    };
    files.sort();
    let read = |path: &PathBuf| {
        let text = std::fs::read_to_string(path).unwrap();
        let refused = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        (path.strip_prefix(folder()).unwrap().display().to_string(), refused)
    };
    files.iter().map(read).collect()
}

#[tokio::test]
async fn a_sound_provider_passes_every_check() {
    let everything = Suite::load(&folder().join("everything")).unwrap();
    let report = judged(&everything, &[], LocalCounter::Honest).await;
    assert!(report.passed(), "{report}");
    let skipped: Vec<_> = report.checks().iter().filter(|c| c.verdict == Verdict::Skipped).collect();
    let names: Vec<_> = skipped.iter().map(|c| c.name).collect();
    // The sound one refuses what is too long.
    assert!(names.is_empty(), "the suite that uses everything leaves something out: {skipped:?}");
    // What these ask for can be answered from a script; the simulated model of `interlock sim` answers the others too.
    for name in ["draft-replies", "small-model", "support-triage"] {
        let suite = Suite::embedded(name).unwrap();
        let upstream = Sound { suite: &suite, window: suite.tokenizer.window.unwrap_or(100_000) };
        let report = run_with_counter(&suite, &upstream, target(), Some(&Honest), &|_| ()).await;
        assert!(report.passed(), "{report}");
        report.evidence().unwrap();
    }
}

#[tokio::test]
async fn every_check_refuses_each_of_its_cases_and_no_other_check_does() {
    let suite = Suite::load(&folder().join("everything")).unwrap();
    let mut without = Vec::new();
    let mut wrong = Vec::new();
    for row in check::CHECKS {
        let cases = cases_of(row.name);
        if cases.is_empty() {
            without.push(row.name);
        }
        for (file, refused) in cases {
            let report = judged(&suite, &refused.change, refused.counter).await;
            let mut wanted: BTreeSet<String> = refused.also.iter().cloned().collect();
            wanted.insert(format!("{}/{}", row.kind, row.name));
            let found = failed(&report);
            if found != wanted || report.passed() || report.evidence().is_ok() {
                wrong.push(format!("{file} ({}): wanted {wanted:?}, failed {found:?}\n{report}", refused.why));
            }
        }
    }
    assert!(wrong.is_empty(), "{} cases judged wrongly:\n{}", wrong.len(), wrong.join("\n"));
    assert!(without.is_empty(), "checks without a refused case: {without:?}");
}

#[tokio::test]
async fn a_model_that_does_not_repeat_shows_nothing_about_a_keyword() {
    let suite = Suite::load(&folder().join("everything")).unwrap();
    let deaf = r#"[{ "probe": "keyword_none", "text": "{\"category\":\"billing\",\"order\":1,\"summary\":\"x\"}" }]"#;
    let changes: Vec<Change> = serde_json::from_str(deaf).unwrap();
    let about = |report: &Report| -> BTreeSet<Verdict> {
        report.checks().iter().filter(|c| c.name == check::KEYWORDS.name).map(|c| c.verdict).collect()
    };
    let report = judged(&suite, &changes, LocalCounter::Honest).await;
    assert_eq!(about(&report), [Verdict::Skipped].into(), "{report}");
    assert_eq!(about(&judged(&suite, &[], LocalCounter::Honest).await), [Verdict::Passed].into());
}

#[test]
fn every_folder_of_refused_cases_is_named_after_a_check() {
    for entry in std::fs::read_dir(folder()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(
            name == "everything" || name == "README.md" || check::named(&name).is_some(),
            "no check is called {name}"
        );
    }
}
