//! `/openapi.json` names every route, and what is answered is what it says.

use std::collections::BTreeSet;

use http::Method;
use serde_json::{Value, json};

use crate::support::app::App;
use crate::support::ask;
use crate::support::client::Answer;
use crate::support::settings::Settings;
use crate::support::upstream::{Reply, ScriptedUpstream};

const ROUTES: &str = include_str!("../../src/http.rs");

/// `GET /v1/jobs`, as the router's own page lists them.
fn routed() -> BTreeSet<String> {
    let lines = ROUTES.lines().filter_map(|line| line.trim().strip_prefix(".route(\""));
    let of = |line: &str| {
        let (path, handlers) = line.split_once("\", ").expect("a path and its handlers");
        let is_there = |method: &&str| handlers.contains(&format!("{method}("));
        let methods = ["get", "post", "delete", "put", "patch"].into_iter().filter(is_there);
        methods.map(|method| format!("{} {path}", method.to_uppercase())).collect::<Vec<_>>()
    };
    lines.flat_map(of).collect()
}

fn documented(document: &Value) -> BTreeSet<String> {
    let paths = document["paths"].as_object().expect("paths");
    let of = |(path, methods): (&String, &Value)| {
        let methods = methods.as_object().expect("methods").keys();
        methods.map(|method| format!("{} {path}", method.to_uppercase())).collect::<Vec<_>>()
    };
    paths.iter().flat_map(of).collect()
}

/// Holds the answer against what the document says of this operation and status.
fn assert_documented(document: &Value, method: &str, path: &str, answer: &Answer) {
    let responses = &document["paths"][path][method]["responses"];
    let class = format!("{}XX", answer.status / 100);
    let said = [answer.status.to_string(), class].into_iter().find_map(|status| responses.get(status));
    let said = said.unwrap_or_else(|| panic!("{method} {path}: {} is not documented", answer.status));
    let content_type = answer.header("content-type").expect("a content type");
    let schema = &said["content"][content_type]["schema"];
    assert!(schema.is_object(), "{method} {path} {}: {content_type} is not documented: {said:#}", answer.status);
    let whole = json!({ "allOf": [schema], "components": document["components"] });
    let validator = jsonschema::draft202012::options().should_validate_formats(true).build(&whole).expect("a schema");
    let body = answer.json();
    let wrong: Vec<String> = validator.iter_errors(&body).map(|e| format!("{}: {e}", e.instance_path())).collect();
    assert!(wrong.is_empty(), "{method} {path} {}: {wrong:#?}\n{body:#}", answer.status);
}

#[tokio::test]
async fn every_route_is_documented_and_nothing_else() {
    let alpha = ScriptedUpstream::start().await;
    let app = App::start(&Settings::one(&alpha, "")).await;
    let document = app.operator().get("/openapi.json").await.expect(200).json();
    assert_eq!(document["openapi"].as_str().map(|version| &version[..3]), Some("3.1"));
    assert_eq!(documented(&document), routed());
    let at_applications = app.client("acme").await.get("/openapi.json").await.expect(200).json();
    assert_eq!(at_applications, document);
}

#[tokio::test]
async fn what_is_answered_is_what_is_documented() {
    let alpha = ScriptedUpstream::start().await;
    let beta = ScriptedUpstream::start().await;
    let app = App::start(&Settings::two(&alpha, &beta, "attempt_timeout = \"300ms\"")).await;
    let (client, operator) = (app.client("acme").await, app.operator());
    let document = operator.get("/openapi.json").await.expect(200).json();
    let check = |method: &str, path: &str, answer: Answer| {
        assert_documented(&document, method, path, &answer);
        answer
    };
    let job = client.chat("k", &ask("hi")).await.expect(200).job_id();
    let response = client.request(Method::POST, "/v1/responses").key("r");
    let response = response.json(&json!({ "model": "support", "input": "hi" })).send().await.expect(200).json();
    alpha.always(Reply::answer("late").held());
    let lost = check("post", "/v1/chat/completions", client.chat("lost", &ask("hi")).await.expect(504)).job_id();
    check("get", "/v1/jobs/{id}", client.get(&format!("/v1/jobs/{job}")).await.expect(200));
    check("get", "/v1/jobs/{id}", client.get("/v1/jobs/none").await.expect(404));
    check("get", "/v1/jobs/{id}/result", client.get(&format!("/v1/jobs/{job}/result")).await.expect(200));
    check("get", "/v1/jobs/{id}/result", client.get(&format!("/v1/jobs/{lost}/result")).await.expect(409));
    check("get", "/v1/jobs", client.get("/v1/jobs").await.expect(200));
    check("get", "/v1/models", client.get("/v1/models").await.expect(200));
    check("get", "/v1/models", client.anonymous(Method::GET, "/v1/models").send().await.expect(401));
    let as_anthropic = |path: &str| client.request(Method::GET, path).header("anthropic-version", "2023-06-01");
    let page = check("get", "/v1/models", as_anthropic("/v1/models?limit=1").send().await.expect(200)).json();
    assert_eq!((&page["first_id"], &page["data"][0]["type"]), (&json!("support"), &json!("model")));
    check("get", "/v1/models", as_anthropic("/v1/models?limit=0").send().await.expect(400));
    for path in ["/v1/models/support", "/v1/models/nowhere"] {
        let status = if path.ends_with("support") { 200 } else { 404 };
        check("get", "/v1/models/{id}", client.get(path).await.expect(status));
        let anthropic = check("get", "/v1/models/{id}", as_anthropic(path).send().await.expect(status));
        assert!(anthropic.header("request-id").is_some(), "{path}");
    }
    let items = format!("/v1/responses/{}/input_items", response["id"].as_str().expect("an id"));
    check("get", "/v1/responses/{id}/input_items", client.get(&items).await.expect(200));
    let path = items.trim_end_matches("/input_items");
    check("delete", "/v1/responses/{id}", client.request(Method::DELETE, path).send().await.expect(400));
    check("get", "/v1/responses/{id}", client.get("/v1/responses/resp_none").await.expect(404));
    check("get", "/admin/v1/jobs", operator.get("/admin/v1/jobs?state=unknown").await.expect(200));
    check("get", "/admin/v1/jobs/{id}", operator.get(&format!("/admin/v1/jobs/{lost}")).await.expect(200));
    check("post", "/v1/jobs/{id}/cancel", client.cancel(&lost).await.expect(200));
    check("post", "/v1/jobs", client.create_job("async", &ask("hi")).await.expect(201));
    alpha.release();

    let run = app.passed_run("support-triage", "beta/m2", "live").await;
    check("get", "/admin/v1/contract-runs", operator.get("/admin/v1/contract-runs").await.expect(200));
    check(
        "get",
        "/admin/v1/contract-runs/{id}",
        operator.get(&format!("/admin/v1/contract-runs/{run}")).await.expect(200),
    );
    check("post", "/admin/v1/permits", app.grant("support", &run).await.expect(201));
    check("post", "/admin/v1/permits", app.grant("nowhere", &run).await.expect(400));
    check("get", "/admin/v1/permits", operator.get("/admin/v1/permits").await.expect(200));
    check("get", "/admin/v1/providers", operator.get("/admin/v1/providers").await.expect(200));
    let races = operator.get("/admin/v1/races").await.expect(200);
    assert!(races.json()["data"].as_array().is_some_and(|all| !all.is_empty()), "the cancelled call's loss");
    check("get", "/admin/v1/races", races);
}
