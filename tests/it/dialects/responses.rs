//! OpenAI responses: create, in the background too, retrieve, cancel, and going on from an earlier one.

use http::Method;
use serde_json::{Value, json};

use super::{CLOCKS, assert_same_job, call, calling, calling_stream, events, kinds, whole};
use crate::support::app::App;
use crate::support::client::{Answer, Client, OpenStream};
use crate::support::settings::Settings;
use crate::support::sse::Stream;
use crate::support::upstream::{Piece, Reply, ScriptedUpstream};
use crate::support::within;

const PATH: &str = "/v1/responses";

fn ask() -> Value {
    json!({ "model": "support", "input": "hi" })
}

fn with(members: Value) -> Value {
    let mut body = ask();
    for (name, value) in members.as_object().expect("an object") {
        body[name] = value.clone();
    }
    body
}

async fn post(client: &Client, key: &str, body: &Value) -> Answer {
    call(client, PATH, key, body).send().await
}

async fn stream(client: &Client, key: &str, body: &Value) -> OpenStream {
    let mut body = body.clone();
    body["stream"] = true.into();
    call(client, PATH, key, &body).open().await
}

fn id_of(job: &str) -> String {
    format!("resp_{}", job.replace('-', ""))
}

/// Waits, bounded, until the response has this status.
async fn in_status(client: &Client, id: &str, status: &str) -> Value {
    let look = async || {
        let shown = client.get(&format!("{PATH}/{id}")).await.expect(200).json();
        (shown["status"] == status).then_some(shown)
    };
    within(crate::support::PATIENCE, look).await.unwrap_or_else(|| panic!("{id} is not {status}"))
}

#[tokio::test]
async fn a_response_is_a_job_in_its_own_words_and_is_found_under_its_id() {
    let alpha = ScriptedUpstream::start().await;
    let app = App::start(&Settings::one(&alpha, CLOCKS)).await;
    let (client, stranger) = (app.client("acme").await, app.client("evil").await);
    let body = with(json!({ "instructions": "be brief", "metadata": { "order": "7" }, "max_output_tokens": 64 }));
    let first = post(&client, "k", &body).await.expect(200);
    let response = first.json();
    let id = id_of(&first.job_id());
    assert_eq!((response["id"].as_str(), &response["object"]), (Some(id.as_str()), &json!("response")));
    assert_eq!((&response["status"], &response["metadata"]["order"]), (&json!("completed"), &json!("7")));
    assert_eq!(response["output"][0]["content"][0]["text"], "ok");
    assert_eq!((&response["usage"]["input_tokens"], &response["usage"]["total_tokens"]), (&json!(3), &json!(4)));
    assert!(first.header("x-request-id").is_some());
    let expected = json!({ "model": "m1", "max_completion_tokens": 64,
        "messages": [{ "role": "system", "content": "be brief" }, { "role": "user", "content": "hi" }] });
    assert_eq!(alpha.calls()[0].json(), expected);
    assert_same_job(&first, &post(&client, "k", &body).await.expect(200));
    // The same intent with its members in another order shows what was stored, not what was sent.
    let text =
        r#"{"max_output_tokens":64,"metadata":{"order":"7"},"instructions":"be brief","input":"hi","model":"support"}"#;
    let other_order = client.request(Method::POST, PATH).key("k").body(text).send().await.expect(200);
    assert_same_job(&first, &other_order);
    let found = client.get(&format!("{PATH}/{id}")).await.expect(200);
    assert_eq!(found.body, first.body);
    assert_eq!(client.result(&first.job_id()).await.expect(200).body, first.body);
    for missing in [&*id, "resp_00000000000000000000000000000000", "nonsense"] {
        let missing = stranger.get(&format!("{PATH}/{missing}")).await.expect(404);
        assert_eq!(
            (missing.code().as_str(), &missing.json()["error"]["type"]),
            ("not_found", &json!("not_found_error"))
        );
    }
    let chat = client.chat("c", &crate::support::ask("hi")).await.expect(200);
    client.get(&format!("{PATH}/{}", id_of(&chat.job_id()))).await.expect(404);
    let refused = client.get(&format!("{PATH}/{id}?starting_after=3")).await.expect(400);
    assert_eq!(refused.json()["error"]["param"], "starting_after");
}

#[tokio::test]
async fn a_stream_has_its_events_in_order_and_replays_in_both_forms() {
    let alpha = ScriptedUpstream::start().await;
    alpha.next(Stream::begin().words(&["one "]).then(Piece::Hold).words(&["two"]).sound());
    let app = App::start(&Settings::one(&alpha, CLOCKS)).await;
    let client = app.client("acme").await;
    let mut first = stream(&client, "k", &ask()).await;
    let mut begun = Vec::new();
    while begun.len() < 5 {
        begun.push(first.next().await.expect("an event"));
    }
    let second = stream(&client, "k", &ask()).await;
    alpha.release();
    begun.extend(first.rest().await);
    assert_eq!(whole(second).await, begun, "attached: the same events");
    let told = events(&begun);
    let order = [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ];
    assert_eq!(kinds(&told), order);
    let numbers: Vec<u64> = told.iter().filter_map(|event| event["sequence_number"].as_u64()).collect();
    assert_eq!(numbers, (0..10).collect::<Vec<u64>>());
    let last = &told[9]["response"];
    assert_eq!(
        (&last["output"][0]["content"][0]["text"], &last["usage"]["output_tokens"]),
        (&json!("one two"), &json!(5))
    );
    assert_eq!(whole(stream(&client, "k", &ask()).await).await, begun, "replayed: the same bytes");
    let answer = post(&client, "k", &ask()).await.expect(200);
    assert_eq!(&answer.json(), last, "the whole answer is what was streamed");
    post(&client, "w", &ask()).await.expect(200);
    let anew = events(&whole(stream(&client, "w", &ask()).await).await);
    assert_eq!(kinds(&anew).last(), Some(&"response.completed"), "a whole answer as a stream");
    assert_eq!(alpha.count(), 2);
}

#[tokio::test]
async fn tools_parallel_calls_and_structured_output_survive_both_ways() {
    let alpha = ScriptedUpstream::start().await;
    alpha.next(calling());
    alpha.next(calling_stream());
    let app = App::start(&Settings::one(&alpha, CLOCKS)).await;
    let client = app.client("acme").await;
    let schema = json!({ "type": "object", "properties": { "id": { "type": "integer" } } });
    let body = with(json!({
        "tools": [{ "type": "function", "name": "rd", "parameters": schema, "strict": true }], "tool_choice": "required",
        "text": { "format": { "type": "json_schema", "name": "n", "schema": schema, "strict": true } },
        "input": [
            { "role": "user", "content": "q" },
            { "type": "function_call", "call_id": "t1", "name": "rd", "arguments": "{\"id\":1}" },
            { "type": "function_call_output", "call_id": "t1", "output": "R" },
        ],
    }));
    let answer = post(&client, "k", &body).await.expect(200).json();
    let check = |output: &Value| {
        assert_eq!(output[0]["content"][0]["text"], "I look.");
        assert_eq!((&output[1]["type"], &output[1]["call_id"]), (&json!("function_call"), &json!("c1")));
        assert_eq!(
            (&output[1]["arguments"], &output[2]["arguments"]),
            (&json!("{\"id\":7300000000000000001}"), &json!("{}"))
        );
    };
    check(&answer["output"]);
    assert_eq!(
        (&answer["text"]["format"]["name"], &answer["tools"], &answer["tool_choice"]),
        (&json!("n"), &body["tools"], &json!("required"))
    );
    let told = events(&whole(stream(&client, "s", &body).await).await);
    check(&told.last().expect("an event")["response"]["output"]);
    let calls = told.iter().filter(|event| event["type"] == "response.function_call_arguments.done").count();
    assert_eq!(calls, 2);
    let sent = alpha.calls()[0].json();
    assert_eq!(sent["tools"][0]["function"], json!({ "name": "rd", "parameters": schema, "strict": true }));
    assert_eq!(sent["response_format"]["json_schema"], json!({ "name": "n", "schema": schema, "strict": true }));
    assert_eq!(sent["messages"][2], json!({ "role": "tool", "tool_call_id": "t1", "content": "R" }));
}

#[tokio::test]
async fn work_in_the_background_is_answered_at_once_asked_for_and_cancelled() {
    let alpha = ScriptedUpstream::start().await;
    alpha.next(Reply::answer("late").held());
    let app = App::start(&Settings::one(&alpha, CLOCKS)).await;
    let client = app.client("acme").await;
    let body = with(json!({ "background": true }));
    let begun = post(&client, "k", &body).await.expect(200);
    let id = id_of(&begun.job_id());
    assert_eq!((begun.json()["id"].as_str(), &begun.json()["background"]), (Some(&*id), &json!(true)));
    assert!(["queued", "in_progress"].contains(&begun.json()["status"].as_str().expect("a status")), "{begun:?}");
    let again = post(&client, "k", &body).await.expect(200);
    assert_eq!(again.json()["id"].as_str(), Some(&*id), "attached");
    alpha.release();
    let done = in_status(&client, &id, "completed").await;
    assert_eq!((&done["output"][0]["content"][0]["text"], &done["background"]), (&json!("late"), &json!(true)));
    assert_eq!(post(&client, "k", &body).await.expect(200).json(), done, "and the same key gives it now");
    assert_eq!(alpha.count(), 1);
    let over = client.request(Method::POST, &format!("{PATH}/{id}/cancel")).send().await.expect(200);
    assert_eq!(over.json(), done, "what is over stays as it is");
}

#[tokio::test]
async fn a_cancelled_response_says_so_and_stays_so() {
    let alpha = ScriptedUpstream::start().await;
    alpha.next(Reply::answer("late").held());
    let app = App::start(&Settings::one(&alpha, CLOCKS)).await;
    let (client, stranger) = (app.client("acme").await, app.client("evil").await);
    let begun = post(&client, "k", &with(json!({ "background": true }))).await.expect(200);
    let path = format!("{PATH}/{}/cancel", id_of(&begun.job_id()));
    stranger.request(Method::POST, &path).send().await.expect(404);
    for _ in 0..2 {
        let cancelled = client.request(Method::POST, &path).send().await.expect(200);
        assert_eq!(cancelled.json()["status"], "cancelled");
    }
    alpha.release();
    assert_eq!(client.job(&begun.job_id()).await["state"], "cancelled");
    alpha.next(Reply::bad_request());
    let failing = post(&client, "f", &with(json!({ "background": true }))).await.expect(200);
    let failed = in_status(&client, &id_of(&failing.job_id()), "failed").await;
    assert_eq!(failed["error"]["code"], "invalid_prompt", "{failed}");
}

#[tokio::test]
async fn a_conversation_goes_on_from_what_the_job_holds() {
    let alpha = ScriptedUpstream::start().await;
    let app = App::start(&Settings::one(&alpha, CLOCKS)).await;
    let (client, stranger) = (app.client("acme").await, app.client("evil").await);
    let first = post(&client, "1", &ask()).await.expect(200).json();
    let next = with(json!({ "input": "more", "previous_response_id": first["id"] }));
    let second = post(&client, "2", &next).await.expect(200);
    assert_eq!(second.json()["previous_response_id"], first["id"]);
    let third = with(json!({ "input": "most", "previous_response_id": second.json()["id"] }));
    post(&client, "3", &third).await.expect(200);
    let texts = |call: &Value| -> Vec<(String, String)> {
        let text = |content: &Value| content.as_str().or(content[0]["text"].as_str()).expect("a text").to_owned();
        let messages = call["messages"].as_array().expect("messages").iter();
        messages.map(|m| (m["role"].as_str().expect("a role").to_owned(), text(&m["content"]))).collect()
    };
    let seen = texts(&alpha.calls()[2].json());
    let expected = [("user", "hi"), ("assistant", "ok"), ("user", "more"), ("assistant", "ok"), ("user", "most")];
    assert_eq!(seen, expected.map(|(role, text)| (role.to_owned(), text.to_owned())));
    assert_same_job(&second, &post(&client, "2", &next).await.expect(200));
    for (client, body) in [
        (&stranger, next),
        (&client, with(json!({ "previous_response_id": "resp_00000000000000000000000000000000" }))),
        (&client, with(json!({ "previous_response_id": "resp_elsewhere" }))),
    ] {
        let refused = post(client, "x", &body).await.expect(400);
        assert_eq!(refused.json()["error"]["param"], "previous_response_id");
        assert_eq!(refused.code(), "previous_response_not_found");
    }
    assert_eq!(alpha.count(), 3);
}

#[tokio::test]
async fn errors_and_unknown_outcomes_have_openais_shape() {
    let alpha = ScriptedUpstream::start().await;
    alpha.next(Reply::error(429, "rate_limit_exceeded", "slow down"));
    alpha.next(Stream::begin().words(&["one "]).cut());
    let app = App::start(&Settings::one(&alpha, CLOCKS)).await;
    let client = app.client("acme").await;
    let limited = post(&client, "a", &ask()).await.expect(429);
    assert_eq!(limited.json()["error"]["type"], "rate_limit_error");
    let told = events(&whole(stream(&client, "b", &ask()).await).await);
    let last = told.last().expect("an event");
    assert_eq!((&last["type"], &last["code"]), (&json!("error"), &json!("attempt_unknown")));
    assert_eq!(last["sequence_number"], told.len() - 1);
    let unknown = post(&client, "b", &ask()).await;
    assert_eq!((unknown.status, unknown.code().as_str()), (504, "attempt_unknown"));
    let shown = client.get(&format!("{PATH}/{}", id_of(&unknown.job_id()))).await.expect(200);
    assert_eq!(shown.json()["status"], "in_progress", "what nobody knows is not over");
    for (members, param) in [
        (json!({ "truncation": "auto" }), "truncation"),
        (json!({ "tools": [{ "type": "web_search" }] }), "tools[0]"),
        (json!({ "invented": 1 }), "invented"),
        (json!({ "input": null }), "input"),
    ] {
        let refused = post(&client, "c", &with(members)).await.expect(400);
        assert_eq!(refused.json()["error"]["param"], param);
    }
    assert_eq!(client.job_by_key("c").await, None);
}

#[tokio::test]
async fn nothing_is_lost_between_a_client_and_a_provider_of_the_same_dialect() {
    let alpha = ScriptedUpstream::start().await;
    let native = r#"{"id":"resp_theirs","object":"response","created_at":7,"status":"completed","model":"m1","output":[{"type":"web_search_call","id":"ws_1","status":"completed"},{"type":"message","id":"msg_1","status":"completed","role":"assistant","content":[{"type":"output_text","text":"a","annotations":[{"type":"x"}]}]}],"usage":{"input_tokens":3,"output_tokens":1,"total_tokens":4},"invented":7300000000000000001}"#;
    alpha.next(Reply::whole(200, "application/json", native));
    let settings = Settings::new().provider("alpha", "openai-responses", &alpha.base_url(), "").route(
        "support",
        &["alpha/m1"],
        CLOCKS,
    );
    let app = App::start(&settings).await;
    let client = app.client("acme").await;
    let asked = r#"{"model":"support","input":"hi","tools":[{"type":"web_search"}],"invented":7300000000000000001}"#;
    let send = async || client.request(Method::POST, PATH).key("k").body(asked).send().await.expect(200);
    let answer = send().await;
    assert_eq!(alpha.calls()[0].body, asked.replace("support", "m1"), "byte for byte");
    let tail = r#","previous_response_id":null,"background":false}"#;
    let expected = native.replace("resp_theirs", &id_of(&answer.job_id()));
    assert_eq!(answer.text(), format!("{}{tail}", expected.strip_suffix('}').expect("an object")));
    assert_same_job(&answer, &send().await);
    let told = events(&whole(stream(&client, "k", &serde_json::from_str(asked).expect("JSON")).await).await);
    assert_eq!(told.last().expect("an event")["response"], answer.json());
}

#[tokio::test]
async fn a_background_stream_goes_on_from_a_number_and_replays_the_same_numbers() {
    let alpha = ScriptedUpstream::start().await;
    alpha.next(Stream::begin().words(&["one "]).then(Piece::Hold).words(&["two"]).sound());
    let app = App::start(&Settings::one(&alpha, CLOCKS)).await;
    let (client, stranger) = (app.client("acme").await, app.client("evil").await);
    let mut first = stream(&client, "k", &with(json!({ "background": true }))).await;
    let mut seen = Vec::new();
    while seen.len() < 5 {
        seen.push(first.next().await.expect("an event"));
    }
    drop(first);
    let id = client.job_with_key("k").await["id"].as_str().map(id_of).expect("a job");
    let from = |after: u64| format!("{PATH}/{id}?stream=true&starting_after={after}");
    let running = client.request(Method::GET, &from(3)).open().await;
    let whole_of_it = client.request(Method::GET, &format!("{PATH}/{id}?stream=true")).open().await;
    alpha.release();
    let all = whole(whole_of_it).await;
    assert_eq!((&all[..5], all.len()), (&seen[..], 10), "from its beginning, the same events");
    assert_eq!(whole(running).await, all[4..], "while it runs: those behind the number");
    for after in [0, 4, 8, 9] {
        let told = whole(client.request(Method::GET, &from(after)).open().await).await;
        assert_eq!(told, all[usize::try_from(after).expect("small") + 1..], "replayed from {after}");
    }
    assert_eq!(alpha.count(), 1);
    stranger.get(&from(0)).await.expect(404);
    for (query, param) in [
        ("starting_after=1", "starting_after"),
        ("stream=true&starting_after=x", "starting_after"),
        ("stream=yes", "stream"),
        ("include[]=message.output_text.logprobs", "include"),
        ("include_obfuscation=true", "include_obfuscation"),
    ] {
        let refused = client.get(&format!("{PATH}/{id}?{query}")).await.expect(400);
        assert_eq!(refused.json()["error"]["param"], param, "{query}");
    }
}

#[tokio::test]
async fn whoever_waits_for_a_stream_hears_how_it_ends() {
    let alpha = ScriptedUpstream::start().await;
    alpha.next(Reply::answer("ok").held());
    let app = App::start(&Settings::one(&alpha, CLOCKS)).await;
    let client = app.client("acme").await;
    let begun = post(&client, "k", &with(json!({ "background": true }))).await.expect(200);
    let path = format!("{PATH}/{}?stream=true", id_of(&begun.job_id()));
    let released = async {
        alpha.wait_for_calls(1).await;
        alpha.release();
    };
    let (asked, ()) = tokio::join!(client.request(Method::GET, &path).open(), released);
    let told = events(&whole(asked).await);
    assert_eq!(kinds(&told).last(), Some(&"response.completed"), "work that is not streamed is told when it is done");
    alpha.next(Stream::begin().words(&["one "]).cut());
    let cut = events(&whole(stream(&client, "c", &with(json!({ "background": true }))).await).await);
    assert_eq!(cut.last().expect("an event")["code"], "attempt_unknown");
    let id = client.job_with_key("c").await["id"].as_str().map(id_of).expect("a job");
    let unknown = client.get(&format!("{PATH}/{id}?stream=true&starting_after=2")).await;
    assert_eq!((unknown.status, unknown.code().as_str()), (504, "attempt_unknown"));
}

#[tokio::test]
async fn what_was_asked_is_listed_and_a_response_is_not_deleted() {
    let alpha = ScriptedUpstream::start().await;
    let app = App::start(&Settings::one(&alpha, CLOCKS)).await;
    let (client, stranger) = (app.client("acme").await, app.client("evil").await);
    let input = json!([{ "role": "user", "content": "a" }, { "role": "assistant", "content": "b" },
        { "type": "message", "id": "msg_mine", "role": "user", "content": [{ "type": "input_text", "text": "c" }] }]);
    let id = id_of(&post(&client, "k", &with(json!({ "input": input }))).await.expect(200).job_id());
    let path = format!("{PATH}/{id}/input_items");
    let list = async |query: &str| client.get(&format!("{path}?{query}")).await.expect(200).json();
    let all = list("order=asc").await;
    let texts = |list: &Value| -> Vec<String> {
        let items = list["data"].as_array().expect("items").iter();
        items.map(|item| item["content"][0]["text"].as_str().expect("a text").to_owned()).collect()
    };
    assert_eq!((texts(&all), &all["has_more"]), (vec!["a".to_owned(), "b".to_owned(), "c".to_owned()], &json!(false)));
    assert_eq!((&all["last_id"], &all["data"][1]["content"][0]["type"]), (&json!("msg_mine"), &json!("output_text")));
    assert_eq!(list("order=asc").await, all, "the same ids each time");
    assert_eq!(texts(&list("").await), ["c", "b", "a"], "newest first if not said");
    let page = list(&format!("order=asc&limit=1&after={}", all["first_id"].as_str().expect("an id"))).await;
    assert_eq!((texts(&page), &page["has_more"]), (vec!["b".to_owned()], &json!(true)));
    for (query, param) in [("limit=0", "limit"), ("order=up", "order"), ("after=msg_none", "after")] {
        let refused = client.get(&format!("{path}?{query}")).await.expect(400);
        assert_eq!(refused.json()["error"]["param"], param);
    }
    stranger.get(&path).await.expect(404);
    let refused = client.request(Method::DELETE, &format!("{PATH}/{id}")).send().await.expect(400);
    assert!(refused.json()["error"]["message"].as_str().is_some_and(|told| told.contains("jobs.retention")));
    stranger.request(Method::DELETE, &format!("{PATH}/{id}")).send().await.expect(404);
    client.get(&format!("{PATH}/{id}")).await.expect(200);
}

#[tokio::test]
async fn a_response_that_came_to_nothing_ends_its_stream_with_that() {
    let alpha = ScriptedUpstream::start().await;
    for _ in 0..2 {
        alpha.next(Reply::bad_request());
    }
    alpha.next(Stream::begin().words(&["one "]).then(Piece::Hold).words(&["two"]).sound());
    let app = App::start(&Settings::one(&alpha, CLOCKS)).await;
    let client = app.client("acme").await;
    let refused = stream(&client, "f", &ask()).await;
    assert_eq!(refused.status, 400, "in the foreground the status comes first: clients decide on it");
    let background = with(json!({ "background": true }));
    let first = whole(stream(&client, "b", &background).await).await;
    let told = events(&first);
    assert_eq!(kinds(&told), ["response.created", "response.in_progress", "response.failed"]);
    let id = client.job_with_key("b").await["id"].as_str().map(id_of).expect("a job");
    let failed = &told[2]["response"];
    assert_eq!((&failed["id"], &failed["status"]), (&json!(id), &json!("failed")));
    assert_eq!(*failed, client.get(&format!("{PATH}/{id}")).await.expect(200).json(), "as it is shown");
    let from = |id: &str, after: &str| client.request(Method::GET, &format!("{PATH}/{id}?stream=true{after}")).open();
    assert_eq!(whole(from(&id, "").await).await, first);
    assert_eq!(whole(stream(&client, "b", &background).await).await, first);
    assert_eq!(whole(from(&id, "&starting_after=1").await).await, first[2..]);
    let mut running = stream(&client, "c", &background).await;
    let mut seen = Vec::new();
    while seen.len() < 5 {
        seen.push(running.next().await.expect("an event"));
    }
    let id = client.job_with_key("c").await["id"].as_str().map(id_of).expect("a job");
    client.request(Method::POST, &format!("{PATH}/{id}/cancel")).send().await.expect(200);
    seen.extend(running.rest().await);
    let told = events(&seen);
    let last = told.last().expect("an event");
    assert_eq!((&last["type"], &last["response"]["status"]), (&json!("response.failed"), &json!("cancelled")));
    let item = &last["response"]["output"][0];
    assert_eq!((&item["status"], &item["content"][0]["text"]), (&json!("incomplete"), &json!("one ")));
    assert!(told.iter().enumerate().all(|(at, event)| event["sequence_number"] == at));
    let again = events(&whole(from(&id, "&starting_after=4").await).await);
    assert_eq!((&again[0]["type"], &again[0]["sequence_number"]), (&json!("response.failed"), &json!(5)));
    assert_eq!((&again[0]["response"]["status"], again.len()), (&json!("cancelled"), 1));
}
