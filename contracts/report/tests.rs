//! What counts as passed, and how it is written down.

use super::*;
use crate::check;

fn report(checks: Vec<CheckResult>) -> Report {
    let suite = Suite::embedded("support-triage").unwrap();
    let target = TargetInfo { provider: "alpha".into(), model: "m".into(), adapter_version: "openai/1".into() };
    let mut report = Report::new(&suite, Mode::Live, target, checks, 7, Duration::from_millis(1_234));
    report.suite_digest = "d".repeat(64);
    report
}

/// Every check of the table, passed.
fn all_passed() -> Vec<CheckResult> {
    check::CHECKS.iter().map(|row| row.passed("suite", "fine")).collect()
}

fn with(name: &str, verdict: Verdict, detail: &str) -> Vec<CheckResult> {
    let mut checks = all_passed();
    let found = checks.iter_mut().find(|c| c.name == name).unwrap();
    found.verdict = verdict;
    found.detail = detail.to_owned();
    checks
}

#[test]
fn a_run_in_which_everything_passed_is_evidence() {
    let evidence = report(all_passed()).evidence().unwrap();
    assert_eq!(
        (evidence.suite(), evidence.target().model.as_str(), evidence.mode()),
        ("support-triage", "m", Mode::Live)
    );
    assert!(evidence.skipped().is_empty());
}

#[test]
fn a_failed_check_is_no_evidence_and_is_named() {
    let report = report(with("valid", Verdict::Failed, "/a: too long"));
    assert_eq!(report.verdict(), RunVerdict::Failed);
    assert_eq!(report.kind_verdict(Kind::Schema), RunVerdict::Failed);
    assert_eq!(report.kind_verdict(Kind::RoundTrip), RunVerdict::Passed);
    let words = report.evidence().unwrap_err().to_string();
    assert!(words.contains("schema/valid failed") && words.contains("/a: too long"), "{words}");
}

#[test]
fn a_missing_kind_is_no_evidence() {
    for kind in Kind::ALL {
        let checks = all_passed().into_iter().filter(|c| c.kind != kind).collect();
        let words = report(checks).evidence().unwrap_err().to_string();
        assert!(words.contains(&format!("no {kind} check passed")), "{words}");
    }
    assert!(!report(Vec::new()).passed());
}

#[test]
fn a_required_check_that_was_skipped_or_not_made_is_no_evidence() {
    let words = report(with("count_agreement", Verdict::Skipped, "one counter")).evidence().unwrap_err().to_string();
    assert!(words.contains("tokenizer/count_agreement is required and was skipped: one counter"), "{words}");
    let checks = all_passed().into_iter().filter(|c| c.name != "system_marker").collect();
    let words = report(checks).evidence().unwrap_err().to_string();
    assert!(words.contains("round_trip/system_marker is required and was not made"), "{words}");
}

#[test]
fn a_check_that_nobody_requires_may_be_skipped_and_the_evidence_says_so() {
    let evidence = report(with("stop_honoured", Verdict::Skipped, "no stop string")).evidence().unwrap();
    assert_eq!(evidence.skipped().len(), 1);
}

#[test]
fn the_json_has_the_members_that_scripts_rely_on() {
    let report = report(vec![check::VALID.failed("double-charge", "/urgency: \"soon\" is not one of the values")]);
    let json = serde_json::to_value(report.to_json("run-1")).unwrap();
    assert_eq!(json["run_id"], "run-1");
    assert_eq!(json["verdict"], "failed");
    assert_eq!(json["mode"], "live");
    let check = serde_json::json!({
        "kind": "schema", "name": "valid", "case": "double-charge", "verdict": "failed",
        "detail": "/urgency: \"soon\" is not one of the values",
    });
    assert_eq!(json["checks"], serde_json::json!([check]));
}

#[test]
fn the_table_says_in_words_what_failed_and_what_is_missing() {
    let mut checks = with("meaning", Verdict::Failed, "/category is “account”, expected “billing” (2 of 2 failed)");
    checks.retain(|c| c.kind != Kind::Tokenizer);
    insta::assert_snapshot!(report(checks).to_table(), @r"
    FAILED: support-triage against alpha/m (openai/1, live)
    7 calls in 1.2 s, suite digest dddddddddddd

      schema      failed    8 passed   1 failed   0 skipped
      tokenizer   failed    0 passed   0 failed   0 skipped
      round_trip  passed   13 passed   0 failed   0 skipped

    What failed
      schema/meaning                      suite              /category is “account”, expected “billing” (2 of 2 failed)

    What is missing
      no tokenizer check passed
    ");
}
