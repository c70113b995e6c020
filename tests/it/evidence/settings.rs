//! Every setting of a route's evidence that is wrong is named, with what is wrong and the cure.

use interlock::config::Config;
use interlock::domain::drift::DriftWindow;

fn parse(route: &str) -> Result<Config, String> {
    let text = format!(
        "[providers.a]\nadapter = \"openai\"\nbase_url = \"http://127.0.0.1:1/v1\"\n\
         [routes.r]\ntargets = [\"a/m\", \"a/n\"]\n{route}"
    );
    Config::parse(&text, "test").map_err(|error| error.to_string())
}

#[test]
fn what_is_wrong_with_recheck_or_drift_is_named_with_its_cure() {
    let contract = "contract = \"support-triage\"\n";
    for (lines, words) in [
        ("recheck = \"24h\"", "routes.r.recheck: there is nothing to run again without `routes.r.contract`"),
        ("drift = {}", "routes.r.drift: there is no schema to hold answers against without `routes.r.contract`"),
        ("contract = \"x\"\nrecheck = \"daily\"", "routes.r.recheck: `daily` is no duration"),
        ("contract = \"x\"\nrecheck = \"7d\"", "routes.r.recheck: must be shorter than permit_ttl (7d)"),
        ("contract = \"x\"\ndrift = { sample = 1.5 }", "routes.r.drift.sample: 1.5 is no share"),
        ("contract = \"x\"\ndrift = { fallback_sample = -1.0 }", "routes.r.drift.fallback_sample: -1 is no share"),
        ("contract = \"x\"\ndrift = { max_violation_rate = 1.0 }", "routes.r.drift.max_violation_rate: 1 is out of"),
        ("contract = \"x\"\ndrift = { window = 0 }", "routes.r.drift.window: must be 1 to 10000 answers"),
        ("contract = \"x\"\ndrift = { window = \"2d\" }", "routes.r.drift.window: `2d` is too long"),
        ("contract = \"x\"\ndrift = { window = 10 }", "routes.r.drift.min_answers: must be at least 1, and no more"),
        ("contract = \"x\"\ndrift = { sampel = 1.0 }", "sampel"),
    ] {
        let error = parse(lines).expect_err(lines);
        assert!(error.contains(words), "{lines}: {error}");
    }
    let alone = parse(&format!("{contract}recheck = \"1h\"")).expect("right");
    assert_eq!(alone.routes["r"].recheck.map(|age| age.as_secs()), Some(3600));
    assert_eq!(alone.routes["r"].drift, None, "off by default");
}

#[test]
fn the_defaults_of_drift_are_the_documented_ones() {
    let rule = |lines: &str| {
        let config = parse(&format!("contract = \"support-triage\"\n{lines}")).expect("right");
        config.routes["r"].drift.expect("a rule")
    };
    let default = rule("drift = {}");
    assert_eq!((default.sample, default.fallback_sample, default.min_answers), (0.05, 1.0, 20));
    assert_eq!((default.window, default.max_violation_rate), (DriftWindow::Answers(200), None));
    assert_eq!(rule("drift = { window = \"1h\" }").window, DriftWindow::Time(std::time::Duration::from_secs(3600)));
}
