//! Gateways of one database share each limit: together they let in what it allows, no more and no less.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;
use tokio::task::JoinSet;

use super::{ask_for, begin, seconds};
use crate::support::app::App;
use crate::support::client::{Answer, Client};
use crate::support::cluster::Database;
use crate::support::process::Process;
use crate::support::settings::Settings;
use crate::support::upstream::{Reply, ScriptedUpstream};
use crate::support::{ask, eventually};

/// So many requests at once, in turns at each gateway: how many were let in, and how many refused with 429.
async fn rush(clients: &[Client], name: &str, count: usize) -> (usize, usize) {
    let mut calls = JoinSet::new();
    for n in 0..count {
        calls.spawn(clients[n % clients.len()].chat_call(&format!("{name}-{n}"), &ask_for(100)).send());
    }
    let answers: Vec<Answer> = calls.join_all().await;
    let of = |status| answers.iter().filter(|answer| answer.status == status).count();
    assert_eq!(of(200) + of(429), count, "{:?}", answers.iter().find(|a| ![200, 429].contains(&a.status)));
    (of(200), of(429))
}

async fn two(lines: &str) -> (ScriptedUpstream, [App; 2], [Client; 2]) {
    let alpha = ScriptedUpstream::start().await;
    alpha.always(Reply::answer_of("yes", 50, 50));
    let settings = Settings::one(&alpha, "").raw(lines);
    let one = App::start(&settings).await;
    let other = App::beside(&one, &settings).await;
    let client = one.client("acme").await;
    let clients = [client.clone(), client.at(other.application)];
    (alpha, [one, other], clients)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_gateways_together_let_in_the_requests_of_one_limit() {
    let (alpha, _apps, clients) = two("[limits]\nrequests_per_minute = 40").await;
    assert_eq!(rush(&clients, "a", 30).await, (30, 0));
    assert_eq!(rush(&clients, "b", 30).await, (10, 20));
    assert_eq!(alpha.count(), 40);
    let refused = clients[1].chat("c", &ask("hi")).await.expect(429);
    assert_eq!(refused.json()["error"]["limit"]["used"], json!(40));
    assert_eq!(seconds(&refused, "x-ratelimit-remaining-requests"), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_gateways_together_let_in_the_tokens_of_one_limit() {
    let (alpha, _apps, clients) = two("[limits]\ntokens_per_minute = 2000").await;
    assert_eq!(rush(&clients, "a", 60).await, (20, 40));
    assert_eq!(alpha.count(), 20);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_gateways_together_run_as_many_jobs_as_one_limit_allows() {
    let (alpha, _apps, clients) = two("[limits]\nconcurrent_jobs = 6").await;
    alpha.always(Reply::answer("yes").held());
    let mut calls = JoinSet::new();
    for n in 0..24 {
        begin(&mut calls, &clients[n % 2], &format!("k{n}"), &ask("hi"));
    }
    for _ in 0..18 {
        calls.join_next().await.expect("a call").expect("an answer").expect(429);
    }
    alpha.wait_for_calls(6).await;
    alpha.release();
    for answer in calls.join_all().await {
        answer.expect(200);
    }
    assert_eq!(alpha.count(), 6);
    // What ran in one of them may run in the other now.
    alpha.always(Reply::answer("yes"));
    let rounds = AtomicUsize::new(0);
    eventually("the other knows", async || {
        let round = rounds.fetch_add(1, Ordering::Relaxed);
        rush(&clients[1..], &format!("next{round}"), 6).await == (6, 0)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_that_starts_anew_knows_what_was_spent_before_it() {
    let (_alpha, [one, other], clients) = two("[limits]\nrequests_per_minute = 5").await;
    assert_eq!(rush(&clients[..1], "a", 4).await, (4, 0));
    one.shut_down().await;
    assert_eq!(rush(&clients[1..], "b", 4).await, (1, 3));
    other.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_killed_gateway_held_is_kept_by_its_unknown_attempts() {
    let alpha = ScriptedUpstream::start().await;
    alpha.always(Reply::answer("yes").held());
    let settings = Settings::one(&alpha, "").raw("[limits]\nconcurrent_jobs = 2");
    let database = Database::fresh().await;
    let other = App::on(&database, &settings).await;
    let mut process = Process::spawn(&database, &settings).await;
    let client = other.client("acme").await;
    let at_the_process = client.at(process.application);
    let mut calls = JoinSet::new();
    for n in 0..2 {
        let call = at_the_process.chat_call(&format!("k{n}"), &ask("hi"));
        calls.spawn(async move { call.try_send().await.map(|answer| answer.status).ok() });
    }
    alpha.wait_for_calls(2).await;
    client.chat("k2", &ask("hi")).await.expect(429);
    process.kill().await;
    // Its claim ends, and its attempts are unknown before that: at no moment is there room.
    let until = tokio::time::Instant::now() + Duration::from_secs(28);
    while tokio::time::Instant::now() < until {
        client.chat("k2", &ask("hi")).await.expect(429);
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    let unknown = "SELECT count(*) FROM attempts WHERE state = 'unknown' AND reason = 'instance_lost'";
    assert_eq!(database.count(unknown).await, 2);
    alpha.always(Reply::answer("yes"));
    let jobs = other.operator().get("/admin/v1/jobs?state=unknown").await.expect(200).json();
    for job in jobs["data"].as_array().expect("a list") {
        let attempt = job["attempts"][0]["id"].as_str().expect("an id");
        other.clear(attempt, "fail").await.expect(200);
    }
    eventually("their room is free", async || client.chat("k2", &ask("hi")).await.status == 200).await;
}
