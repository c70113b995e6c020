//! Background mode: what is sent, what is asked, and what the answers prove.

use std::sync::Arc;

use http::{HeaderMap, Method, StatusCode};

use crate::adapter::{Adapter, CallContext, Head, Secret};
use crate::canonical::Request;
use crate::compatible::{Overrides, adapter_named, adapter_with};
use crate::failure::Proof;
use crate::json::Json;
use crate::lookup::{LookupAnswer, Way};
use crate::openai::request::parse;

const ID: &str = "resp_0da443d9";

fn background() -> Arc<dyn Adapter> {
    adapter_with("openai-responses", Overrides { lookup: Some(Way::Background), ..Overrides::default() }).unwrap()
}

fn context(key: Option<&Secret>) -> CallContext<'_> {
    CallContext { model: "m", attempt_id: "0193", api_key: key }
}

fn request(more: &str) -> Request {
    let text = format!(r#"{{"model":"r","messages":[{{"role":"user","content":"hi"}}]{more}}}"#);
    parse(Json::parse(text.as_bytes()).unwrap().into_object().unwrap()).unwrap()
}

#[test]
fn work_is_put_into_the_background_only_where_the_settings_say_so() {
    let plain = adapter_named("openai-responses").unwrap();
    let sent = Json::parse(&plain.to_upstream(&request(""), &context(None)).unwrap().body).unwrap();
    assert_eq!((sent.get("background"), sent.get("store")), (None, Some(&Json::Bool(false))));
    assert!(!plain.streams(&request("")) && plain.lookup_way().is_none());
    assert!(plain.lookup(&request(""), &context(None), Some(ID)).is_none());
    assert!(plain.cancel(&context(None), Some(ID)).is_none());
    assert_eq!(background().version(), format!("{}+background", plain.version()));
}

/// Whatever the client wants: the first event of a stream is what brings the id at once.
#[test]
fn work_in_the_background_is_stored_and_streamed() {
    for more in ["", r#","stream":true"#, r#","store":true"#] {
        let upstream = background().to_upstream(&request(more), &context(None)).unwrap();
        let sent = Json::parse(&upstream.body).unwrap();
        for name in ["background", "store", "stream"] {
            assert_eq!(sent.get(name), Some(&Json::Bool(true)), "{name} with {more}");
        }
        assert!(upstream.headers.iter().any(|(name, value)| name == "accept" && value == "text/event-stream"));
        assert!(background().streams(&request(more)));
    }
    let refusal = background().to_upstream(&request(r#","store":false"#), &context(None)).unwrap_err();
    assert_eq!(refusal.param, "store");
}

#[test]
fn it_is_asked_for_and_cancelled_by_the_providers_own_id() {
    let key = Secret::new("own-key".into());
    let (adapter, context) = (background(), context(Some(&key)));
    assert!(adapter.lookup(&request(""), &context, None).is_none(), "there is no list to look it up in");
    assert!(adapter.cancel(&context, None).is_none());
    let asked = adapter.lookup(&request(""), &context, Some(ID)).unwrap();
    assert_eq!((&asked.method, asked.path.as_str()), (&Method::GET, "/responses/resp_0da443d9"));
    assert!(asked.headers.iter().any(|(name, value)| name == "authorization" && value == "Bearer own-key"));
    let order = adapter.cancel(&context, Some("re/sp?x")).unwrap();
    assert_eq!((&order.method, order.path.as_str()), (&Method::POST, "/responses/re%2Fsp%3Fx/cancel"));
}

fn answered(status: u16, body: &str) -> LookupAnswer {
    let adapter = background();
    let asked = adapter.lookup(&request(""), &context(None), Some(ID)).unwrap();
    let head = Head { status: StatusCode::from_u16(status).unwrap(), headers: HeaderMap::new() };
    adapter.from_lookup(&request(""), &context(None), &asked, &head, body.as_bytes())
}

fn response(id: &str, status: &str, output: &str) -> String {
    format!(
        r#"{{"id":"{id}","object":"response","created_at":1,"model":"m","status":"{status}","output":[{output}],"usage":{{"input_tokens":3,"output_tokens":1}}}}"#
    )
}

const SAID: &str = r#"{"type":"message","content":[{"type":"output_text","text":"hello"}]}"#;

#[test]
fn each_status_says_how_far_it_has_come() {
    for status in ["queued", "in_progress"] {
        assert!(matches!(answered(200, &response(ID, status, "")), LookupAnswer::Running), "{status}");
    }
    let LookupAnswer::Finished { answer, pieces } = answered(200, &response(ID, "completed", SAID)) else {
        panic!("not finished")
    };
    assert_eq!((answer.reply.choices[0].text.as_deref(), pieces.len()), (Some("hello"), 0));
    for (status, reason) in [("failed", "response_failed"), ("cancelled", "response_cancelled")] {
        let LookupAnswer::Failed(failure) = answered(200, &response(ID, status, "")) else { panic!("{status}") };
        assert_eq!((failure.proof, failure.reason), (Proof::EndedWithoutResult, reason));
    }
    // Over, and nothing: it will never be more.
    let LookupAnswer::Failed(failure) = answered(200, &response(ID, "completed", "")) else { panic!("not failed") };
    assert_eq!((failure.proof, failure.reason), (Proof::EndedWithoutResult, "invalid_answer"));
}

#[test]
fn only_the_providers_own_404_says_that_there_is_none() {
    let own = r#"{"error":{"message":"Response with id 'resp_0da443d9' not found.","type":"invalid_request_error","param":null,"code":null}}"#;
    assert!(matches!(answered(404, own), LookupAnswer::Absent(a) if a.shows_running && a.remembered_for.is_some()));
    for (status, body) in [
        (404, "<html>not found</html>"),
        (404, r#"{"detail":"Not Found"}"#),
        (401, own),
        (500, own),
        (200, ""),
        (200, "[]"),
        (200, r#"{"id":"resp_0da443d9","status":"completed"}"#),
        (200, &response("resp_other", "completed", SAID)),
        (200, &response(ID, "paused", SAID)),
        (202, &response(ID, "completed", SAID)),
    ] {
        let answer = answered(status, body);
        assert!(matches!(&answer, LookupAnswer::Unreadable(why) if !why.is_empty()), "{status} {body}: {answer:?}");
    }
}
