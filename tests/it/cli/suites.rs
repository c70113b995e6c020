//! A suite's life at the command line: made from a real exchange, estimated, run within a budget and in parallel, taken
//! up again, recorded, replayed, compared.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;

use http::Method;
use interlock::local::sim::{Behaviour, SimProvider, Wire};
use serde_json::{Value, json};

use super::contracts::{BETA, SUITE, fallbacks};
use super::{on, text};
use crate::command::Workplace;
use crate::support::client::Client;
use crate::support::cluster::Database;

fn request(ticket: &str) -> Value {
    let schema = json!({
        "type": "object",
        "properties": {
            "category": { "type": "string", "enum": ["billing", "technical", "other"] },
            "summary": { "type": "string", "maxLength": 200 },
        },
        "required": ["category", "summary"],
        "additionalProperties": false,
    });
    json!({
        "model": "gpt-4.1",
        "temperature": 0,
        "max_tokens": 120,
        "messages": [
            { "role": "system", "content": "You sort support tickets. Answer with one JSON object and nothing else.\n\ncategory: what the ticket is about.\n- \"billing\": money and payments\n- \"technical\": the product misbehaves\n- \"other\": anything else" },
            { "role": "user", "content": format!("Ticket:\n{ticket}") },
        ],
        "response_format": { "type": "json_schema", "json_schema": { "name": "triage", "strict": true, "schema": schema } },
    })
}

/// What the provider really answers, as an application would have logged both.
async fn log_exchange(provider: &SimProvider, cli: &Workplace, name: &str, ticket: &str) {
    let base = provider.base_url();
    let address: SocketAddr = base.trim_start_matches("http://").trim_end_matches("/v1").parse().expect("an address");
    let client = Client { address, token: "none".to_owned() };
    let request = request(ticket);
    let answer = client.request(Method::POST, "/v1/chat/completions").json(&request).send().await.expect(200).json();
    cli.write(&format!("logs/{name}.json"), &json!({ "request": request, "response": answer }).to_string());
}

fn run_id(report: &Value) -> String {
    text(&report["run_id"])
}

/// Which check of which case came to what.
fn verdicts(report: &Value) -> BTreeMap<String, String> {
    let checks = report["checks"].as_array().expect("checks");
    checks.iter().map(|c| (format!("{} {}", c["name"], c["case"]), text(&c["verdict"]))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_suite_made_from_a_real_exchange_is_run_recorded_and_replayed() {
    let database = Database::fresh().await;
    let (beta, _gamma, cli) = fallbacks(&database).await;
    log_exchange(&beta, &cli, "refund", "I was charged twice for one invoice. Please refund the payment.").await;
    log_exchange(&beta, &cli, "crash", "The app crashes with an error on every start.").await;
    let new = ["contract", "new", "tickets", "--request", "logs/refund.json", "--request", "logs/crash.json"];
    let made = cli.run(&[&new[..], &["--json"]].concat()).expect(0).json();
    let files: Vec<&str> = made["files"].as_array().expect("files").iter().filter_map(Value::as_str).collect();
    for file in ["suite.toml", "schema.json", "cases/refund.json", "cases/crash.json"] {
        assert!(files.contains(&file), "{made:#}");
        assert!(cli.path().join("contracts/suites/tickets").join(file).is_file(), "{file}");
    }
    assert!(cli.path().join("contracts/suites/suite.schema.json").is_file(), "editors find the form");
    cli.run(&new).expect(2).says(&["exists already", "nothing was written"]);
    let shown = cli.run(&["contract", "show", "tickets", "--json"]).expect(0).json();
    assert_eq!(shown["cases"], json!(["refund", "crash"]));
    let fixture = std::fs::read_to_string(cli.path().join("contracts/suites/tickets/cases/refund.json")).expect("it");
    assert!(fixture.contains("charged twice"), "what varies is the case's: {fixture}");

    let live = cli.run(&["contract", "run", "tickets", "--target", BETA, "--json"]).expect(0).json();
    assert_eq!((&live["mode"], &live["suite_digest"]), (&"live".into(), &shown["digest"]));
    cli.run(&["contract", "record", "tickets", "--target", BETA]).expect(0);
    let recordings = cli.path().join("contracts/suites/tickets/recordings/beta-gpt-4.1");
    assert!(recordings.join("refund.output.1.json").is_file());
    drop(beta);
    let replayed = cli.run(&["contract", "run", "tickets", "--target", BETA, "--replay", "--json"]).expect(0).json();
    assert_eq!((&replayed["mode"], verdicts(&replayed)), (&"replay".into(), verdicts(&live)));

    let stale = std::fs::read_to_string(recordings.join("refund.output.1.json")).expect("a recording");
    std::fs::write(recordings.join("refund.output.1.json"), stale.replace("charged twice", "charged thrice"))
        .expect("it");
    let ran = cli.run(&["contract", "run", "tickets", "--target", BETA, "--replay"]).expect(1);
    ran.says(&["refund", "changed", "contract record"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_author_s_words_decide_and_the_report_shows_the_smallest_difference() {
    let database = Database::fresh().await;
    let (beta, _gamma, cli) = fallbacks(&database).await;
    log_exchange(&beta, &cli, "refund", "I was charged twice for one invoice. Please refund the payment.").await;
    cli.run(&["contract", "new", "tickets", "--request", "logs/refund.json"]).expect(0).says(&["valid", "--estimate"]);
    let file = cli.path().join("contracts/suites/tickets/suite.toml");
    let made = std::fs::read_to_string(&file).expect("the suite");
    let with = |words: &str, program: &str| {
        let assert = format!("assert = [\n  {words},\n");
        let text = made.replace("assert = [\n", &assert).replace("[prompt]", &format!("{program}[prompt]"));
        // The program is a key of the whole file: it stands before the first table.
        let text = if program.is_empty() { text } else { text.replacen(&format!("{program}[prompt]"), "[prompt]", 1) };
        let text = text.replacen("repeats = 2", &format!("{program}repeats = 2"), 1);
        std::fs::write(&file, text).expect("written");
        cli.run(&["contract", "run", "tickets", "--target", BETA])
    };
    with("{ cel = \"size(output.summary) > 3 && output.category in ['billing', 'other']\" }", "").expect(0);
    let failed = with("{ cel = \"output.category == 'technical'\" }", "").expect(1);
    failed.says(&["schema/meaning", "refund", "“billing” on the left, “technical” on the right", "0 of 2 passed"]);
    let failed = with("{ at = \"$.category\", equals = \"other\" }", "").expect(1);
    failed.says(&["/category is “billing”, expected “other”", "95 % interval 0–66 %"]);
    let wrong = with("{ at = \"$.category[\", equals = \"x\" }", "").expect(2);
    wrong.says(&["tickets/suite.toml:", "is no JSONPath", "RFC 9535"]);
    let wrong = with("{ at = \"/category\", equal = \"x\" }", "").expect(2);
    wrong.says(&["tickets/suite.toml:", "no key `equal`", "Did you mean `equals`?"]);

    cli.write("contracts/suites/tickets/consumer.sh", "grep -q '\"category\":\"billing\"' || exit 4\n");
    with("{ at = \"/category\", equals = \"billing\" }", "program = [\"sh\", \"consumer.sh\"]\n").expect(0);
    cli.write("contracts/suites/tickets/consumer.sh", "echo 'KeyError: no such queue' >&2; exit 4\n");
    let failed =
        with("{ at = \"/category\", equals = \"billing\" }", "program = [\"sh\", \"consumer.sh\"]\n").expect(1);
    failed.says(&["schema/program", "exit status: 4", "KeyError: no such queue"]);
    cli.write("contracts/suites/tickets/consumer.sh", "sleep 60\n");
    let slow = "program = [\"sh\", \"consumer.sh\"]\nprogram_seconds = 0.3\n";
    with("{ at = \"/category\", equals = \"billing\" }", slow).expect(1).says(&["killed after 0.3 s"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_budget_ends_a_run_and_what_was_asked_is_not_asked_again() {
    let database = Database::fresh().await;
    let (beta, _gamma, cli) = fallbacks(&database).await;
    let run = |more: &[&str]| cli.run(&[&["contract", "run", SUITE, "--target", BETA, "--json"], more].concat());
    let first = run(&["--budget", "requests=5"]).expect(1).json();
    assert!(text(&first["incomplete"]).contains("requests: 5 of 5"), "{first:#}");
    assert_eq!((beta.calls_count(), &first["spent"]["requests"]), (5, &5.into()));
    let refused =
        cli.run(&["permit", "grant", "--route", "support", "--run", &run_id(&first), "--reason", "please"]).expect(1);
    refused.says(&["has not passed"]);
    let journal = |id: &str| cli.path().join("interlock-data/contract-runs").join(id);
    assert!(journal(&run_id(&first)).is_dir());

    let second = run(&["--resume", &run_id(&first), "--parallel", "3"]).expect(0).json();
    assert_eq!(second["spent"]["reused"], 5, "{second:#}");
    let asked: Vec<String> = beta.calls().into_iter().filter_map(|call| call.attempt_id).collect();
    let once: std::collections::BTreeSet<&String> = asked.iter().collect();
    assert_eq!(asked.len(), once.len(), "nothing is asked twice: {asked:?}");
    assert!(
        !journal(&run_id(&first)).exists() && !journal(&run_id(&second)).exists(),
        "a run that ended leaves nothing"
    );
    run(&["--resume", &run_id(&first)]).expect(2).says(&["taken up before", "without --resume"]);
    let serial = run(&[]).expect(0).json();
    assert_eq!(verdicts(&serial), verdicts(&second));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_was_killed_is_taken_up_where_it_was() {
    let database = Database::fresh().await;
    let (beta, _gamma, cli) = fallbacks(&database).await;
    let mut command = cli.command(&["contract", "run", SUITE, "--target", BETA]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    let wait_until = async |what: &str, holds: &dyn Fn() -> bool| {
        for _ in 0..12_000 {
            if holds() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("never: {what}");
    };
    wait_until("three calls", &|| beta.calls_count() >= 3).await;
    beta.set_behaviour(Behaviour::Hangs);
    wait_until("a call is held", &|| beta.held() == 1).await;
    child.kill().expect("killed");
    child.wait().expect("dead");
    beta.set_behaviour(Behaviour::Sound);
    let before = beta.calls_count();
    let id: String = database.value("SELECT id::text FROM contract_runs").await;
    let report = cli.run(&["contract", "run", SUITE, "--target", BETA, "--resume", &id, "--json"]).expect(0).json();
    let reused = usize::try_from(report["spent"]["reused"].as_u64().expect("a number")).expect("small");
    assert_eq!(reused, before - 1, "all but the call that was under way");
    let ended: String = database.value(format!("SELECT error FROM contract_runs WHERE id = '{id}'")).await;
    assert!(ended.contains("interrupted") && ended.contains(&run_id(&report)), "{ended}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_estimated_first_and_money_is_a_bound_where_its_price_is_known() {
    let database = Database::fresh().await;
    let (beta, _gamma, cli) = fallbacks(&database).await;
    let run = |cli: &Workplace, more: &[&str]| cli.run(&[&["contract", "run", SUITE, "--target", BETA], more].concat());
    let unknown = run(&cli, &["--estimate", "--json"]).expect(0).json();
    assert!(unknown["estimate"]["cost"].is_null() && unknown["estimate"]["counted_by"] == "tiktoken", "{unknown}");
    run(&cli, &["--estimate"]).expect(0).says(&["requests", "price unknown", "time:", "no run has passed here before"]);
    let cure = "providers.beta.prices.\"gpt-4.1\"";
    run(&cli, &["--budget", "money=1"]).expect(2).says(&["price", "unknown", cure]);
    run(&cli, &["--budget", "calls=1"]).expect(2).says(&["requests=N"]);
    assert_eq!(beta.calls_count(), 0, "an estimate asks nobody");
    assert_eq!(database.count("SELECT count(*) FROM contract_runs").await, 0);

    let priced = |price: &str| {
        let settings = format!(
            "[providers.beta]\nadapter = \"openai\"\nbase_url = \"{}\"\n[providers.beta.prices.\"gpt-4.1\"]\n{price}\n",
            beta.base_url()
        );
        on(&database, &settings)
    };
    priced("input = -1\noutput = 8").run(&["config", "check"]).expect(2).says(&[&format!("{cure}.input"), "no price"]);
    let cli = priced("input = 2.0\noutput = 8.0\ncurrency = \"EUR\"");
    let report = run(&cli, &["--json"]).expect(0).json();
    let spent = |name: &str| report["spent"][name].as_f64().expect("a number");
    let cost = (spent("input_tokens") * 2.0 + spent("output_tokens") * 8.0) / 1e6;
    assert!(cost > 0.0 && (report["cost"].as_f64().expect("a cost") - cost).abs() < 1e-9, "{report:#}");
    let estimate = run(&cli, &["--estimate", "--json"]).expect(0).json();
    assert!(estimate["estimate"]["cost"].as_f64().expect("a cost") >= cost, "an upper bound: {estimate} of {cost}");
    assert!(text(&estimate["time"]).contains("the last run that passed took"), "{estimate}");
    let poor = run(&cli, &["--budget", &format!("money={}", cost / 2.0)]).expect(1);
    poor.says(&["FAILED, INCOMPLETE", "money:", "EUR", "--resume"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_runs_are_compared_and_a_ci_server_gets_its_file() {
    let database = Database::fresh().await;
    let (beta, _gamma, cli) = fallbacks(&database).await;
    let run = |more: &[&str]| cli.run(&[&["contract", "run", SUITE, "--target", BETA, "--json"], more].concat());
    let good = run_id(&run(&["--junit", "good.xml"]).expect(0).json());
    beta.set_behaviour(Behaviour::BreaksContract);
    let bad = run_id(&run(&["--junit", "bad.xml"]).expect(1).json());
    let read = |name: &str| std::fs::read_to_string(cli.path().join(name)).expect("a report");
    assert!(
        read("good.xml").contains("failures=\"0\"") && !read("good.xml").contains("<failure"),
        "{}",
        read("good.xml")
    );
    assert!(
        read("bad.xml").contains("<failure message=") && read("bad.xml").starts_with("<?xml"),
        "{}",
        read("bad.xml")
    );
    let diff = |a: &str, b: &str| cli.run(&["contract", "diff", a, b]);
    diff(&good, &bad).expect(1).says(&["newly failing", "verdict: passed -> failed", "- passed", "+ failed"]);
    diff(&bad, &good).expect(0).says(&["newly passing"]);
    diff(&good, &good).expect(0).says(&["nothing changed"]);
    let found = cli.run(&["contract", "diff", &good, &bad, "--json"]).expect(1).json();
    assert!(found["worse"] == true && found["checks"][0]["change"] == "newly_failing", "{found:#}");
    diff(&good, "00000000-0000-7000-8000-000000000000").expect(1).says(&["there is no contract run"]);
    database.execute(format!("UPDATE contract_runs SET suite = 'other' WHERE id = '{bad}'")).await;
    diff(&good, &bad).expect(1).says(&["compare runs of one suite"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_of_the_other_wire_format_serves_a_suite_in_parallel_too() {
    let database = Database::fresh().await;
    let gamma = SimProvider::start("gamma", Wire::AnthropicMessages).await.expect("a simulated provider");
    gamma.set_models(["claude-sonnet-4-5"]);
    let settings = format!("[providers.gamma]\nadapter = \"anthropic\"\nbase_url = \"{}\"\n", gamma.base_url());
    let cli = on(&database, &settings);
    let run = ["contract", "run", SUITE, "--target", "gamma/claude-sonnet-4-5", "--json"];
    let bad = cli.run(&[&run[..], &["--parallel", "0"]].concat()).expect(2);
    bad.says(&["--parallel", "1..=64"]);
    let serial = cli.run(&run).expect(0).json();
    let parallel = cli.run(&[&run[..], &["--parallel", "8"]].concat()).expect(0).json();
    assert_eq!(verdicts(&serial), verdicts(&parallel));
    assert_eq!(serial["spent"], parallel["spent"]);
}
