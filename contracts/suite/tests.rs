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
    assert!(words.contains("descripton") && words.contains("suite.toml:2"), "{words}");
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
    assert!(load(without).unwrap_err().to_string().contains("there is no case"));
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
    assert_eq!(Suite::shipped(), ["small-model", "support-triage"]);
    for name in Suite::shipped() {
        let (embedded, folder) = (Suite::embedded(&name).unwrap(), Suite::find(Some(&suites), &name).unwrap());
        assert_eq!(embedded.digest(), folder.digest());
        assert!(embedded.folder().is_none() && folder.folder().is_some());
    }
}
