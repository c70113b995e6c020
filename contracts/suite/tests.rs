//! What a suite file may not say, and how that is told.

use std::path::Path;

use super::*;

const SUITE: &str = r#"name = "demo"
description = "for tests"

[prompt]
user = "{{question}}"

[[cases]]
name = "one"
fixture = "one.json"
assert = [{ at = "/a", equals = 1 }]
"#;

const SCHEMA: &str = r#"{"type": "object", "properties": {"a": {"type": "integer"}}}"#;

fn written(suite: &str, schema: &str, fixture: &str) -> (tempfile::TempDir, PathBuf) {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("demo");
    std::fs::create_dir_all(dir.join("recordings")).unwrap();
    std::fs::write(dir.join("suite.toml"), suite).unwrap();
    std::fs::write(dir.join("schema.json"), schema).unwrap();
    std::fs::write(dir.join("one.json"), fixture).unwrap();
    (root, dir)
}

fn load(suite: &str) -> Result<Suite, SuiteError> {
    let (_root, dir) = written(suite, SCHEMA, r#"{"question": "why?"}"#);
    Suite::load(&dir)
}

/// The error of a suite in which `from` became `to`: its line and its words.
fn error(from: &str, to: &str) -> (Option<usize>, String) {
    assert!(SUITE.contains(from));
    let error = load(&SUITE.replacen(from, to, 1)).unwrap_err();
    (error.line, error.to_string())
}

#[test]
fn a_good_suite_is_read() {
    let suite = load(SUITE).unwrap();
    assert_eq!(suite.cases()[0].user, "why?");
    assert_eq!(suite.digest().len(), 64);
    assert!(suite.required().contains(&"max_tokens_honoured"));
}

#[test]
fn an_unknown_word_is_named_with_its_line() {
    let (line, words) = error("description =", "descripton =");
    assert_eq!(line, Some(2));
    assert!(words.contains("descripton") && words.contains("suite.toml:2:1"), "{words}");
    assert!(words.contains("Did you mean `description`?"), "{words}");
}

#[test]
fn a_syntax_error_is_named_with_its_line() {
    assert_eq!(error("user = \"{{question}}\"", "user = \"{{question}}").0, Some(5));
}

#[test]
fn an_unknown_variable_is_named_with_its_line_and_the_known_ones() {
    let (line, words) = error("{{question}}", "{{qestion}}");
    assert_eq!(line, Some(5));
    assert!(words.contains("{{qestion}}") && words.contains("question"), "{words}");
}

#[test]
fn a_name_other_than_the_folders_is_refused() {
    let (line, words) = error("\"demo\"", "\"other\"");
    assert_eq!(line, Some(1));
    assert!(words.contains("name = \"demo\""), "{words}");
}

#[test]
fn a_missing_fixture_is_named_with_the_line_that_names_it() {
    let (line, words) = error("one.json", "two.json");
    assert_eq!(line, Some(9));
    assert!(words.contains("two.json"), "{words}");
}

#[test]
fn a_path_out_of_the_folder_is_refused() {
    assert!(error("one.json", "../one.json").1.contains("leaves the suite's folder"));
    assert!(error("one.json", "/etc/hostname").1.contains("leaves the suite's folder"));
}

#[test]
fn an_assertion_needs_exactly_one_comparison() {
    let (line, words) = error("equals = 1", "equals = 1, contains = \"x\"");
    assert_eq!(line, Some(10));
    assert!(words.contains("exactly one comparison"), "{words}");
    assert!(error(", equals = 1", "").1.contains("exactly one comparison"));
    assert!(error("\"/a\"", "\"a\"").1.contains("JSON pointer"));
    assert!(error("equals = 1", "count = 1").1.contains("counts the matches of a JSONPath"));
}

#[test]
fn a_path_or_an_expression_that_does_not_compile_is_named_with_its_line_and_column() {
    let place = |from: &str, to: &str| {
        let error = load(&SUITE.replacen(from, to, 1)).unwrap_err();
        (error.line, error.column, error.to_string())
    };
    let (line, column, words) = place("\"/a\"", "\"$.a[?@.b == ]\"");
    assert!(line == Some(10) && column > Some(18) && words.contains("is no JSONPath"), "{column:?} {words}");
    let (line, column, words) = place("equals = 1", "cel = \"this == 1 && outptu.a == 1\"");
    assert_eq!((line, column), (Some(10), Some(44)), "{words}");
    assert!(words.contains("nothing is called `outptu`"), "{words}");
    assert!(place("equals = 1", "cel = \"this ==\"").2.contains("does not compile"));
    assert!(place("equals = 1", "equals_json = \"{\"").2.contains("equals_json is not JSON"));
    load(&SUITE.replacen("at = \"/a\", equals = 1", "cel = \"output.a == 1 && vars.question == 'why?'\"", 1)).unwrap();
    load(&SUITE.replacen("at = \"/a\", equals = 1", "at = \"$..a\", count = 1", 1)).unwrap();
}

#[test]
fn variables_come_from_fixtures_from_files_and_from_the_suite_itself() {
    let files = "fixture = \"one.json\"\nfiles = { long = \"long.txt\" }\nvars = { n = 3, day = 2026-11-30 }";
    let suite = SUITE.replacen("fixture = \"one.json\"", files, 1);
    let suite = suite.replacen("{{question}}", "{{question.text}} {{long}} {{n}} {{day}} {{\\\"{{x}}\\\"}}", 1);
    let (_root, dir) = written(&suite, SCHEMA, r#"{"question": {"text": "why?"}}"#);
    let error = Suite::load(&dir).unwrap_err();
    assert!(error.to_string().contains("long.txt") && error.line == Some(10), "{error}");
    std::fs::write(dir.join("long.txt"), "as\nis").unwrap();
    let read = Suite::load(&dir).unwrap();
    assert_eq!(read.cases()[0].user, "why? as\nis 3 2026-11-30 {{x}}");
    let before = read.digest().to_owned();
    std::fs::write(dir.join("long.txt"), "otherwise").unwrap();
    assert_ne!(Suite::load(&dir).unwrap().digest(), before, "a file that fills a variable is part of the suite");
}

#[test]
fn the_turns_of_a_conversation_are_sent_between_the_system_prompt_and_the_question() {
    let turns = "[[prompt.turns]]\nrole = \"user\"\ncontent = \"Say {{question}}\"\n\
        [[prompt.turns]]\nrole = \"assistant\"\ncontent = \"Done\"\n[[cases]]";
    let suite = load(&SUITE.replacen("[[cases]]", turns, 1)).unwrap();
    let plan = crate::probe::plan(&suite, "m");
    let messages: Vec<(&str, &str)> = plan[0]
        .call
        .body
        .get("messages")
        .unwrap()
        .as_array()
        .unwrap()
        .iter()
        .map(|m| (m.get("role").unwrap().as_str().unwrap(), m.get("content").unwrap().as_str().unwrap()))
        .collect();
    assert_eq!(messages, [("user", "Say why?"), ("assistant", "Done"), ("user", "why?")]);
}

#[test]
fn a_core_check_cannot_be_skipped_and_a_skip_needs_a_reason() {
    let skip = |line: &str| error("[prompt]", &format!("[skip]\n{line}\n[prompt]"));
    let (line, words) = skip("valid = \"no time\"");
    assert_eq!(line, Some(5));
    assert!(words.contains("valid cannot be skipped"), "{words}");
    assert!(skip("long_input = \" \"").1.contains("without a reason"));
    assert!(skip("long_inptu = \"x\"").1.contains("there is no check \"long_inptu\""));
}

#[test]
fn a_required_check_cannot_be_skipped() {
    let (_, words) = error("[prompt]", "required = [\"long_input\"]\n[skip]\nlong_input = \"x\"\n[prompt]");
    assert!(words.contains("the suite requires it"), "{words}");
}

#[test]
fn a_suite_without_cases_or_with_too_many_calls_is_refused() {
    let without = SUITE.split("[[cases]]").next().unwrap();
    assert!(load(without).unwrap_err().to_string().contains("`cases` is missing"));
    assert!(error("[prompt]", "max_calls = 3\n[prompt]").1.contains("more than max_calls = 3"));
}

#[test]
fn a_broken_schema_and_a_broken_fixture_are_named_with_their_lines() {
    let (_root, dir) = written(SUITE, "{\n\"type\": }", "{}");
    let error = Suite::load(&dir).unwrap_err();
    assert!(error.file.ends_with("schema.json") && error.line == Some(2), "{error}");
    let (_root, dir) = written(SUITE, SCHEMA, "{\n\n\"question\"}");
    let error = Suite::load(&dir).unwrap_err();
    assert!(error.file.ends_with("one.json") && error.line == Some(3), "{error}");
    let (_root, dir) = written(SUITE, r#"{"type": "objekt"}"#, "{}");
    assert!(Suite::load(&dir).unwrap_err().to_string().contains("not a JSON Schema"));
    let (_root, dir) = written(SUITE, r#"{"$ref": "https://example.com/x.json"}"#, "{}");
    assert!(Suite::load(&dir).is_err(), "a schema must not be fetched");
}

#[test]
fn a_folder_without_a_suite_and_an_unknown_name_are_told() {
    let root = tempfile::tempdir().unwrap();
    assert!(Suite::load(root.path()).unwrap_err().to_string().contains("suite.toml"));
    let error = Suite::embedded("no-such").unwrap_err().to_string();
    assert!(error.contains("support-triage"), "{error}");
    assert!(Suite::list(Path::new("/no/such")).is_err());
    let suites = Path::new(env!("CARGO_MANIFEST_DIR")).join("suites/refused");
    assert!(Suite::find(Some(&suites), "../support-triage").is_err(), "a name is no path");
    assert!(Suite::find(Some(&suites), "everything").is_ok());
}

#[test]
fn the_digest_covers_every_file_but_the_recordings() {
    let (_root, dir) = written(SUITE, SCHEMA, r#"{"question": "why?"}"#);
    let digest = || Suite::load(&dir).unwrap().digest().to_owned();
    let first = digest();
    std::fs::write(dir.join("recordings/x.json"), "{}").unwrap();
    assert_eq!(digest(), first);
    std::fs::write(dir.join("one.json"), r#"{"question": "why!"}"#).unwrap();
    let second = digest();
    assert_ne!(second, first);
    std::fs::write(dir.join("schema.json"), SCHEMA.replace("integer", "number")).unwrap();
    assert_ne!(digest(), second);
}

#[test]
fn the_shipped_suites_are_read_from_the_binary_and_from_their_folder_alike() {
    let suites = Path::new(env!("CARGO_MANIFEST_DIR")).join("suites");
    assert_eq!(Suite::shipped(), Suite::list(&suites).unwrap());
    assert_eq!(Suite::shipped(), ["draft-replies", "invoice-fields", "order-desk", "small-model", "support-triage"]);
    for name in Suite::shipped() {
        let (embedded, folder) = (Suite::embedded(&name).unwrap(), Suite::find(Some(&suites), &name).unwrap());
        assert_eq!(embedded.digest(), folder.digest());
        assert!(embedded.folder().is_none() && folder.folder().is_some());
    }
}

/// A tokenizer of three words, written here.
const TOKENIZER: &str = r#"{"version":"1.0","truncation":null,"padding":null,"added_tokens":[],"normalizer":null,
"pre_tokenizer":{"type":"Whitespace"},"post_processor":null,"decoder":null,
"model":{"type":"WordLevel","vocab":{"why":0,"?":1,"user":2,"[UNK]":3},"unk_token":"[UNK]"}}"#;

#[test]
fn a_suite_may_bring_the_models_tokenizer_and_template() {
    let text = SUITE.replacen(
        "[[cases]]",
        "[tokenizer]\ncounter = \"file\"\nfile = \"tokenizer.json\"\nchat_template = \"chat.jinja\"\n\n[[cases]]",
        1,
    );
    let (_root, dir) = written(&text, SCHEMA, r#"{"question": "why?"}"#);
    let refused = Suite::load(&dir).unwrap_err().to_string();
    assert!(refused.contains("chat.jinja"), "{refused}");
    std::fs::write(dir.join("chat.jinja"), "{% for m in messages %}{{ m.role }} {{ m.content }}{% endfor %}").unwrap();
    std::fs::write(dir.join("tokenizer.json"), "{}").unwrap();
    let refused = Suite::load(&dir).unwrap_err().to_string();
    assert!(refused.contains("tokenizer.json is no tokenizer"), "{refused}");
    std::fs::write(dir.join("tokenizer.json"), TOKENIZER).unwrap();
    let suite = Suite::load(&dir).unwrap();
    let counter = crate::tokenizer::counter(&suite, "nobody-knows").unwrap();
    let body = crate::probe::plan(&suite, "m").remove(0).call.body;
    let request = providers::openai::request::parse(body).unwrap();
    assert_eq!((counter.name(), counter.count_request(&request)), ("tokenizer.json", Some(3)));
    // The template is part of what a run judges.
    let before = suite.digest().to_owned();
    std::fs::write(dir.join("chat.jinja"), "{{ messages[0].content }}").unwrap();
    assert_ne!(Suite::load(&dir).unwrap().digest(), before);
}

#[test]
fn a_tokenizer_that_nobody_would_read_is_an_error() {
    for (section, words) in [
        ("counter = \"file\"", "needs the model's tokenizer"),
        ("chat_template = \"chat.jinja\"", "counts nothing without"),
        ("counter = \"provider\"\nfile = \"tokenizer.json\"", "this counter does not read it"),
    ] {
        let error = load(&SUITE.replacen("[[cases]]", &format!("[tokenizer]\n{section}\n\n[[cases]]"), 1)).unwrap_err();
        assert!(error.to_string().contains(words) && error.line.is_some(), "{error}");
    }
}

#[test]
fn the_schema_chooses_its_draft_and_a_format_binds() {
    let fits = |schema: &str, value: &str| {
        let (_root, dir) = written(SUITE, schema, r#"{"question": "why?"}"#);
        let suite = Suite::load(&dir).unwrap();
        crate::schema::fits(&suite, value).is_ok()
    };
    // Draft 4 says with a boolean what later drafts say with a number.
    let draft_4 = r#"{"$schema": "http://json-schema.org/draft-04/schema#", "properties": {"a": {"minimum": 1, "exclusiveMinimum": true}}}"#;
    assert!(!fits(draft_4, r#"{"a": 1}"#) && fits(draft_4, r#"{"a": 2}"#));
    // `prefixItems` is a word of 2020-12 only.
    let tuple = |draft: &str| {
        format!(r#"{{"$schema": "{draft}", "properties": {{"a": {{"prefixItems": [{{"type": "integer"}}]}}}}}}"#)
    };
    assert!(!fits(&tuple("https://json-schema.org/draft/2020-12/schema"), r#"{"a": ["x"]}"#));
    assert!(fits(&tuple("http://json-schema.org/draft-07/schema#"), r#"{"a": ["x"]}"#));
    let date = r#"{"properties": {"a": {"type": "string", "format": "date"}}}"#;
    assert!(!fits(date, r#"{"a": "tomorrow"}"#) && fits(date, r#"{"a": "2026-01-02"}"#));
}
