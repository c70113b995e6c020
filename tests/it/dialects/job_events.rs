//! `GET /v1/jobs/{id}/events` shows a job in the words of the dialect that it was asked in.

use http::Method;
use serde_json::{Value, json};

use super::{CLOCKS, call, whole};
use crate::support::app::App;
use crate::support::client::Client;
use crate::support::settings::Settings;
use crate::support::sse::Stream;
use crate::support::upstream::{Piece, Reply, ScriptedUpstream};

fn asks() -> [(&'static str, Value); 3] {
    let messages = json!([{ "role": "user", "content": "hi" }]);
    [
        (
            "/v1/chat/completions",
            json!({ "model": "support", "messages": messages, "stream_options": { "include_usage": true } }),
        ),
        ("/v1/messages", json!({ "model": "support", "max_tokens": 64, "messages": messages })),
        ("/v1/responses", json!({ "model": "support", "input": "hi" })),
    ]
}

/// What each event's data is; the closing word is none.
fn data(events: &[String]) -> Vec<&str> {
    let lines = events.iter().flat_map(|event| event.lines());
    lines.filter_map(|line| line.strip_prefix("data: ")).filter(|data| *data != "[DONE]").collect()
}

/// The chunks among a job's events, each as its id and its data.
fn chunks(events: &[String]) -> Vec<(&str, &str)> {
    let chunks = events.iter().filter_map(|event| event.strip_prefix("event: chunk\nid: "));
    chunks.map(|event| event.split_once("\ndata: ").expect("data")).collect()
}

async fn followed(client: &Client, path: &str, after: Option<&str>) -> Vec<String> {
    let call = client.request(Method::GET, path);
    let call = match after {
        Some(id) => call.header("last-event-id", id),
        None => call,
    };
    call.open().await.rest().await
}

fn path_of(job: &Value) -> String {
    format!("/v1/jobs/{}/events", job["id"].as_str().expect("an id"))
}

#[tokio::test]
async fn a_jobs_chunks_are_the_events_of_its_dialect_and_are_resumed_from_any_of_them() {
    let alpha = ScriptedUpstream::start().await;
    let app = App::start(&Settings::one(&alpha, CLOCKS)).await;
    let client = app.client("acme").await;
    for (path, body) in asks() {
        let mut body = body;
        for streamed in [true, false] {
            alpha.next(match streamed {
                true => Stream::begin().words(&["one ", "two"]).sound(),
                false => Reply::answer("one two"),
            });
            let key = format!("{}-{streamed}", path.replace('/', "-"));
            body["stream"] = streamed.into();
            call(&client, path, &key, &body).open().await.rest().await;
            body["stream"] = true.into();
            let shown = whole(call(&client, path, &key, &body).open().await).await;
            let job = path_of(&client.job_with_key(&key).await);
            let all = followed(&client, &job, None).await;
            let told: Vec<&str> = chunks(&all).into_iter().map(|(_, data)| data).collect();
            assert_eq!(told, data(&shown), "{path}, streamed: {streamed}");
            assert!(told.len() > 3, "{told:?}");
            for (at, (id, _)) in chunks(&all).into_iter().enumerate() {
                let rest = followed(&client, &job, Some(id)).await;
                assert_eq!(chunks(&rest), chunks(&all)[at + 1..], "{path}: after {id}");
            }
        }
    }
}

#[tokio::test]
async fn while_it_runs_a_jobs_chunks_have_the_numbers_that_they_keep() {
    let alpha = ScriptedUpstream::start().await;
    let app = App::start(&Settings::one(&alpha, CLOCKS)).await;
    let client = app.client("acme").await;
    for (path, mut body) in asks() {
        alpha.next(Stream::begin().words(&["one "]).then(Piece::Hold).words(&["two"]).sound());
        body["stream"] = true.into();
        let mut asked = call(&client, path, path, &body).open().await;
        asked.next().await.expect("an event");
        let job = path_of(&client.job_with_key(path).await);
        let mut following = client.request(Method::GET, &job).open().await;
        let mut seen = Vec::new();
        while chunks(&seen).is_empty() {
            seen.push(following.next().await.expect("an event"));
        }
        alpha.release();
        seen.extend(following.rest().await);
        asked.rest().await;
        let all = followed(&client, &job, None).await;
        assert_eq!(chunks(&seen), chunks(&all), "{path}");
    }
}
