//! Streams are jobs like any other: durable, attachable, replayable, with one winner; a cut one is never a clean 200.

use serde_json::json;

use crate::support::app::App;
use crate::support::client::{Client, OpenStream};
use crate::support::settings::Settings;
use crate::support::sse::{Heard, Stream, pause, sound};
use crate::support::upstream::{Piece, Reply, ScriptedUpstream, Wire};
use crate::support::{ask, ask_stream};

const CLOCKS: &str = "attempt_timeout = \"20s\"\nidle_timeout = \"400ms\"\nfirst_byte_timeout = \"2s\"\nretries = 0";

async fn streaming(client: &Client, key: &str) -> OpenStream {
    client.chat_call(key, &ask_stream("hi")).open().await
}

async fn heard(client: &Client, key: &str) -> Heard {
    let mut stream = streaming(client, key).await;
    assert_eq!(stream.status, 200);
    Heard::of(&stream.rest().await)
}

#[tokio::test]
async fn a_stream_goes_out_as_it_comes_and_ends_after_the_winning_commit() {
    let alpha = ScriptedUpstream::start().await;
    alpha.next(Stream::begin().words(&["one "]).then(Piece::Hold).words(&["two"]).sound());
    let settings = Settings::one(&alpha, "attempt_timeout = \"20s\"\nretries = 0");
    let app = App::start(&settings).await;
    let client = app.client("acme").await;
    let mut stream = streaming(&client, "k").await;
    let job = stream.headers["x-interlock-job-id"].to_str().expect("an id").to_owned();
    assert_eq!(stream.headers["content-type"], "text/event-stream");
    let first = [stream.next().await.expect("the role"), stream.next().await.expect("a word")];
    assert_eq!(Heard::of(&first).text, "one ", "before the provider has ended");
    assert_eq!(client.job(&job).await["state"], "running");
    alpha.release();
    let rest = stream.rest().await;
    let all: Vec<String> = first.into_iter().chain(rest).collect();
    Heard::of(&all).assert_whole("one two");
    assert_eq!(Heard::of(&all).usage.expect("asked for")["total_tokens"], 8);
    assert_eq!(client.job(&job).await["state"], "succeeded", "[DONE] was a promise kept");
    let sent = alpha.calls()[0].json();
    assert_eq!((&sent["stream"], &sent["stream_options"]["include_usage"]), (&json!(true), &json!(true)));
}

#[tokio::test]
async fn usage_is_shown_only_to_those_who_asked() {
    let alpha = ScriptedUpstream::start().await;
    alpha.always(sound(&["a"]));
    let app = App::start(&Settings::one(&alpha, CLOCKS)).await;
    let client = app.client("acme").await;
    let mut body = ask_stream("hi");
    body.as_object_mut().expect("an object").remove("stream_options");
    let mut stream = client.chat_call("k", &body).open().await;
    assert_eq!(Heard::of(&stream.rest().await).usage, None);
    let job = client.job_with_key("k").await;
    assert_eq!(job["attempts"][0]["usage"]["output_tokens"], 5, "and kept all the same");
}

#[tokio::test]
async fn a_second_click_joins_the_running_stream_from_its_first_chunk() {
    let alpha = ScriptedUpstream::start().await;
    alpha.next(Stream::begin().words(&["one "]).then(Piece::Hold).words(&["two"]).sound());
    let settings = Settings::one(&alpha, "attempt_timeout = \"20s\"\nretries = 0");
    let app = App::start(&settings).await;
    let beside = App::beside(&app, &settings).await;
    let client = app.client("acme").await;
    let mut first = streaming(&client, "k").await;
    first.next().await.expect("it has begun");
    let mut second = streaming(&client, "k").await;
    let mut elsewhere = client.at(beside.application).chat_call("k", &ask_stream("hi")).open().await;
    for stream in [&mut second, &mut elsewhere] {
        assert_eq!(stream.headers["x-interlock-provider"], "alpha");
        assert_eq!(stream.headers["x-interlock-attempts"], "1");
        let begun = [stream.next().await.expect("the role"), stream.next().await.expect("a word")];
        assert_eq!(Heard::of(&begun).text, "one ", "while it runs");
    }
    alpha.release();
    for stream in [&mut second, &mut elsewhere] {
        Heard::of(&stream.rest().await).assert_whole("two");
    }
    assert_eq!(alpha.count(), 1);
}

#[tokio::test]
async fn a_finished_job_replays_in_either_form_with_the_same_bytes_in_the_same_form() {
    let alpha = ScriptedUpstream::start().await;
    alpha.next(sound(&["one ", "two"]));
    alpha.next(Reply::answer("whole"));
    let app = App::start(&Settings::one(&alpha, CLOCKS)).await;
    let client = app.client("acme").await;
    let first = streaming(&client, "k").await.rest().await;
    let mut again = streaming(&client, "k").await;
    assert_eq!(again.headers["idempotent-replayed"], "true");
    assert_eq!(again.rest().await, first, "the same bytes");
    let whole = client.chat("k", &ask("hi")).await.expect(200);
    assert_eq!((whole.content(), whole.is_replayed()), ("one two".to_owned(), true));
    assert_eq!(whole.json()["usage"]["total_tokens"], 8);
    client.chat("w", &ask("hi")).await.expect(200);
    let cut_anew = heard(&client, "w").await;
    cut_anew.assert_whole("whole");
    assert_eq!(cut_anew.usage.expect("asked for")["total_tokens"], 4);
    assert_eq!(alpha.count(), 2);
}

#[tokio::test]
async fn a_client_that_hangs_up_loses_nothing() {
    let alpha = ScriptedUpstream::start().await;
    alpha.next(Stream::begin().words(&["one "]).then(pause(200)).words(&["two"]).sound());
    let app = App::start(&Settings::one(&alpha, CLOCKS)).await;
    let client = app.client("acme").await;
    let mut stream = streaming(&client, "k").await;
    stream.next().await.expect("it has begun");
    drop(stream);
    let job = client.job_with_key("k").await;
    client.job_in_state(job["id"].as_str().expect("an id"), "succeeded").await;
    heard(&client, "k").await.assert_whole("one two");
    assert_eq!(alpha.count(), 1);
}

// B021, R5
#[tokio::test]
async fn a_stream_without_its_terminal_event_is_unknown_and_has_no_done() {
    for reply in [
        Stream::begin().words(&["one "]).cut(),
        Stream::begin().words(&["one "]).end(),
        Stream::begin().words(&["one "]).data("[DONE]").end(),
    ] {
        let alpha = ScriptedUpstream::start().await;
        alpha.next(reply);
        let app = App::start(&Settings::one(&alpha, CLOCKS)).await;
        let client = app.client("acme").await;
        let heard = heard(&client, "k").await;
        heard.assert_broken("attempt_unknown");
        let job = client.job_with_key("k").await;
        assert_eq!((&job["state"], &job["attempts"][0]["state"]), (&json!("unknown"), &json!("unknown")));
        assert_eq!(alpha.count(), 1);
    }
}

// B022
#[tokio::test]
async fn a_finish_reason_is_enough_and_done_is_not_needed() {
    let alpha = ScriptedUpstream::start().await;
    alpha.next(Stream::begin().words(&["one"]).finish("stop").end());
    let app = App::start(&Settings::one(&alpha, CLOCKS)).await;
    heard(&app.client("acme").await, "k").await.assert_whole("one");
}

// B018, B019, B080
#[tokio::test]
async fn an_error_before_any_content_is_a_failure_like_any_other() {
    for frame in [r#"{"error":{"message":"no capacity","code":null}}"#, r#"{"error":{"message":"busy","code":429.0}}"#]
    {
        let (alpha, beta) = (ScriptedUpstream::start().await, ScriptedUpstream::start().await);
        alpha.always(Stream::begin().raw(": warming up\n\n").data(frame).end());
        beta.always(sound(&["from beta"]));
        let app = App::start(&Settings::two(&alpha, &beta, CLOCKS)).await;
        let client = app.client("acme").await;
        let refused = client.chat("refused", &ask_stream("hi")).await;
        assert_eq!((refused.status, refused.code()), (502, "all_targets_failed".to_owned()), "a real status");
        app.permit("beta/m2").await;
        heard(&client, "k").await.assert_whole("from beta");
    }
}

// B078, B079, D12
#[tokio::test]
async fn after_content_there_is_no_second_answer_in_the_same_stream() {
    let (alpha, beta) = (ScriptedUpstream::start().await, ScriptedUpstream::start().await);
    let error = r#"{"error":{"message":"broke","type":"server_error"}}"#;
    alpha.next(Stream::begin().words(&["half an "]).data(error).end());
    alpha.always(Reply::overloaded());
    beta.always(sound(&["a whole one"]));
    let app = App::start(&Settings::two(&alpha, &beta, CLOCKS)).await;
    app.permit("beta/m2").await;
    let client = app.client("acme").await;
    let broken = heard(&client, "k").await;
    assert_eq!(broken.text, "half an ");
    broken.assert_broken("all_targets_failed");
    assert_eq!(beta.count(), 0);
    heard(&client, "k").await.assert_whole("a whole one");
}

#[tokio::test]
async fn a_settled_stream_fails_over_unseen() {
    let (alpha, beta) = (ScriptedUpstream::start().await, ScriptedUpstream::start().await);
    alpha.next(Stream::begin().words(&["half an "]).cut());
    beta.next(sound(&["a whole one"]));
    let lines = format!("{CLOCKS}\nstream = \"settled\"\non_unknown = \"fail_over\"");
    let app = App::start(&Settings::two(&alpha, &beta, &lines)).await;
    app.permit("beta/m2").await;
    heard(&app.client("acme").await, "k").await.assert_whole("a whole one");
}

#[tokio::test]
async fn a_stalled_stream_ends_in_time_and_its_late_end_is_kept() {
    let alpha = ScriptedUpstream::start().await;
    alpha.next(Stream::begin().words(&["one "]).then(Piece::Hold).words(&["two"]).sound());
    let app = App::start(&Settings::one(&alpha, CLOCKS)).await;
    let client = app.client("acme").await;
    heard(&client, "k").await.assert_broken("attempt_unknown");
    alpha.release();
    let job = client.job_with_key("k").await;
    client.job_in_state(job["id"].as_str().expect("an id"), "succeeded").await;
    heard(&client, "k").await.assert_whole("one two");
    assert_eq!(alpha.count(), 1);
}

#[tokio::test]
async fn comments_do_not_reset_the_clocks() {
    let alpha = ScriptedUpstream::start().await;
    let mut stream = Stream::begin().words(&["one "]);
    for _ in 0..30 {
        stream = stream.then(pause(50)).raw(": still here\n\n");
    }
    alpha.next(stream.words(&["two"]).sound());
    let app = App::start(&Settings::one(&alpha, CLOCKS)).await;
    heard(&app.client("acme").await, "k").await.assert_broken("attempt_unknown");
}

#[tokio::test]
async fn tool_calls_stream_with_stable_indexes_and_replay_the_same() {
    let alpha = ScriptedUpstream::start().await;
    let call = |index: u64, id: &str, arguments: &str| json!({ "tool_calls": [{ "index": index, "id": id, "type": "function", "function": { "name": "rd", "arguments": arguments } }] });
    let more = |index: u64, arguments: &str| json!({ "tool_calls": [{ "index": index, "function": { "arguments": arguments } }] });
    alpha.next(
        Stream::begin()
            .delta(&call(0, "c1", ""))
            .delta(&call(1, "c2", ""))
            .delta(&more(1, "{\"id\":7300000000000000001}"))
            .delta(&more(0, "{\"path\":\"a\"}"))
            .finish("tool_calls")
            .data("[DONE]")
            .end(),
    );
    let app = App::start(&Settings::one(&alpha, CLOCKS)).await;
    let client = app.client("acme").await;
    let heard = heard(&client, "k").await;
    assert_eq!((heard.finish, heard.done), (vec!["tool_calls".to_owned()], true));
    let whole = client.chat("k", &ask("hi")).await.expect(200).json();
    let calls = &whole["choices"][0]["message"]["tool_calls"];
    assert_eq!(calls[0]["function"]["arguments"], "{\"path\":\"a\"}");
    assert_eq!(calls[1]["function"]["arguments"], "{\"id\":7300000000000000001}");
}

#[tokio::test]
async fn an_anthropic_stream_comes_out_in_openais_shape() {
    let alpha = ScriptedUpstream::speaking(Wire::Anthropic).await;
    let events = [
        (
            "message_start",
            json!({"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude","content":[],"stop_reason":null,"usage":{"input_tokens":3,"output_tokens":1}}}),
        ),
        (
            "content_block_start",
            json!({"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}),
        ),
        ("ping", json!({"type":"ping"})),
        (
            "content_block_delta",
            json!({"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"one "}}),
        ),
        (
            "content_block_delta",
            json!({"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"two"}}),
        ),
        ("content_block_stop", json!({"type":"content_block_stop","index":0})),
        (
            "message_delta",
            json!({"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":5}}),
        ),
        ("message_stop", json!({"type":"message_stop"})),
    ];
    let body: String = events.iter().map(|(name, data)| format!("event: {name}\ndata: {data}\n\n")).collect();
    alpha.next(Reply::whole(200, "text/event-stream", &body));
    let app = App::start(&Settings::one(&alpha, CLOCKS)).await;
    let client = app.client("acme").await;
    let heard = heard(&client, "k").await;
    heard.assert_whole("one two");
    assert_eq!(heard.usage.expect("asked for")["total_tokens"], 8);
    assert_eq!(client.chat("k", &ask("hi")).await.expect(200).content(), "one two");
}

#[tokio::test]
async fn a_jobs_events_can_be_resumed_from_any_point() {
    let alpha = ScriptedUpstream::start().await;
    alpha.next(sound(&["one ", "two ", "three"]));
    let app = App::start(&Settings::one(&alpha, CLOCKS)).await;
    let client = app.client("acme").await;
    streaming(&client, "k").await.rest().await;
    let job = client.job_with_key("k").await;
    let path = format!("/v1/jobs/{}/events", job["id"].as_str().expect("an id"));
    let all = client.request(http::Method::GET, &path).open().await.rest().await;
    assert!(all[0].starts_with("event: state\ndata: "), "{}", all[0]);
    assert_eq!(all.last().map(String::as_str), Some("event: done\ndata: [DONE]"));
    let chunks: Vec<&String> = all.iter().filter(|event| event.starts_with("event: chunk\n")).collect();
    assert_eq!(chunks.len(), 6, "role, three words, finish, usage: {all:?}");
    for (position, chunk) in chunks.iter().enumerate() {
        let id = chunk.lines().find_map(|line| line.strip_prefix("id: ")).expect("an id");
        let call = client.request(http::Method::GET, &path).header("last-event-id", id);
        let rest = call.open().await.rest().await;
        let got: Vec<&String> = rest.iter().filter(|event| event.starts_with("event: chunk\n")).collect();
        assert_eq!(got, chunks[position + 1..], "after {id}");
    }
    let foreign = app.client("other").await.get(&path).await;
    assert_eq!(foreign.status, 404);
}
