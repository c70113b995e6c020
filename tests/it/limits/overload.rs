//! More than the gateway can carry is refused at the door, at once, and bounded: nothing piles up behind it.

use tokio::task::JoinSet;

use super::begin;
use crate::support::app::App;
use crate::support::ask;
use crate::support::settings::Settings;
use crate::support::upstream::{Reply, ScriptedUpstream};

#[tokio::test]
async fn jobs_beyond_what_this_process_may_carry_are_refused_with_503() {
    let alpha = ScriptedUpstream::start().await;
    alpha.always(Reply::answer("yes").held());
    let app = App::start(&Settings::one(&alpha, "").server("max_jobs = 1")).await;
    let client = app.client("acme").await;
    let mut calls = JoinSet::new();
    begin(&mut calls, &client, "k0", &ask("hi"));
    alpha.wait_for_calls(1).await;
    for refused in [client.chat("k1", &ask("hi")).await, client.create_job("k1", &ask("hi")).await] {
        let refused = refused.expect(503);
        assert_eq!((refused.code().as_str(), refused.header("retry-after")), ("overloaded", Some("1")));
    }
    assert_eq!(app.database.count("SELECT count(*) FROM jobs").await, 1);
    alpha.release();
    calls.join_next().await.expect("a call").expect("an answer").expect(200);
    client.chat("k1", &ask("hi")).await.expect(200);
    let metrics = app.operator().get("/metrics").await.text();
    assert!(metrics.contains("interlock_refused_total{reason=\"overloaded\"} 2"), "{metrics}");
}

#[tokio::test]
async fn while_as_many_as_may_be_are_on_their_way_to_the_database_the_rest_are_refused_before_they_reach_it() {
    let alpha = ScriptedUpstream::start().await;
    alpha.always(Reply::answer("yes"));
    let app = App::start(&Settings::one(&alpha, "")).await;
    let client = app.client("acme").await;
    let mut places = Vec::new();
    while let Ok(place) = app.engine.gate().enter() {
        places.push(place);
        assert!(places.len() <= 4_096, "the door has no bound");
    }
    let (entering, most) = app.engine.gate().load();
    assert_eq!((entering, places.len()), (most, most), "who was refused has left again");
    let refused = client.chat("k0", &ask("hi")).await.expect(503);
    assert_eq!((refused.code().as_str(), refused.header("retry-after")), ("overloaded", Some("1")));
    // The look-up of the key is a way to the database too.
    assert_eq!(client.get("/v1/models").await.expect(503).code(), "overloaded");
    let metrics = app.operator().get("/metrics").await.text();
    assert!(metrics.contains(&format!("interlock_entering {most}\n")), "{metrics}");
    drop(places);
    client.chat("k0", &ask("hi")).await.expect(200);
    assert_eq!(alpha.count(), 1);
}
