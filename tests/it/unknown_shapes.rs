//! R5: every way in which a provider can leave the outcome open, played byte for byte. None is retried, none fails
//! over, though retries are left and a permitted fallback stands ready.

use std::time::Duration;

use crate::support::app::App;
use crate::support::ask;
use crate::support::settings::Settings;
use crate::support::upstream::{Piece, Reply, ScriptedUpstream};

/// The one call's outcome is unknown for this reason, and nothing else is sent.
async fn assert_unknown(what: &str, reply: Reply, lines: &str, reason: &str) {
    let alpha = ScriptedUpstream::start().await;
    let beta = ScriptedUpstream::start().await;
    alpha.next(reply);
    let app = App::start(&Settings::two(&alpha, &beta, &format!("retries = 3\n{lines}"))).await;
    app.permit("beta/m2").await;
    let client = app.client("acme").await;
    let unknown = client.chat("k", &ask("hi")).await;
    assert_eq!(unknown.status, 504, "{what}: {}", unknown.text());
    let job = client.job(&unknown.job_id()).await;
    assert_eq!(job["state"], "unknown", "{what}");
    assert_eq!(job["attempts"][0]["state"], "unknown", "{what}: never failed");
    assert_eq!(job["attempts"][0]["reason"], reason, "{what}");
    client.chat_call("k", &ask("hi")).header("prefer", "wait=0").send().await.expect(504);
    assert_eq!((alpha.count(), beta.count()), (1, 0), "{what}: nothing was sent again");
}

#[tokio::test]
async fn a_connection_lost_before_the_head_is_unknown() {
    assert_unknown("reset after the request", Reply::reset(), "", "connection_lost").await;
    assert_unknown("closed after the request", Reply::close(), "", "connection_lost").await;
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_unknown() {
    assert_unknown("cut within its length", Reply::cut(), "", "answer_cut").await;
    assert_unknown("reset within its length", Reply::halves("x", vec![Piece::Reset]), "", "answer_cut").await;
    let without_length = Reply::cut_without_length();
    assert_unknown("cut without a length", without_length, "", "answer_without_length").await;
}

#[tokio::test]
async fn an_answer_of_some_hop_in_between_is_unknown() {
    assert_unknown("HTML 502", Reply::html(502), "", "foreign_answer").await;
    assert_unknown("HTML 500", Reply::html(500), "", "foreign_answer").await;
    assert_unknown("HTML 503", Reply::html(503), "", "foreign_answer").await;
    assert_unknown("HTML 504", Reply::html(504), "", "provider_timeout").await;
}

// B097
#[tokio::test]
async fn a_timeout_that_the_provider_reports_is_unknown() {
    let own = |status| Reply::error(status, "timeout", "upstream request timeout");
    assert_unknown("504", own(504), "", "provider_timeout").await;
    assert_unknown("408", own(408), "", "provider_timeout").await;
    assert_unknown("524", own(524), "", "provider_timeout").await;
    assert_unknown("499", own(499), "", "foreign_answer").await;
    assert_unknown("520", own(520), "", "foreign_answer").await;
    assert_unknown("522", own(522), "", "foreign_answer").await;
}

// B077
#[tokio::test]
async fn a_duplicate_that_the_provider_reports_is_unknown() {
    assert_unknown("409", Reply::error(409, "duplicate", "request is already being processed"), "", "conflict").await;
}

#[tokio::test]
async fn what_is_no_http_is_unknown() {
    let garbage = Reply::pieces(vec![Piece::Bytes(b"\x16\x03\x01 this is no HTTP\r\n\r\n".to_vec())]);
    assert_unknown("garbage", garbage, "", "garbage_answer").await;
}

// The head says nothing of the work: only content stops this clock.
#[tokio::test]
async fn a_head_alone_does_not_stop_the_clock_of_the_first_byte() {
    let head =
        Piece::Bytes(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 400\r\n\r\n".to_vec());
    let clocks = "first_byte_timeout = \"300ms\"\nidle_timeout = \"5s\"";
    assert_unknown("head only", Reply::pieces(vec![head, Piece::Hold]), clocks, "first_byte_timeout").await;
    assert_unknown("silence", Reply::answer("x").held(), clocks, "first_byte_timeout").await;
}

#[tokio::test]
async fn an_answer_that_stalls_in_the_middle_is_unknown() {
    let clocks = "first_byte_timeout = \"5s\"\nidle_timeout = \"300ms\"";
    assert_unknown("half an answer", Reply::halves("x", vec![Piece::Hold]), clocks, "idle_timeout").await;
}

#[tokio::test]
async fn an_answer_that_stalls_and_goes_on_is_the_outcome_all_the_same() {
    let alpha = ScriptedUpstream::start().await;
    alpha.next(Reply::halves("whole in the end", vec![Piece::Hold]));
    let app = App::start(&Settings::one(&alpha, "idle_timeout = \"300ms\"")).await;
    let client = app.client("acme").await;
    let job = client.chat("k", &ask("hi")).await.expect(504).job_id();
    alpha.release();
    client.job_in_state(&job, "succeeded").await;
    assert_eq!(client.result(&job).await.expect(200).content(), "whole in the end");
}

#[tokio::test]
async fn a_slow_answer_within_every_clock_is_simply_an_answer() {
    let alpha = ScriptedUpstream::start().await;
    let pauses = vec![Piece::Pause(Duration::from_millis(300))];
    alpha.next(Reply::halves("slow", pauses).after(Duration::from_millis(300)));
    let app = App::start(&Settings::one(&alpha, "first_byte_timeout = \"3s\"\nidle_timeout = \"3s\"")).await;
    assert_eq!(app.client("acme").await.chat("k", &ask("hi")).await.expect(200).content(), "slow");
}
