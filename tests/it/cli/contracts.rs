//! `contract` and `permit`: a provider that keeps the contract earns its permit, one that breaks it does not, and every
//! refusal says what is missing.

use interlock::local::sim::{Behaviour, SimProvider, Wire};
use serde_json::Value;

use super::{on, text};
use crate::command::Workplace;
use crate::support::cluster::Database;

pub(super) const SUITE: &str = "support-triage";
pub(super) const BETA: &str = "beta/gpt-4.1";

/// alpha is the primary that nobody answers for; beta and gamma are simulated.
pub async fn fallbacks(database: &Database) -> (SimProvider, SimProvider, Workplace) {
    let beta = SimProvider::start("beta", Wire::OpenAiChat).await.expect("a simulated provider");
    let gamma = SimProvider::start("gamma", Wire::AnthropicMessages).await.expect("a simulated provider");
    beta.set_models(["gpt-4.1"]);
    gamma.set_models(["claude-sonnet-4-5"]);
    let settings = format!(
        "[providers.alpha]\nadapter = \"openai\"\nbase_url = \"http://127.0.0.1:1/v1\"\n\
         [providers.beta]\nadapter = \"openai\"\nbase_url = \"{}\"\n[providers.gamma]\nadapter = \"anthropic\"\nbase_url = \"{}\"\n\
         [routes.support]\ncontract = \"{SUITE}\"\ntargets = [\"alpha/m\", \"beta/gpt-4.1\", \"gamma/claude-sonnet-4-5\"]\n\
         [routes.other]\ntargets = [\"alpha/m\", \"beta/gpt-4.1\"]\n",
        beta.base_url(),
        gamma.base_url()
    );
    let cli = on(database, &settings);
    (beta, gamma, cli)
}

/// The shape of DESIGN 7.
fn check_shape(report: &Value) {
    assert!(["run_id", "verdict", "mode", "checks"].iter().all(|name| !report[name].is_null()), "{report:#}");
    let checks = report["checks"].as_array().expect("checks");
    for check in checks {
        assert!(["schema", "tokenizer", "round_trip"].contains(&check["kind"].as_str().unwrap_or_default()), "{check}");
        assert!(["passed", "failed", "skipped"].contains(&check["verdict"].as_str().unwrap_or_default()), "{check}");
        assert!(["name", "case", "detail"].iter().all(|name| check[name].is_string()), "{check}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sound_provider_passes_live_is_permitted_and_loses_the_permit_when_revoked() {
    let database = Database::fresh().await;
    let (_beta, _gamma, cli) = fallbacks(&database).await;
    for (provider, target) in [("beta", BETA), ("gamma", "gamma/claude-sonnet-4-5")] {
        let report = cli.run(&["contract", "run", SUITE, "--target", target, "--json"]).expect(0).json();
        check_shape(&report);
        assert_eq!((&report["verdict"], &report["mode"]), (&"passed".into(), &"live".into()));
        let run = text(&report["run_id"]);
        let grant = [
            "permit",
            "grant",
            "--route",
            "support",
            "--run",
            &run,
            "--reason",
            "it has proved itself",
            "--by",
            "ann",
            "--json",
        ];
        let permit = cli.run(&grant).expect(0).json();
        assert_eq!(
            (&permit["provider"], &permit["run_id"], &permit["granted_by"]),
            (&provider.into(), &run.into(), &"ann".into())
        );
        let id = text(&permit["id"]);
        assert_eq!(cli.run(&["permit", "list", "--route", "support", "--json"]).expect(0).json()[0]["id"], id);
        cli.run(&["permit", "revoke", &id, "--reason", "", "--json"]).expect(2).says(&["--reason"]);
        let revoked =
            cli.run(&["permit", "revoke", &id, "--reason", "it drifted", "--by", "bob", "--json"]).expect(0).json();
        assert_eq!((&revoked["revoked_by"], &revoked["revoke_reason"]), (&"bob".into(), &"it drifted".into()));
        cli.run(&["permit", "revoke", &id, "--reason", "again"]).expect(1).says(&["there is no live permit", &id]);
    }
    let deeds = database.count("SELECT count(*) FROM operator_actions").await;
    assert_eq!(deeds, 4, "two grants, two revocations");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_contract_breaker_fails_and_is_refused_its_permit_with_what_is_missing() {
    let database = Database::fresh().await;
    let (beta, _gamma, cli) = fallbacks(&database).await;
    beta.set_behaviour(Behaviour::BreaksContract);
    let report = cli.run(&["contract", "run", SUITE, "--target", BETA, "--live", "--json"]).expect(1).json();
    check_shape(&report);
    assert_eq!(report["verdict"], "failed");
    let run = text(&report["run_id"]);
    let shown = cli.run(&["contract", "show", &run, "--json"]).expect(0).json();
    assert_eq!(
        shown["checks"].as_array().map(Vec::len),
        report["checks"].as_array().map(Vec::len),
        "every check was filed"
    );
    let grant =
        |route: &str, run: &str| cli.run(&["permit", "grant", "--route", route, "--run", run, "--reason", "please"]);
    grant("support", &run).expect(1).says(&[&run, "has not passed", "schema failed", "all three kinds"]);
    let refusal = cli
        .run(&["permit", "grant", "--route", "support", "--run", &run, "--reason", "please", "--json"])
        .expect(1)
        .json();
    assert_eq!(refusal["error"]["code"], "permit_refused");
    assert_eq!(cli.run(&["permit", "list", "--json"]).expect(0).json(), Value::Array(Vec::new()));
    grant("nowhere", &run).expect(1).says(&["there is no route `nowhere`"]);
    grant("support", "00000000-0000-7000-8000-000000000000").expect(1).says(&["there is no contract run"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_passed_run_of_something_else_earns_no_permit() {
    let database = Database::fresh().await;
    let (_beta, _gamma, cli) = fallbacks(&database).await;
    let report = cli.run(&["contract", "run", SUITE, "--target", BETA, "--json"]).expect(0).json();
    let run = text(&report["run_id"]);
    let grant = |route: &str| cli.run(&["permit", "grant", "--route", route, "--run", &run, "--reason", "please"]);
    grant("other").expect(1).says(&["names no contract", "routes.other.contract"]);
    for (what, column, value) in [
        ("the suite", "suite_digest", "another"),
        ("the adapter", "adapter_version", "openai/0"),
        ("the settings of provider", "settings_digest", "another"),
        ("no target of route", "model", "m2"),
        ("live evidence", "mode", "replay"),
    ] {
        let before: String = database.value(format!("SELECT {column} FROM contract_runs")).await;
        database.execute(format!("UPDATE contract_runs SET {column} = '{value}'")).await;
        let refused = grant("support").expect(1);
        assert!(refused.stderr.contains(what.trim_start_matches("the ")), "{column}: {}", refused.stderr);
        database.execute(format!("UPDATE contract_runs SET {column} = '{before}'")).await;
    }
    grant("support").expect(0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_cannot_be_reached_fails_the_run_and_the_report_says_so() {
    let database = Database::fresh().await;
    let (_beta, _gamma, cli) = fallbacks(&database).await;
    let ran = cli.run(&["contract", "run", SUITE, "--target", "alpha/m"]).expect(1);
    ran.says(&["reachable", "connect_refused", "failed"]);
    let report = cli.run(&["contract", "run", SUITE, "--target", "alpha/m", "--json"]).expect(1).json();
    check_shape(&report);
    assert_eq!(
        database.count("SELECT count(*) FROM contract_runs WHERE verdict = 'failed' AND error IS NOT NULL").await,
        2
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recorded_run_is_replayed_without_a_network_and_says_that_it_was() {
    let database = Database::fresh().await;
    let (beta, gamma, cli) = fallbacks(&database).await;
    let shipped = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("contracts/suites").join(SUITE);
    let own = cli.path().join("contracts/suites").join(SUITE);
    std::fs::create_dir_all(own.join("cases")).expect("a folder");
    for file in ["suite.toml", "schema.json"].into_iter().map(Into::into).chain(
        std::fs::read_dir(shipped.join("cases"))
            .expect("cases")
            .map(|e| std::path::Path::new("cases").join(e.expect("a case").file_name())),
    ) {
        let file: std::path::PathBuf = file;
        std::fs::copy(shipped.join(&file), own.join(&file)).expect("copied");
    }
    let missing = cli.run(&["contract", "run", SUITE, "--target", BETA, "--replay"]).expect(1);
    missing.says(&["record"]);
    cli.run(&["contract", "record", SUITE, "--target", BETA]).expect(0);
    drop((beta, gamma));
    let report = cli.run(&["contract", "run", SUITE, "--target", BETA, "--replay", "--json"]).expect(0).json();
    check_shape(&report);
    assert_eq!((&report["verdict"], &report["mode"]), (&"passed".into(), &"replay".into()));
    let run = text(&report["run_id"]);
    cli.run(&["permit", "grant", "--route", "support", "--run", &run, "--reason", "please"])
        .expect(1)
        .says(&["replayed", "live"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_shipped_recordings_of_a_real_small_model_replay() {
    let database = Database::fresh().await;
    let cli =
        on(&database, "[providers.llama-server]\nadapter = \"llama-cpp\"\nbase_url = \"http://127.0.0.1:1/v1\"\n");
    let ran =
        cli.run(&["contract", "run", "small-model", "--target", "llama-server/smollm2-135m", "--replay", "--json"]);
    let report = ran.json();
    check_shape(&report);
    assert_eq!(report["mode"], "replay");
    assert!(
        report["checks"].as_array().expect("checks").iter().any(|check| check["verdict"] == "passed"),
        "{report:#}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn suites_and_runs_are_listed_and_what_is_not_there_is_told() {
    let database = Database::fresh().await;
    let (_beta, _gamma, cli) = fallbacks(&database).await;
    let suites = cli.run(&["contract", "list", "--json"]).expect(0).json();
    let names: Vec<&str> =
        suites.as_array().expect("suites").iter().filter_map(|suite| suite["name"].as_str()).collect();
    assert_eq!(names, ["draft-replies", "invoice-fields", "order-desk", "small-model", "support-triage"]);
    assert_eq!(cli.run(&["contract", "show", "--json"]).expect(0).json(), Value::Array(Vec::new()));
    cli.run(&["contract", "show", "00000000-0000-7000-8000-000000000000"])
        .expect(1)
        .says(&["there is no contract run"]);
    cli.run(&["contract", "run", "no-such", "--target", BETA]).expect(2).says(&["no-such", "support-triage"]);
    cli.run(&["contract", "run", SUITE, "--target", "delta/m"]).expect(2).says(&["delta", "define no provider"]);
    cli.run(&["contract", "run", SUITE, "--target", "beta"]).expect(2).says(&["--target", "provider/model"]);
    assert_eq!(database.count("SELECT count(*) FROM contract_runs").await, 0, "nothing half written");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_suite_that_does_not_parse_is_named_with_its_line_and_nothing_is_written() {
    let database = Database::fresh().await;
    let (_beta, _gamma, cli) = fallbacks(&database).await;
    for (file, text, words) in [
        ("suite.toml", "name = \"own\"\nrepeats = \"two\"\n", &["own/suite.toml", "2"][..]),
        ("suite.toml", "name = ", &["own/suite.toml", "1"]),
        ("suite.toml", "name = \"own\"\nnonsense = 1\n", &["own/suite.toml", "nonsense"]),
    ] {
        cli.write(&format!("contracts/suites/own/{file}"), text);
        cli.run(&["contract", "run", "own", "--target", BETA]).expect(2).says(words);
    }
    for outside in ["../own", "own/..", "/etc", ""] {
        cli.run(&["contract", "run", outside, "--target", BETA]).expect(2);
    }
    assert_eq!(database.count("SELECT count(*) FROM contract_runs").await, 0);
}
