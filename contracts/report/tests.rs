//! What counts as passed, and how it is written down.

use super::*;
use crate::check;
use crate::sampling::Sample;

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
    let mut checks = with("meaning", Verdict::Passed, "");
    let meaning = check::MEANING.failed("double-charge", "/category is “account”, expected “billing”");
    let valid = check::VALID.passed("double-charge", "").sampled(Sample::new(2, 2), 1.0);
    checks.push(meaning.sampled(Sample::new(0, 2), 1.0));
    checks.push(valid);
    checks.push(check::VALID.passed("app-crash", "").sampled(Sample::new(2, 2), 1.0));
    checks.retain(|c| c.kind != Kind::Tokenizer);
    insta::assert_snapshot!(report(checks).to_table());
}

#[test]
fn a_run_that_ended_early_is_no_evidence_even_if_everything_it_saw_passed() {
    let report = report(all_passed()).ended_early("budget: requests: 3 of 3 are made".to_owned());
    assert_eq!(report.verdict(), RunVerdict::Failed);
    assert!(report.evidence().unwrap_err().to_string().contains("incomplete: budget"));
    assert!(report.to_table().starts_with("FAILED, INCOMPLETE"), "{report}");
    assert_eq!(serde_json::to_value(report.to_json("r")).unwrap()["incomplete"], "budget: requests: 3 of 3 are made");
    assert!(report.to_junit().contains("<failure message=\"the run is incomplete"), "{}", report.to_junit());
}

#[test]
fn a_price_that_nobody_stated_is_unknown_and_one_that_was_is_counted() {
    let spent = Spent { requests: 7, input_tokens: 1_000_000, output_tokens: 500_000, unbilled: 0, reused: 0 };
    let unknown = report(all_passed()).with_spent(spent, None);
    assert!(unknown.to_table().contains("price unknown"), "{unknown}");
    assert!(serde_json::to_value(unknown.to_json("r")).unwrap().get("cost").is_none());
    let price = providers::prices::Price::plain("2", "8", "USD").unwrap();
    let known = report(all_passed()).with_spent(spent, Some(price));
    assert!(known.to_table().contains("; 6 USD"), "{known}");
    assert_eq!(serde_json::to_value(known.to_json("r")).unwrap()["cost"], 6.0);
}

#[test]
fn the_json_states_the_interval_of_every_sampled_check() {
    let report = report(vec![check::VALID.passed("c", "").sampled(Sample::new(2, 2), 1.0)]);
    let json = serde_json::to_value(report.to_json("r")).unwrap();
    let sample = &json["checks"][0]["sample"];
    assert_eq!((&sample["passes"], &sample["total"], &sample["high"]), (&2.into(), &2.into(), &1.0.into()));
    assert!((sample["low"].as_f64().unwrap() - 0.3424).abs() < 1e-4, "{sample}");
    assert_eq!(json["checks"][0]["detail"], "2 of 2 passed, 95 % interval 34–100 %");
}

#[test]
fn the_longest_detail_does_not_push_the_interval_out() {
    let check = check::VALID.failed("c", "x".repeat(1_000)).sampled(Sample::new(3, 4), 0.9);
    assert!(check.detail.chars().count() <= check::DETAIL_LIMIT, "{}", check.detail);
    assert!(check.detail.ends_with("too few repeats to tell the rate from the bound of 90 %)"), "{}", check.detail);
}

#[test]
fn the_junit_report_is_well_formed_whatever_a_model_said() {
    let hostile = "</failure> ]]> & \"quoted\" 'x' \u{0}\u{1b}[31m\u{ffff} 🎉 <script>";
    let mut checks = all_passed();
    checks.push(check::VALID.failed("a<b", hostile));
    checks.push(check::PROGRAM.skipped("c", "no \"program\""));
    insta::assert_snapshot!(report(checks[checks.len() - 2..].to_vec()).to_junit());
    let xml = report(checks).to_junit();
    assert!(xml.contains("failures=\"1\"") && !xml.contains("<script>") && !xml.contains('\u{1b}'), "{xml}");
}
