//! Sixteen faults of a public failover bench, each with one streaming request and one permitted fallback. On a route
//! with `stream = "settled"` and `on_unknown = "fail_over"` all are answered; with the defaults none may hang, show a
//! cut answer as a whole one, or hammer a provider.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::app::App;
use crate::support::ask_stream;
use crate::support::client::Client;
use crate::support::settings::Settings;
use crate::support::sse::{Heard, Stream, pause, sound};
use crate::support::upstream::{Piece, Reply, ScriptedUpstream};

const CLOCKS: &str = "attempt_timeout = \"6s\"\nfirst_byte_timeout = \"1s\"\nidle_timeout = \"500ms\"\nsettle_timeout = \"7s\"\nretries = 2";
const SETTLED: &str = "stream = \"settled\"\non_unknown = \"fail_over\"";

/// The primary, its permitted fallback, and what a client hears through the gateway.
struct Bench {
    alpha: ScriptedUpstream,
    beta: ScriptedUpstream,
    app: App,
    client: Client,
}

/// One answer, whole or not.
struct Outcome {
    status: u16,
    body: Value,
    heard: Heard,
    took: Duration,
}

impl Bench {
    async fn with(lines: &str) -> Bench {
        let (alpha, beta) = (ScriptedUpstream::start().await, ScriptedUpstream::start().await);
        alpha.always(sound(&["from ", "alpha"]));
        beta.always(sound(&["from ", "beta"]));
        let app = App::start(&Settings::two(&alpha, &beta, &format!("{CLOCKS}\n{lines}"))).await;
        app.permit("beta/m2").await;
        let client = app.client("acme").await;
        Bench { alpha, beta, app, client }
    }

    async fn settled() -> Bench {
        Bench::with(SETTLED).await
    }

    async fn defaults() -> Bench {
        Bench::with("").await
    }

    async fn ask(&self, key: &str) -> Outcome {
        let began = Instant::now();
        let mut stream = self.client.chat_call(key, &ask_stream("hi")).open().await;
        let status = stream.status;
        if status != 200 {
            let body = serde_json::from_str(&stream.text().await).expect("an error is JSON");
            return Outcome { status, body, heard: Heard::default(), took: began.elapsed() };
        }
        let events = stream.rest().await;
        Outcome { status, body: Value::Null, heard: Heard::of(&events), took: began.elapsed() }
    }

    async fn job(&self, key: &str) -> Value {
        self.client.job_with_key(key).await
    }
}

/// With the defaults a fault ends in an answer or in a bounded, clear error; never in a cut answer taken for a whole.
fn clean(outcome: &Outcome) {
    assert!(outcome.took < Duration::from_secs(30), "bounded: {:?}", outcome.took);
    match outcome.status {
        200 if outcome.heard.done => assert_eq!(outcome.heard.finish, ["stop"]),
        200 => assert!(outcome.heard.error.is_some(), "{:?}", outcome.heard),
        status => assert!((400..600).contains(&status), "{status}"),
    }
}

#[tokio::test]
async fn n01_one_429_with_retry_after_is_tried_again_not_too_early() {
    for bench in [Bench::settled().await, Bench::defaults().await] {
        bench.alpha.next(Reply::error(429, "rate_limit_exceeded", "slow down").header("retry-after", "2"));
        bench.ask("k").await.heard.assert_whole("from alpha");
        let calls = bench.alpha.calls();
        assert_eq!((calls.len(), bench.beta.count()), (2, 0));
        assert!(calls[1].at - calls[0].at >= Duration::from_millis(1_800));
    }
}

#[tokio::test]
async fn n02_endless_429_is_not_hammered_and_fails_over() {
    for bench in [Bench::settled().await, Bench::defaults().await] {
        bench.alpha.always(Reply::error(429, "rate_limit_exceeded", "slow down"));
        bench.ask("k").await.heard.assert_whole("from beta");
        assert!(bench.alpha.count() <= 4, "{}", bench.alpha.count());
    }
}

#[tokio::test]
async fn n03_one_500_is_tried_once_more_at_the_same_provider() {
    for bench in [Bench::settled().await, Bench::defaults().await] {
        bench.alpha.next(Reply::error(500, "server_error", "oops"));
        bench.ask("k").await.heard.assert_whole("from alpha");
        assert_eq!((bench.alpha.count(), bench.beta.count()), (2, 0));
    }
}

#[tokio::test]
async fn n04_endless_503_fails_over() {
    for bench in [Bench::settled().await, Bench::defaults().await] {
        bench.alpha.always(Reply::overloaded());
        bench.ask("k").await.heard.assert_whole("from beta");
        assert!(bench.alpha.count() <= 3);
    }
}

#[tokio::test]
async fn n05_a_reset_before_the_head_is_answered_or_told() {
    let bench = Bench::settled().await;
    bench.alpha.next(Reply::reset());
    bench.ask("k").await.heard.assert_whole("from beta");
    assert_eq!(bench.alpha.count(), 1, "a provider that may have it is not asked twice");
    let bench = Bench::defaults().await;
    bench.alpha.next(Reply::reset());
    let outcome = bench.ask("k").await;
    clean(&outcome);
    assert_eq!(outcome.body["error"]["code"], "attempt_unknown");
    assert_eq!((bench.alpha.count(), bench.beta.count()), (1, 0), "held, and nothing sent twice");
}

#[tokio::test]
async fn n06_a_provider_that_never_answers_ends_by_the_clock_and_is_asked_once() {
    for bench in [Bench::settled().await, Bench::defaults().await] {
        bench.alpha.next(Reply::answer("never").held());
        let outcome = bench.ask("k").await;
        clean(&outcome);
        assert_eq!(bench.alpha.count(), 1);
    }
    let bench = Bench::settled().await;
    bench.alpha.next(Reply::answer("never").held());
    bench.ask("k").await.heard.assert_whole("from beta");
}

#[tokio::test]
async fn n07_a_first_token_that_does_not_come_leads_to_the_fallback() {
    let late = || Stream::begin().then(pause(4_000)).words(&["late"]).sound();
    let bench = Bench::settled().await;
    bench.alpha.next(late());
    let outcome = bench.ask("k").await;
    outcome.heard.assert_whole("from beta");
    assert!(outcome.took < Duration::from_secs(4), "{:?}", outcome.took);
    let bench = Bench::defaults().await;
    bench.alpha.next(late());
    clean(&bench.ask("k").await);
}

#[tokio::test]
async fn n08_a_stream_that_dies_is_never_taken_for_a_whole_one() {
    let dies = || Stream::begin().words(&["word "; 40]).cut();
    let bench = Bench::settled().await;
    bench.alpha.next(dies());
    bench.ask("k").await.heard.assert_whole("from beta");
    let bench = Bench::defaults().await;
    bench.alpha.next(dies());
    let outcome = bench.ask("k").await;
    clean(&outcome);
    outcome.heard.assert_broken("attempt_unknown");
}

#[tokio::test]
async fn n09_a_stream_that_stalls_is_seen_in_bounded_time_and_the_gateway_stays_well() {
    let stalls = || Stream::begin().words(&["word "; 20]).then(Piece::Hold).sound();
    let bench = Bench::settled().await;
    bench.alpha.next(stalls());
    bench.ask("k").await.heard.assert_whole("from beta");
    let bench = Bench::defaults().await;
    bench.alpha.next(stalls());
    let outcome = bench.ask("k").await;
    clean(&outcome);
    assert!(outcome.took < Duration::from_secs(5));
    bench.ask("next").await.heard.assert_whole("from alpha");
}

#[tokio::test]
async fn n10_an_event_that_is_no_json_is_a_clean_failure() {
    let garbled = || Stream::begin().words(&["one "]).data("{\"id\":\"chatcmpl-s\",\"cho").words(&["two"]).sound();
    let bench = Bench::settled().await;
    bench.alpha.always(garbled());
    bench.ask("k").await.heard.assert_whole("from beta");
    let bench = Bench::defaults().await;
    bench.alpha.always(garbled());
    clean(&bench.ask("k").await);
    bench.alpha.always(sound(&["well"]));
    bench.ask("next").await.heard.assert_whole("well");
}

#[tokio::test]
async fn n11_a_stream_without_done_ends_promptly_with_its_usage() {
    for bench in [Bench::settled().await, Bench::defaults().await] {
        bench.alpha.next(Stream::begin().words(&["one"]).finish("stop").usage(3, 5).then(Piece::Hold).end());
        let outcome = bench.ask("k").await;
        outcome.heard.assert_whole("one");
        assert!(outcome.took < Duration::from_secs(8), "{:?}", outcome.took);
        assert_eq!(outcome.heard.usage.expect("asked for")["total_tokens"], 8);
    }
}

#[tokio::test]
async fn n12_a_prompt_too_long_is_not_tried_again_at_the_same_model() {
    for bench in [Bench::settled().await, Bench::defaults().await] {
        let told = "This model's maximum context length is 4096 tokens";
        bench.alpha.always(Reply::error(400, "context_length_exceeded", told));
        bench.ask("k").await.heard.assert_whole("from beta");
        assert_eq!(bench.alpha.count(), 1);
    }
}

#[tokio::test]
async fn n13_a_content_policy_refusal_reaches_the_caller_and_is_not_routed_around() {
    for bench in [Bench::settled().await, Bench::defaults().await] {
        bench.alpha.always(Reply::error(400, "content_policy_violation", "refused: unsafe"));
        let outcome = bench.ask("k").await;
        assert_eq!(outcome.status, 400);
        assert!(outcome.body["error"]["message"].as_str().is_some_and(|told| told.contains("refused: unsafe")));
        assert_eq!((bench.alpha.count(), bench.beta.count()), (1, 0));
    }
}

#[tokio::test]
async fn n14_the_fallback_gets_the_callers_own_request() {
    let bench = Bench::settled().await;
    bench.alpha.next(Stream::begin().words(&["half "]).cut());
    bench.ask("k").await.heard.assert_whole("from beta");
    let sent = bench.beta.calls()[0].json();
    assert_eq!(sent["messages"], ask_stream("hi")["messages"], "no prefill of the broken answer");
}

#[tokio::test]
async fn n15_an_outage_is_bridged_and_the_primary_comes_back() {
    let bench = Bench::settled().await;
    bench.alpha.always(Reply::overloaded());
    let began = Instant::now();
    for n in 0..6 {
        bench.ask(&format!("during-{n}")).await.heard.assert_whole("from beta");
    }
    let hammered = bench.alpha.count();
    assert!(hammered <= 8, "the circuit spares a target that keeps failing: {hammered} calls");
    bench.alpha.always(sound(&["from ", "alpha"]));
    let mut n = 0;
    loop {
        let heard = bench.ask(&format!("after-{n}")).await.heard;
        if heard.text == "from alpha" {
            break;
        }
        heard.assert_whole("from beta");
        assert!(began.elapsed() < Duration::from_secs(30), "back on the primary within 30 s");
        n += 1;
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
}

#[tokio::test]
async fn n16_the_answer_names_the_fallback_and_the_failed_attempts_are_not_billed() {
    for bench in [Bench::settled().await, Bench::defaults().await] {
        bench.alpha.always(Reply::overloaded());
        let mut stream = bench.client.chat_call("k", &ask_stream("hi")).open().await;
        assert_eq!(stream.headers["x-interlock-provider"], "beta");
        Heard::of(&stream.rest().await).assert_whole("from beta");
        let job = bench.job("k").await;
        let attempts = job["attempts"].as_array().expect("attempts");
        let (failed, won) = attempts.split_at(attempts.len() - 1);
        assert!(failed.iter().all(|attempt| attempt["usage"].is_null() && attempt["state"] == "failed"));
        assert_eq!((won[0]["provider"].as_str(), won[0]["usage"]["output_tokens"].as_u64()), (Some("beta"), Some(5)));
        drop(bench.app);
    }
}
