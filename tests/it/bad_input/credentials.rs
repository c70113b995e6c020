//! Who is asking: no key, a wrong one, two, one of the other listener; and reasons for deeds.

use http::Method;
use serde_json::json;
use uuid::Uuid;

use super::{openai_error, problem, unharmed};
use crate::support::app::App;
use crate::support::ask;
use crate::support::client::Client;
use crate::support::settings::{OPERATOR_TOKEN, Settings};
use crate::support::upstream::ScriptedUpstream;

#[tokio::test]
async fn a_missing_wrong_garbled_or_revoked_api_key_is_refused_alike_and_not_repeated() {
    let alpha = ScriptedUpstream::start().await;
    let app = App::start(&Settings::one(&alpha, "")).await;
    let (client, revoked) = (app.client("acme").await, app.client("acme").await);
    app.database
        .execute("UPDATE api_keys SET revoked_at = now() WHERE created_at = (SELECT max(created_at) FROM api_keys)")
        .await;
    let token = &client.token;
    let (body, checksum) = token.rsplit_once('_').expect("a checksum");
    let unknown = interlock::domain::api_key::FreshKey::from_random([9; 38]);
    let call = || client.anonymous(Method::POST, "/v1/chat/completions").key("k").json(&ask("hi"));
    let expected = call().send().await;
    openai_error(&expected, 401, "invalid_api_key");
    for wrong in [
        "sk-live-CANARY",
        "CANARY",
        "ilk_CANARY_CANARY_00000000",
        &format!("{body}_00000000"),
        &format!("{token}0"),
        &format!("{body}0_{checksum}"),
        unknown.reveal(),
        &revoked.token,
        "",
    ] {
        for (name, value) in [
            ("authorization", format!("Bearer {wrong}")),
            ("authorization", format!("Basic {wrong}")),
            ("x-api-key", wrong.to_owned()),
        ] {
            let answer = call().header(name, &value).send().await;
            assert_eq!((answer.status, answer.text()), (401, expected.text()), "{name}: {value}");
        }
    }
    for path in ["/v1/models", "/v1/jobs", "/v1/jobs/x"] {
        assert_eq!(client.anonymous(Method::GET, path).send().await.expect(401).code(), "invalid_api_key", "{path}");
    }
    unharmed(&app, &client, &alpha).await;
}

#[tokio::test]
async fn two_credentials_are_one_if_they_are_equal_and_an_error_if_they_differ() {
    let alpha = ScriptedUpstream::start().await;
    let app = App::start(&Settings::one(&alpha, "")).await;
    let (client, other) = (app.client("acme").await, app.client("other").await);
    for second in [
        ("x-api-key", other.token.clone()),
        ("authorization", format!("Bearer {}", other.token)),
        ("x-api-key", String::new()),
    ] {
        let both = client.chat_call("k", &ask("hi")).header(second.0, &second.1).send().await;
        openai_error(&both, 400, "conflicting_credentials");
    }
    unharmed(&app, &client, &alpha).await;
    client.chat_call("k", &ask("hi")).header("x-api-key", &client.token).send().await.expect(200);
    let only = client.anonymous(Method::POST, "/v1/chat/completions").header("x-api-key", &client.token);
    assert!(only.key("k").json(&ask("hi")).send().await.expect(200).is_replayed());
}

#[tokio::test]
async fn neither_listener_takes_the_credentials_of_the_other() {
    let alpha = ScriptedUpstream::start().await;
    let app = App::start(&Settings::one(&alpha, "")).await;
    let client = app.client("acme").await;
    let with_token = Client { address: app.application, token: OPERATOR_TOKEN.to_owned() };
    openai_error(&with_token.chat("k", &ask("hi")).await, 401, "invalid_api_key");
    for path in
        ["/admin/v1/jobs", "/admin/v1/races", "/admin/v1/providers", "/admin/v1/permits", "/admin/v1/contract-runs"]
    {
        problem(&with_token.get(path).await, 404, "not_found");
        problem(&client.at(app.operator).get(path).await, 401, "invalid_operator_token");
        problem(&app.operator().anonymous(Method::GET, path).send().await, 401, "invalid_operator_token");
        app.operator().get(path).await.expect(200);
    }
    let wrong = Client { address: app.operator, token: format!("{OPERATOR_TOKEN}x") };
    problem(&wrong.get("/admin/v1/jobs").await, 401, "invalid_operator_token");
    problem(&app.operator().get("/v1/models").await, 404, "not_found");
    for path in ["/healthz", "/readyz", "/metrics"] {
        app.operator().anonymous(Method::GET, path).send().await.expect(200);
    }
    unharmed(&app, &client, &alpha).await;
}

#[tokio::test]
async fn without_an_operator_token_every_operator_route_is_closed() {
    let alpha = ScriptedUpstream::start().await;
    let app = App::start(&Settings::one(&alpha, "")).await;
    let folder = tempfile::tempdir().expect("a folder");
    let text = Settings::one(&alpha, "").to_toml(folder.path(), &app.database.url);
    let open: String =
        text.lines().filter(|line| !line.starts_with("operator_token")).map(|line| format!("{line}\n")).collect();
    let config = std::sync::Arc::new(interlock::config::Config::parse(&open, "no token").expect("settings"));
    let engine = interlock::engine::Engine::start(app.store().clone(), config).await.expect("an engine");
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let closed = Client { address: listener.local_addr().expect("an address"), token: String::new() };
    let mut listeners = tokio::task::JoinSet::new();
    listeners.spawn(interlock::http::serve::serve(listener, interlock::http::operator(engine.clone()), engine));
    for token in ["", OPERATOR_TOKEN] {
        let told = problem(
            &Client { token: token.to_owned(), ..closed.clone() }.get("/admin/v1/jobs").await,
            403,
            "operator_token_unset",
        );
        assert!(told["detail"].as_str().is_some_and(|detail| detail.contains("server.operator_token")), "{told}");
    }
}

#[tokio::test]
async fn a_deed_needs_a_reason_and_knows_every_word_of_its_body() {
    let alpha = ScriptedUpstream::start().await;
    let app = App::start(&Settings::one(&alpha, "")).await;
    let operator = app.operator();
    let path = format!("/admin/v1/attempts/{}/release", Uuid::now_v7());
    for body in [json!({}), json!({ "reason": "" }), json!({ "reason": "  " }), json!({ "actor": "ann" })] {
        problem(&operator.post(&path, &body).await, 400, "reason_missing");
    }
    for body in [json!({ "reason": "x", "force": true }), json!({ "reason": 7 }), json!([]), json!("x")] {
        problem(&operator.post(&path, &body).await, 400, "invalid_json");
    }
    let twice = operator.request(Method::POST, &path).body(r#"{"reason": "x", "reason": "y"}"#).send().await;
    problem(&twice, 400, "invalid_json");
    for name in ["reason", "actor"] {
        let mut nul = json!({ "reason": "x", "actor": "ann" });
        nul[name] = "a\u{0}b".into();
        assert_eq!(problem(&operator.post(&path, &nul).await, 400, "invalid_request")["param"], name);
    }
    assert_eq!(app.database.count("SELECT count(*) FROM operator_actions").await, 0);
}

#[tokio::test]
async fn orders_for_runs_and_permits_are_checked_word_by_word() {
    let alpha = ScriptedUpstream::start().await;
    let app = App::start(&Settings::one(&alpha, "")).await;
    let operator = app.operator();
    for (body, code, word) in [
        (json!({ "suite": "support-triage" }), "invalid_json", "target"),
        (json!({ "suite": "no-such", "target": "alpha/m" }), "invalid_request", "no-such"),
        (json!({ "suite": "../x", "target": "alpha/m" }), "invalid_request", "../x"),
        (json!({ "suite": "support-triage", "target": "alpha" }), "invalid_request", "provider/model"),
        (json!({ "suite": "support-triage", "target": "alpha/m\u{0}" }), "invalid_request", "`target` holds NUL"),
        (json!({ "suite": "support-triage", "target": "delta/m" }), "invalid_request", "delta"),
        (json!({ "suite": "support-triage", "target": "alpha/m", "mode": "dry" }), "invalid_request", "dry"),
    ] {
        let told = problem(&operator.post("/admin/v1/contract-runs", &body).await, 400, code);
        assert!(told["detail"].as_str().is_some_and(|detail| detail.contains(word)), "{told}");
    }
    problem(
        &operator.post("/admin/v1/permits", &json!({ "route": "support", "run_id": "x", "reason": "y" })).await,
        400,
        "invalid_request",
    );
    problem(
        &operator
            .post("/admin/v1/permits", &json!({ "route": "support", "run_id": Uuid::now_v7(), "reason": "" }))
            .await,
        400,
        "reason_missing",
    );
    let nobody = operator
        .post("/admin/v1/permits", &json!({ "route": "support", "run_id": Uuid::now_v7(), "reason": "y" }))
        .await;
    assert!((400..500).contains(&nobody.status) && nobody.text().contains("no contract run"), "{nobody:?}");
    assert_eq!(app.database.count("SELECT count(*) FROM contract_runs").await, 0, "nothing half written");
    assert_eq!(alpha.count(), 0);
}

#[tokio::test]
async fn who_grants_a_permit_without_a_name_is_put_down_as_operator() {
    let (alpha, beta) = (ScriptedUpstream::start().await, ScriptedUpstream::start().await);
    let app = App::start(&Settings::two(&alpha, &beta, "")).await;
    let run = app.passed_run("support-triage", "beta/m2", "live").await;
    for actor in [json!(null), json!(""), json!("  ")] {
        let order = json!({ "route": "support", "run_id": run, "reason": "it has proved itself", "actor": actor });
        assert_eq!(app.operator().post("/admin/v1/permits", &order).await.expect(201).json()["granted_by"], "operator");
    }
}
