//! Evidence ages: what ends a permit, what renews it, and that every list says why in words.

mod changes;
mod drift;
mod recheck;
mod settings;

use serde_json::Value;

use crate::support::app::App;
use crate::support::upstream::{Reply, ScriptedUpstream};

/// A refuses, B answers this.
async fn providers(answer: &str) -> (ScriptedUpstream, ScriptedUpstream) {
    let (alpha, beta) = (ScriptedUpstream::start().await, ScriptedUpstream::start().await);
    alpha.always(Reply::overloaded());
    beta.always(Reply::answer(answer));
    (alpha, beta)
}

/// Every permit as `GET /admin/v1/permits` lists it, newest first.
async fn permits(app: &App) -> Vec<Value> {
    let listed = app.operator().get("/admin/v1/permits").await.expect(200).json();
    listed["data"].as_array().expect("a list").clone()
}

async fn permit(app: &App, id: &str) -> Value {
    permits(app).await.into_iter().find(|permit| permit["id"] == id).expect("the permit")
}

/// The provider as `GET /admin/v1/providers` shows it.
async fn provider(app: &App, name: &str) -> Value {
    let listed = app.operator().get("/admin/v1/providers").await.expect(200).json();
    let found = listed["data"].as_array().expect("a list").iter().find(|there| there["name"] == name).cloned();
    found.expect("a configured provider")
}

async fn metrics(app: &App) -> String {
    app.operator().get("/metrics").await.expect(200).text()
}

fn words(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}"))
}

/// Who did what to this subject, and why.
async fn deeds(app: &App, subject: &str) -> String {
    let sql = format!(
        "SELECT coalesce(string_agg(actor || ' ' || action || ': ' || reason, '; ' ORDER BY at), '') \
         FROM operator_actions WHERE subject = '{subject}'"
    );
    app.database.value(sql).await
}
