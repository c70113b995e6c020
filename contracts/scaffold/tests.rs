//! What a scaffolded suite says, that it can be read, and that the real answer passes it.

use std::path::Path;

use super::*;
use crate::check::Verdict;

const REQUEST: &str = r#"{"model":"gpt-4.1","temperature":0.7,"max_tokens":200,"seed":7,"messages":[
  {"role":"system","content":"Sort tickets. Answer in JSON: {{\"category\": …}}."},
  {"role":"user","content":"Ticket from Ada:\nI was charged twice.\nPlease help: quickly."}]}"#;
const CONTENT: &str =
    r#"{"category":"billing","urgent":true,"order":1234567890123456789012,"summary":"Charged twice, wants help."}"#;

fn answer(content: &str) -> String {
    let content = serde_json::to_string(content).unwrap();
    format!(
        r#"{{"id":"c","object":"chat.completion","created":1,"model":"gpt-4.1","choices":[{{"index":0,"message":{{"role":"assistant","content":{content}}},"finish_reason":"stop"}}],"usage":{{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12}}}}"#
    )
}

fn pair(root: &Path, name: &str, request: &str, answer: &str) -> Result<Pair, ScaffoldError> {
    let (r, a) = (root.join(format!("{name}.json")), root.join(format!("{name}.answer.json")));
    std::fs::write(&r, request).unwrap();
    std::fs::write(&a, answer).unwrap();
    Pair::read(&r, &a)
}

async fn written(root: &Path, pairs: &[Pair]) -> Written {
    Draft::new("tickets", pairs).unwrap().write(&root.join("suites")).await.unwrap()
}

fn failed(written: &Written) -> Vec<&CheckResult> {
    written.tried.iter().filter(|check| check.verdict == Verdict::Failed).collect()
}

#[tokio::test]
async fn a_suite_from_one_exchange_is_read_and_its_own_answer_passes_it() {
    let root = tempfile::tempdir().unwrap();
    let pair = pair(root.path(), "refund", REQUEST, &answer(CONTENT)).unwrap();
    let written = written(root.path(), &[pair]).await;
    assert!(failed(&written).is_empty(), "{:?}", written.tried);
    let passed: Vec<&str> = written.tried.iter().filter(|c| c.verdict == Verdict::Passed).map(|c| c.name).collect();
    assert!(passed.contains(&"valid") && passed.contains(&"meaning"), "{passed:?}");
    let case = &written.suite.cases()[0];
    assert_eq!(case.name, "refund");
    assert_eq!(case.user, "Ticket from Ada:\nI was charged twice.\nPlease help: quickly.");
    assert_eq!(case.system.as_deref(), Some("Sort tickets. Answer in JSON: {{\"category\": …}}."));
    insta::assert_snapshot!(std::fs::read_to_string(written.folder.join("suite.toml")).unwrap());
    insta::assert_snapshot!(std::fs::read_to_string(written.folder.join("schema.json")).unwrap());
    insta::assert_snapshot!(std::fs::read_to_string(written.folder.join("cases/refund.json")).unwrap());
    assert!(written.notes.iter().any(|note| note.contains("seed")), "{:?}", written.notes);
    assert!(root.path().join("suites/suite.schema.json").is_file());
}

#[tokio::test]
async fn nothing_is_ever_written_over() {
    let root = tempfile::tempdir().unwrap();
    let read = || pair(root.path(), "one", REQUEST, &answer(CONTENT)).unwrap();
    let first = written(root.path(), &[read()]).await;
    let marked = first.folder.join("suite.toml");
    std::fs::write(&marked, "mine").unwrap();
    std::fs::write(root.path().join("suites/suite.schema.json"), "mine too").unwrap();
    let error = Draft::new("tickets", &[read()]).unwrap().write(&root.path().join("suites")).await.unwrap_err();
    assert!(matches!(&error, ScaffoldError::Exists(folder) if *folder == first.folder), "{error}");
    Draft::new("others", &[read()]).unwrap().write(&root.path().join("suites")).await.unwrap();
    assert_eq!(std::fs::read_to_string(marked).unwrap(), "mine");
    assert_eq!(std::fs::read_to_string(root.path().join("suites/suite.schema.json")).unwrap(), "mine too");
    let left: Vec<_> = std::fs::read_dir(root.path().join("suites")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left.len(), 3, "no workshop is left behind: {left:?}");
}

#[tokio::test]
async fn several_exchanges_show_what_varies_and_what_is_optional() {
    let root = tempfile::tempdir().unwrap();
    let ask = |text: &str| REQUEST.replace("Ticket from Ada:\\nI was charged twice.\\nPlease help: quickly.", text);
    let one =
        pair(root.path(), "a", &ask("Sort this: the app crashes. Thanks"), &answer(r#"{"category":"technical"}"#));
    let two = pair(
        root.path(),
        "b",
        &ask("Sort this: the bill is wrong. Thanks"),
        &answer(r#"{"category":"billing","n":1}"#),
    );
    let written = written(root.path(), &[one.unwrap(), two.unwrap()]).await;
    assert!(failed(&written).is_empty(), "{:?}", written.tried);
    let text = std::fs::read_to_string(written.folder.join("suite.toml")).unwrap();
    assert!(text.contains("user = \"Sort this: the {{input}} Thanks\""), "{text}");
    let users: Vec<&str> = written.suite.cases().iter().map(|case| case.user.as_str()).collect();
    assert_eq!(users, ["Sort this: the app crashes. Thanks", "Sort this: the bill is wrong. Thanks"]);
    let schema = std::fs::read_to_string(written.folder.join("schema.json")).unwrap();
    assert!(schema.contains("\"n\"") && !schema.contains("\"category\",\n    \"n\""), "{schema}");
}

#[tokio::test]
async fn a_stated_schema_a_conversation_and_an_sdk_s_own_pair_are_kept() {
    let root = tempfile::tempdir().unwrap();
    let request = r#"{"model":"m","stream":true,"messages":[{"role":"developer","content":"A"},{"role":"user","content":"<q>one</q>"},
      {"role":"assistant","content":"{\"a\":1}"},{"role":"user","content":[{"type":"text","text":"Now <q>two</q> <q-b>three</q-b>"}]}],
      "response_format":{"type":"json_schema","json_schema":{"name":"x","strict":true,"schema":{"type":"object","properties":{"a":{"type":"integer","minimum":2}},"required":["a"],"additionalProperties":false}}}}"#;
    let both =
        format!(r#"{{"request":{{"body":{request}}},"response":{{"status":200,"body":{}}}}}"#, answer(r#"{"a":2}"#));
    let file = root.path().join("pair.json");
    std::fs::write(&file, &both).unwrap();
    let ok = written(root.path(), &[Pair::read(&file, &file).unwrap()]).await;
    assert!(failed(&ok).is_empty(), "{:?}", ok.tried);
    let case = &ok.suite.cases()[0];
    assert_eq!((case.name.as_str(), case.user.as_str()), ("case-1", "Now <q>two</q> <q-b>three</q-b>"));
    assert_eq!(case.turns.len(), 2);
    let text = std::fs::read_to_string(ok.folder.join("suite.toml")).unwrap();
    assert!(
        text.contains("Now <q>{{q}}</q> <q-b>{{q_b}}</q-b>") && text.contains("response_format = \"json_schema\""),
        "{text}"
    );

    // The given answer does not keep the schema that its request states: it is said at once.
    std::fs::write(&file, both.replace(r#"{\"a\":2}"#, r#"{\"a\":1}"#)).unwrap();
    let draft = Draft::new("other", &[Pair::read(&file, &file).unwrap()]).unwrap();
    let broken = draft.write(&root.path().join("suites")).await.unwrap();
    assert_eq!(failed(&broken)[0].name, "valid");
}

#[tokio::test]
async fn a_tool_call_is_read_as_what_the_consumer_reads() {
    let root = tempfile::tempdir().unwrap();
    let request = r#"{"model":"m","messages":[{"role":"user","content":"Order 12?"}],"tools":[
      {"type":"function","function":{"name":"look_up","description":"Finds it","parameters":{"type":"object","properties":{"order":{"type":"integer"}},"required":["order"]}}},
      {"type":"function","function":{"name":"other"}}]}"#;
    let reply = r#"{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"look_up","arguments":"{\"order\":12}"}}]},"finish_reason":"tool_calls"}]}"#;
    let written = written(root.path(), &[pair(root.path(), "one", request, reply).unwrap()]).await;
    assert!(failed(&written).is_empty(), "{:?}", written.tried);
    assert_eq!(written.suite.reads(), "tool");
    assert!(written.notes.iter().any(|note| note.contains("other was left out")), "{:?}", written.notes);
}

#[test]
fn what_no_suite_can_be_made_of_is_told_with_the_file_and_the_cure() {
    let root = tempfile::tempdir().unwrap();
    let made = |request: &str, answer: &str| {
        let pair = pair(root.path(), "one", request, answer)?;
        Draft::new("tickets", &[pair])
    };
    let words = |request: &str, answer: &str| made(request, answer).unwrap_err().to_string();
    let good = answer(CONTENT);
    assert!(words("{", &good).contains("one.json: it is not JSON"));
    assert!(words(r#"{"prompt":"x"}"#, &good).contains("it has no `messages`"));
    assert!(words(REQUEST, "{}").contains("one.answer.json: no answer"));
    assert!(words(REQUEST, &answer("```json\n{}\n```")).contains("is not one JSON value"));
    assert!(words(REQUEST, &answer("Sure!")).contains("response_format"));
    let image = r#"{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://x/y.png"}}]}]}"#;
    assert!(words(image, &good).contains("messages[0] holds an image"));
    let prefill = r#"{"model":"m","messages":[{"role":"user","content":"a"},{"role":"assistant","content":"{"}]}"#;
    assert!(words(prefill, &good).contains("the last message is not the user's"));
    for name in ["", "a/b", "..", "suite"] {
        let pair = pair(root.path(), "one", REQUEST, &good).unwrap();
        assert!(matches!(Draft::new(name, &[pair]), Err(ScaffoldError::Input { .. })), "{name:?}");
    }
}
