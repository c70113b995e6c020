//! The first page: what somebody has to decide, before what is only good to know.

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use serde_json::{Value, json};

use super::page;
use super::session::Session;
use crate::domain::Timestamp;
use crate::domain::route::Target;
use crate::engine::{Engine, Phase};
use crate::http::headers::rfc3339;
use crate::http::problem::Problem;
use crate::http::view;

const UNKNOWN: i64 = 50;
const RACES: i64 = 10;

pub async fn show(State(engine): State<Engine>, Extension(session): Extension<Session>) -> Response {
    let shown = async {
        let unknown = engine.store().list_jobs(Some("unknown"), None, None, UNKNOWN).await?;
        let races = engine.store().list_races(RACES).await?;
        Ok::<_, Problem>(page::render(
            "overview.html",
            json!({
                "form_token": session.form_token,
                "unknown": unknown.iter().map(view::job).collect::<Vec<_>>(),
                "more": unknown.len() as i64 >= UNKNOWN,
                "races": races.iter().map(view::race).collect::<Vec<_>>(),
                "circuits": engine.circuits().iter().map(circuit).collect::<Vec<_>>(),
                "draining": engine.phase() != Phase::Serving,
                "instance": engine.instance().to_string(),
                "calls": engine.calls(),
            }),
        ))
    };
    shown.await.unwrap_or_else(|problem| page::problem(&problem))
}

fn circuit((target, since, until): &(Target, Option<Timestamp>, Option<Timestamp>)) -> Value {
    json!({
        "target": target.to_string(),
        "failing_since": since.map(rfc3339),
        "left_alone_until": until.map(rfc3339),
    })
}
