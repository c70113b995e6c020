//! Recording and replaying over a scripted wire: no network in either.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::runner::{TargetInfo, run};
use crate::upstream::{Call, CallKey, Upstream};
use crate::{CheckResult, Verdict};

const KEY: &str = "sk-very-secret-4711";

/// Answers every request the same way, and knows how often it was asked.
#[derive(Debug)]
struct Scripted {
    body: String,
    asked: Arc<AtomicUsize>,
}

impl Wire for Scripted {
    const MODE: Mode = Mode::Live;

    async fn exchange(&self, _name: &str, _request: UpstreamRequest) -> Exchanged {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert("x-request-id", HeaderValue::from_static("req_1"));
        Exchanged::Answer(Head { status: StatusCode::OK, headers }, Bytes::from(self.body.clone()))
    }
}

fn adapter() -> Arc<dyn Adapter> {
    providers::compatible::adapter_named("openai").unwrap()
}

fn suite_in(root: &Path, user: &str) -> Suite {
    let dir = root.join("demo");
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("schema.json"), r#"{"type":"object"}"#).unwrap();
    let text = format!(
        "name = \"demo\"\ndescription = \"x\"\n[prompt]\nuser = {user:?}\n[[cases]]\nname = \"one\"\n[tokenizer]\nwindow = 100000\n"
    );
    std::fs::write(dir.join("suite.toml"), text).unwrap();
    Suite::load(&dir).unwrap()
}

fn answer(content: &str) -> String {
    format!(
        r#"{{"id":"c1","object":"chat.completion","created":12345678901234567890123,"model":"m","choices":[{{"index":0,"message":{{"role":"assistant","content":{content:?}}},"finish_reason":"stop"}}],"usage":{{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12}}}}"#
    )
}

fn call(user: &str) -> Call {
    let body = format!(r#"{{"model":"m","messages":[{{"role":"user","content":{user:?}}}],"max_tokens":5}}"#);
    let Json::Object(body) = Json::parse(body.as_bytes()).unwrap() else { panic!("an object") };
    Call { key: CallKey { case: "one".into(), probe: "output", repeat: 1 }, body, model: None }
}

fn recorder(suite: &Suite, body: String) -> (ProviderUpstream<Recorder<Scripted>>, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let scripted = ProviderUpstream {
        adapter: adapter(),
        model: "vendor/m:1".to_owned(),
        api_key: Some(Secret::new(KEY.to_owned())),
        wire: Scripted { body, asked: asked.clone() },
    };
    (scripted.recording(suite, "alpha").unwrap(), asked)
}

#[tokio::test]
async fn what_was_recorded_is_replayed_with_its_exact_digits_and_without_a_network() {
    let root = tempfile::tempdir().unwrap();
    let suite = suite_in(root.path(), "hello");
    let (recorder, asked) = recorder(&suite, answer("hi"));
    let live = recorder.call(&call("hello")).await;
    assert_eq!(live.text().unwrap(), "hi");
    let file = root.path().join("demo/recordings/alpha-vendor_m_1/one.output.1.json");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains("12345678901234567890123"), "{text}");
    let replay = ReplayUpstream::new(&suite, adapter(), "alpha", "vendor/m:1");
    assert_eq!(replay.mode(), Mode::Replay);
    assert_eq!(replay.call(&call("hello")).await.reply().unwrap(), live.reply().unwrap());
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    // The same exchange is written the same way.
    let again = recorder.call(&call("hello")).await;
    assert!(again.reply().is_ok());
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
}

#[tokio::test]
async fn a_recording_holds_no_key_and_of_the_headers_only_the_content_type() {
    let root = tempfile::tempdir().unwrap();
    let suite = suite_in(root.path(), "hello");
    let (recorder, _) = recorder(&suite, answer(&format!("your key is {KEY}")));
    recorder.call(&call("hello")).await;
    let file = root.path().join("demo/recordings/alpha-vendor_m_1/one.output.1.json");
    let text = std::fs::read_to_string(file).unwrap();
    assert!(!text.contains(KEY) && !text.to_lowercase().contains("authorization"), "{text}");
    assert!(text.contains("[secret]") && text.contains("application/json") && !text.contains("req_1"), "{text}");
}

#[tokio::test]
async fn a_changed_request_makes_the_recording_stale() {
    let root = tempfile::tempdir().unwrap();
    let suite = suite_in(root.path(), "hello");
    let (recorder, _) = recorder(&suite, answer("hi"));
    recorder.call(&call("hello")).await;
    let replay = ReplayUpstream::new(&suite, adapter(), "alpha", "vendor/m:1");
    let seen = replay.call(&call("good morning")).await;
    assert!(matches!(&seen, Observation::Stale { .. }), "{seen:?}");
    let words = seen.trouble();
    assert!(words.contains("/messages/0/content changed") && words.contains("contract record"), "{words}");
    assert!(!words.contains("good morning"), "{words}");
}

#[tokio::test]
async fn a_replay_without_recordings_fails_at_once_with_the_cure() {
    let root = tempfile::tempdir().unwrap();
    let suite = suite_in(root.path(), "hello");
    let replay = ReplayUpstream::new(&suite, adapter(), "alpha", "m");
    let target = TargetInfo { provider: "alpha".into(), model: "m".into(), adapter_version: adapter().version() };
    let report = run(&suite, &replay, target, &|_| ()).await;
    let failed: Vec<&CheckResult> = report.checks().iter().filter(|c| c.verdict == Verdict::Failed).collect();
    assert_eq!(failed.len(), 1);
    assert!(failed[0].name == "reachable" && failed[0].detail.contains("not recorded"), "{report}");
    assert!(report.evidence().is_err());
}

#[tokio::test]
async fn a_transport_failure_is_replayed_with_what_it_proved() {
    let root = tempfile::tempdir().unwrap();
    let suite = suite_in(root.path(), "hello");
    let folder = root.path().join("demo/recordings/alpha-m");
    std::fs::create_dir_all(&folder).unwrap();
    let recorder = Recorder { inner: (), folder, secret: None };
    let failure = Failure::new(Proof::Unknown, "timeout", "no whole answer within 5 s");
    let request = providers::openai::request::parse(call("hello").body).unwrap();
    let context = providers::adapter::CallContext { model: "m", attempt_id: "contract-one.output.1", api_key: None };
    let wire = adapter().to_upstream(&request, &context).unwrap();
    let document = recorder.document(&wire.path, &wire.body, &Exchanged::Failed(failure)).unwrap();
    std::fs::write(recorder.folder.join("one.output.1.json"), document).unwrap();
    let replay = ReplayUpstream::new(&suite, adapter(), "alpha", "m");
    let Observation::Failed(failure) = replay.call(&call("hello")).await else { panic!("a failure") };
    assert_eq!(failure.proof, Proof::Unknown);
    assert!(failure.message.contains("timeout"), "{}", failure.message);
}

#[test]
fn a_shipped_suite_cannot_be_recorded_into() {
    let suite = Suite::embedded("support-triage").unwrap();
    let scripted = ProviderUpstream {
        adapter: adapter(),
        model: "m".to_owned(),
        api_key: None,
        wire: Scripted { body: String::new(), asked: Arc::new(AtomicUsize::new(0)) },
    };
    let error = scripted.recording(&suite, "alpha").unwrap_err();
    assert!(error.to_string().contains("Copy it under contracts.dir"), "{error}");
}

#[tokio::test]
async fn a_run_that_is_taken_up_again_asks_only_for_what_it_has_not_seen() {
    let root = tempfile::tempdir().unwrap();
    let facts = [("suite_digest", "d1"), ("model", "m")];
    let journal = Journal::begin(root.path(), "run-1", &facts).unwrap();
    let asked = Arc::new(AtomicUsize::new(0));
    let upstream = |journal: &Journal, body: &str| {
        let wire = Scripted { body: body.to_owned(), asked: asked.clone() };
        let api_key = Some(Secret::new(KEY.to_owned()));
        ProviderUpstream { adapter: adapter(), model: "m".to_owned(), api_key, wire }.kept_in(journal)
    };
    let first = upstream(&journal, &answer(&format!("first {KEY}")));
    assert!(!first.keeps(&call("hello")));
    first.call(&call("hello")).await;
    assert!(first.keeps(&call("hello")), "and within the same run too");
    let text = std::fs::read_to_string(journal.folder().join("one.output.1.json")).unwrap();
    assert!(!text.contains(KEY), "{text}");

    let taken = Journal::take_up(root.path(), "run-1", "run-2", &facts).unwrap();
    let second = upstream(&taken, &answer("second"));
    assert_eq!(second.call(&call("hello")).await.text().unwrap(), "first [secret]");
    assert_eq!(asked.load(Ordering::SeqCst), 1, "what is kept is not asked again");
    assert_eq!(second.call(&call("other words")).await.text().unwrap(), "second", "what is asked otherwise is");
    assert!(
        Journal::take_up(root.path(), "run-1", "run-3", &facts).unwrap_err().to_string().contains("taken up before")
    );
    taken.remove();
    assert!(std::fs::read_dir(root.path()).unwrap().next().is_none());
}

#[tokio::test]
async fn what_may_pass_by_itself_is_asked_again() {
    let root = tempfile::tempdir().unwrap();
    let journal = Journal::begin(root.path(), "run", &[]).unwrap();
    let wire = Scripted { body: answer("new"), asked: Arc::new(AtomicUsize::new(0)) };
    let upstream =
        ProviderUpstream { adapter: adapter(), model: "m".to_owned(), api_key: None, wire }.kept_in(&journal);
    upstream.call(&call("hello")).await;
    let file = journal.folder().join("one.output.1.json");
    let text = std::fs::read_to_string(&file).unwrap();
    for (status, kept) in
        [(200, true), (400, true), (404, true), (429, false), (408, false), (500, false), (529, false)]
    {
        std::fs::write(&file, text.replace("\"status\": 200", &format!("\"status\": {status}"))).unwrap();
        assert_eq!(upstream.keeps(&call("hello")), kept, "{status}");
    }
    std::fs::write(&file, &text[..text.len() / 2]).unwrap();
    assert!(!upstream.keeps(&call("hello")), "half a file is none");
}

#[test]
fn a_journal_of_something_else_or_of_the_day_before_yesterday_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let journal = Journal::begin(root.path(), "run-1", &[("suite_digest", "d1")]).unwrap();
    let error = Journal::take_up(root.path(), "run-1", "run-2", &[("suite_digest", "d2")]).unwrap_err().to_string();
    assert!(error.contains("suite_digest was d1 and is now d2"), "{error}");
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(25 * 60 * 60);
    let file = std::fs::File::options().write(true).open(journal.folder().join("run.json")).unwrap();
    file.set_modified(old).unwrap();
    let error = Journal::take_up(root.path(), "run-1", "run-2", &[("suite_digest", "d1")]).unwrap_err().to_string();
    assert!(error.contains("older than a day"), "{error}");
    std::fs::create_dir(root.path().join("somebody-elses")).unwrap();
    Journal::begin(root.path(), "run-4", &[]).unwrap();
    let mut left: Vec<_> = std::fs::read_dir(root.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["run-4", "somebody-elses"], "what nobody can take up any more does not lie about");
    let error = Journal::take_up(root.path(), "nope", "run-2", &[]).unwrap_err().to_string();
    assert!(error.contains("without --resume"), "{error}");
}
