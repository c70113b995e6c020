//! What an attempt cost is computed once, exactly, by the price that held then; what is not known is never zero.

use serde_json::{Value, json};

use crate::command::Workplace;
use crate::console::Browser;
use crate::support::app::App;
use crate::support::client::{Answer, Client};
use crate::support::settings::Settings;
use crate::support::sse::sound;
use crate::support::upstream::{Reply, ScriptedUpstream};
use crate::support::{ask, ask_stream, eventually, nobody_listens};

const PRICE: &str = "prices.m1 = { input = 2, output = 8, cached_input = 0.5 }";
const OTHER: &str = "prices.m2 = { input = 0.000001, output = 1 }";

fn priced(upstream: &ScriptedUpstream, lines: &str) -> Settings {
    Settings::one(upstream, "").provider("alpha", "openai", &upstream.base_url(), lines)
}

fn both(alpha: &ScriptedUpstream, beta: &ScriptedUpstream, lines: &str) -> Settings {
    Settings::two(alpha, beta, lines).provider("alpha", "openai", &alpha.base_url(), PRICE).provider(
        "beta",
        "openai",
        &beta.base_url(),
        OTHER,
    )
}

fn cost_of(answer: &Answer) -> Option<&str> {
    answer.header("x-interlock-cost")
}

/// A whole answer with this usage.
fn billed(choices: &str, usage: &str) -> Reply {
    let body = format!(
        r#"{{"id":"a","object":"chat.completion","created":1,"model":"m1","choices":[{choices}],"usage":{usage}}}"#
    );
    Reply::whole(200, "application/json", &body)
}

const CHOICE: &str = r#"{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}"#;

async fn job_of(client: &Client, answer: &Answer) -> Value {
    client.job(&answer.job_id()).await
}

#[tokio::test]
async fn an_answer_says_what_its_job_cost_and_so_do_its_replays_and_every_view_of_the_job() {
    let alpha = ScriptedUpstream::start().await;
    alpha.always(billed(
        CHOICE,
        r#"{"prompt_tokens":1000,"completion_tokens":10,"prompt_tokens_details":{"cached_tokens":400}}"#,
    ));
    let app = App::start(&priced(&alpha, PRICE)).await;
    let client = app.client("acme").await;
    let answer = client.chat("k", &ask("hi")).await.expect(200);
    // 600 × 2 + 400 × 0.5 + 10 × 8 millionths.
    assert_eq!(cost_of(&answer), Some("0.00148 USD"));
    let replayed = client.chat("k", &ask("hi")).await.expect(200);
    assert_eq!((cost_of(&replayed), replayed.is_replayed()), (Some("0.00148 USD"), true));
    assert_eq!(cost_of(&client.result(&answer.job_id()).await.expect(200)), Some("0.00148 USD"));
    let job = job_of(&client, &answer).await;
    let sum = json!({ "known": [{ "amount": "0.00148", "currency": "USD" }], "unknown_attempts": 0 });
    assert_eq!(job["cost"], sum);
    let own = json!({ "amount": "0.00148", "currency": "USD", "price": "settings" });
    assert_eq!(job["attempts"][0]["cost"], own);
    let examined = app.operator().get(&format!("/admin/v1/jobs/{}", answer.job_id())).await.expect(200).json();
    assert_eq!(examined["attempts"][0]["cost"], own);
    let page = Browser::logged_in(app.operator).await.page(&format!("/console/jobs/{}", answer.job_id())).await;
    assert!(page.contains("0.00148 USD"), "{page}");
    let metrics = app.operator().get("/metrics").await.expect(200).text();
    assert!(metrics.contains(r#"interlock_cost_total{currency="USD",provider="alpha"} 0.00148"#), "{metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_shows_what_a_job_cost() {
    let alpha = ScriptedUpstream::start().await;
    alpha.always(Reply::answer_of("hi", 1000, 10));
    let app = App::start(&priced(&alpha, PRICE)).await;
    let job = app.client("acme").await.chat("k", &ask("hi")).await.expect(200).job_id();
    let cli = Workplace::new(&format!("[database]\nurl = \"{}\"\nmax_connections = 2\n", app.database.url));
    let shown = cli.run(&["job", "show", &job]).expect(0).stdout;
    assert!(shown.contains("cost so far: 0.00208 USD"), "{shown}");
    let json = cli.run(&["job", "show", &job, "--json"]).expect(0).json();
    assert_eq!(json["attempts"][0]["cost"]["amount"], "0.00208");
}

#[tokio::test]
async fn a_price_that_changes_rewrites_nothing() {
    let alpha = ScriptedUpstream::start().await;
    alpha.always(Reply::answer_of("hi", 1000, 0));
    let app = App::start(&priced(&alpha, PRICE)).await;
    let client = app.client("acme").await;
    client.chat("k", &ask("hi")).await.expect(200);
    let dearer = App::beside(&app, &priced(&alpha, "prices.m1 = { input = 3, output = 8, currency = \"EUR\" }")).await;
    let there = client.at(dearer.application);
    assert_eq!(cost_of(&there.chat("k", &ask("hi")).await.expect(200)), Some("0.002 USD"));
    assert_eq!(cost_of(&there.chat("k2", &ask("hi")).await.expect(200)), Some("0.003 EUR"));
}

#[tokio::test]
async fn without_a_price_or_a_usage_the_cost_is_unknown_and_never_zero() {
    let alpha = ScriptedUpstream::start().await;
    alpha.next(Reply::answer("hi"));
    let app = App::start(&priced(&alpha, "")).await;
    let client = app.client("acme").await;
    let unpriced = client.chat("k", &ask("hi")).await.expect(200);
    let priced_now = App::beside(&app, &priced(&alpha, PRICE)).await;
    let there = client.at(priced_now.application);
    alpha.next(billed(CHOICE, "null"));
    let unbilled = there.chat("k2", &ask("hi")).await.expect(200);
    // Another tier of service has other prices.
    alpha.next(Reply::whole(
        200,
        "application/json",
        &format!(
            r#"{{"id":"a","object":"chat.completion","created":1,"model":"m1","service_tier":"flex","choices":[{CHOICE}],"usage":{{"prompt_tokens":1,"completion_tokens":1}}}}"#
        ),
    ));
    let flexible = there.chat("k3", &ask("hi")).await.expect(200);
    for answer in [unpriced, unbilled, flexible] {
        assert_eq!(cost_of(&answer), None);
        let job = job_of(&client, &answer).await;
        assert_eq!(job["cost"], json!({ "known": [], "unknown_attempts": 1 }));
        assert_eq!(job["attempts"][0]["cost"], Value::Null);
    }
}

#[tokio::test]
async fn a_failure_that_billed_counts_and_the_winners_cost_is_told_apart() {
    let (alpha, beta) = (ScriptedUpstream::start().await, ScriptedUpstream::start().await);
    alpha.always(billed("", r#"{"prompt_tokens":100,"completion_tokens":0}"#));
    beta.always(Reply::answer_of("of B", 3, 1));
    let app = App::start(&both(&alpha, &beta, "")).await;
    app.permit("beta/m2").await;
    let client = app.client("acme").await;
    let answer = client.chat("k", &ask("hi")).await.expect(200);
    assert_eq!(cost_of(&answer), Some("0.000201000003 USD"), "the failed attempt's and the winner's");
    let job = job_of(&client, &answer).await;
    assert_eq!(job["attempts"][0]["state"], "failed");
    assert_eq!(job["attempts"][0]["cost"]["amount"], "0.0002");
    assert_eq!(job["attempts"][1]["cost"]["amount"], "0.000001000003");
    assert_eq!(cost_of(&client.chat("k", &ask("hi")).await.expect(200)), Some("0.000201000003 USD"));
}

#[tokio::test]
async fn a_refusal_of_unknown_cost_is_counted_and_one_that_never_arrived_cost_nothing() {
    let (alpha, beta) = (ScriptedUpstream::start().await, ScriptedUpstream::start().await);
    alpha.always(Reply::overloaded());
    beta.always(Reply::answer_of("of B", 0, 2));
    let app = App::start(&both(&alpha, &beta, "")).await;
    app.permit("beta/m2").await;
    let client = app.client("acme").await;
    let answer = client.chat("k", &ask("hi")).await.expect(200);
    assert_eq!(cost_of(&answer), Some("0.000002 USD; unknown=1"), "some vendors bill refusals");
    let gone = format!("http://{}/v1", nobody_listens().await);
    let unreachable = both(&alpha, &beta, "").provider("alpha", "openai", &gone, PRICE);
    let there = App::beside(&app, &unreachable).await;
    let answer = client.at(there.application).chat("k2", &ask("hi")).await.expect(200);
    assert_eq!(cost_of(&answer), Some("0.000002 USD"));
    assert_eq!(job_of(&client, &answer).await["cost"]["unknown_attempts"], 0);
}

#[tokio::test]
async fn a_late_loser_costs_too_and_the_race_says_how_much() {
    let (alpha, beta) = (ScriptedUpstream::start().await, ScriptedUpstream::start().await);
    alpha.next(Reply::answer_of("of A", 40, 10).held());
    beta.next(Reply::answer_of("of B", 0, 2));
    let app = App::start(&both(&alpha, &beta, "attempt_timeout = \"400ms\"")).await;
    app.permit("beta/m2").await;
    let client = app.client("acme").await;
    let unknown = client.chat("k", &ask("hi")).await.expect(504);
    app.clear(&unknown.attempt_id(), "release").await.expect(200);
    client.job_in_state(&unknown.job_id(), "succeeded").await;
    let soon = client.chat("k", &ask("hi")).await.expect(200);
    assert_eq!(cost_of(&soon), Some("0.000002 USD; unknown=1"), "the other has not come back yet");
    alpha.release();
    let job = client.attempt_in_state(&unknown.job_id(), 1, "superseded").await;
    assert_eq!(job["attempts"][0]["cost"]["amount"], "0.00016");
    assert_eq!(cost_of(&client.chat("k", &ask("hi")).await.expect(200)), Some("0.000162 USD"));
    eventually("the race is logged", async || app.races().await.len() == 1).await;
    assert_eq!(app.races().await[0]["usage"]["cost"], json!({ "amount": "0.00016", "currency": "USD" }));
}

#[tokio::test]
async fn what_a_cancelled_attempt_still_brings_is_paid_for_and_stays_cancelled() {
    let alpha = ScriptedUpstream::start().await;
    alpha.next(Reply::answer_of("late", 40, 10).held());
    alpha.always(Reply::answer_of("again", 0, 1));
    let settings = priced(&alpha, PRICE).route("support", &["alpha/m1"], "attempt_timeout = \"400ms\"");
    let app = App::start(&settings).await;
    let client = app.client("acme").await;
    let unknown = client.chat("k", &ask("hi")).await.expect(504);
    app.clear(&unknown.attempt_id(), "cancel").await.expect(200);
    client.job_in_state(&unknown.job_id(), "succeeded").await;
    alpha.release();
    let paid = |job: &Value| job["attempts"][0]["cost"]["amount"] == "0.00016";
    let job = client.job_where(&unknown.job_id(), "the fenced attempt's cost is known", paid).await;
    assert_eq!(job["attempts"][0]["state"], "cancelled");
    assert_eq!(job["cost"]["known"][0]["amount"], "0.000168");
}

#[tokio::test]
async fn a_live_stream_cannot_say_what_it_will_cost_but_its_replay_does() {
    let alpha = ScriptedUpstream::start().await;
    alpha.always(sound(&["a"]));
    let app = App::start(&priced(&alpha, PRICE)).await;
    let client = app.client("acme").await;
    let mut live = client.chat_call("k", &ask_stream("hi")).open().await;
    assert!(!live.headers.contains_key("x-interlock-cost"));
    live.rest().await;
    let again = client.chat_call("k", &ask_stream("hi")).open().await;
    // 3 in, 5 out.
    assert_eq!(again.headers["x-interlock-cost"], "0.000046 USD");
}
