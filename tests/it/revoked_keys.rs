//! Keys are known from memory: a revoked one is refused on every instance within five seconds, used or not.

use std::time::Duration;

use tokio::time::Instant;

use crate::support::app::App;
use crate::support::ask;
use crate::support::cluster::Database;
use crate::support::settings::Settings;
use crate::support::upstream::{Reply, ScriptedUpstream};

#[tokio::test]
async fn a_revoked_key_is_refused_within_five_seconds_on_every_instance() {
    let alpha = ScriptedUpstream::start().await;
    alpha.always(Reply::answer("ok"));
    let database = Database::fresh().await;
    let settings = Settings::one(&alpha, "");
    let (one, other) = (App::on(&database, &settings).await, App::on(&database, &settings).await);
    let (client, quiet) = (one.client("acme").await, one.client("acme").await);
    let (elsewhere, quiet_elsewhere) = (client.at(other.application), quiet.at(other.application));
    for known in [&client, &quiet, &elsewhere, &quiet_elsewhere] {
        known.chat("k", &ask("hi")).await.expect(200);
    }
    database.execute("UPDATE api_keys SET revoked_at = now()").await;
    let revoked_at = Instant::now();
    // Those in use all the time are read again now and then; the others are not, and must not be trusted for it.
    for used in [&client, &elsewhere] {
        while used.get("/v1/models").await.status == 200 {
            assert!(revoked_at.elapsed() < Duration::from_secs(5), "a revoked key still works");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    tokio::time::sleep_until(revoked_at + Duration::from_secs(5)).await;
    for known in [&client, &quiet, &elsewhere, &quiet_elsewhere] {
        known.chat("k", &ask("hi")).await.expect(401);
    }
}
