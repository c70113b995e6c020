//! Asking and being answered, byte for byte as the providers do it.

use std::sync::Arc;

use http::{HeaderMap, Method, StatusCode};

use crate::adapter::{Adapter, CallContext, Head, Secret};
use crate::canonical::Request;
use crate::compatible::{Overrides, adapter_named, adapter_with};
use crate::failure::Proof;
use crate::json::Json;
use crate::lookup::{LookupAnswer, LookupRequest, Way};
use crate::openai::request::parse;

const ID: &str = "0193a1b2-0000-7000-8000-000000000001";

fn with(name: &str, way: Way) -> Arc<dyn Adapter> {
    adapter_with(name, Overrides { lookup: Some(way), ..Overrides::default() }).unwrap()
}

fn context(key: Option<&Secret>) -> CallContext<'_> {
    CallContext { model: "m 1", attempt_id: ID, api_key: key }
}

fn request(more: &str) -> Request {
    let text = format!(r#"{{"model":"r","messages":[{{"role":"user","content":"hi"}}]{more}}}"#);
    parse(Json::parse(text.as_bytes()).unwrap().into_object().unwrap()).unwrap()
}

fn ok() -> Head {
    Head { status: StatusCode::OK, headers: HeaderMap::new() }
}

fn sent(adapter: &dyn Adapter, more: &str) -> Json {
    Json::parse(&adapter.to_upstream(&request(more), &context(None)).unwrap().body).unwrap()
}

fn refused(more: &str) -> String {
    with("openai", Way::Stored).to_upstream(&request(more), &context(None)).unwrap_err().param
}

#[test]
fn nobody_is_marked_or_asked_unless_the_settings_say_so() {
    for name in ["openai", "llama-cpp", "anthropic"] {
        let adapter = adapter_named(name).unwrap();
        let streamed = request(r#","stream":true"#);
        assert_eq!(adapter.lookup_way(), None);
        assert!(
            adapter.lookup(&streamed, &context(None), None).is_none() && adapter.cancel(&context(None), None).is_none()
        );
        let upstream = adapter.to_upstream(&streamed, &context(None)).unwrap();
        assert!(!upstream.headers.iter().any(|(name, _)| name == "x-conversation-id"));
        let body = Json::parse(&upstream.body).unwrap();
        assert!(body.get("store").is_none() && body.get("metadata").is_none(), "{name}");
    }
}

#[test]
fn the_version_tells_that_more_is_sent() {
    let plain = adapter_named("openai").unwrap().version();
    assert_eq!(with("openai", Way::Stored).version(), format!("{plain}+stored"));
}

#[test]
fn a_stored_completion_carries_the_attempts_id_beside_the_clients_own_metadata() {
    let adapter = with("openai", Way::Stored);
    let body = sent(adapter.as_ref(), r#","metadata":{"ticket":"4711"},"seed":12345678901234567890"#);
    assert_eq!(body.get("store"), Some(&Json::Bool(true)));
    let metadata = body.get("metadata").unwrap();
    assert_eq!(metadata.get("ticket").and_then(Json::as_str), Some("4711"));
    assert_eq!(metadata.get("interlock_attempt_id").and_then(Json::as_str), Some(ID));
    assert!(sent(adapter.as_ref(), r#","store":true,"metadata":null"#).get("metadata").is_some());
}

#[test]
fn what_stands_in_the_way_of_storing_is_named() {
    let pairs = |n: usize| (0..n).map(|i| format!(r#""k{i}":"v""#)).collect::<Vec<_>>().join(",");
    assert_eq!(refused(r#","store":false"#), "store");
    assert_eq!(refused(&format!(r#","metadata":{{{}}}"#, pairs(16))), "metadata");
    assert_eq!(refused(r#","metadata":"x""#), "metadata");
    assert_eq!(refused(r#","metadata":{"interlock_attempt_id":"x"}"#), "metadata.interlock_attempt_id");
    sent(with("openai", Way::Stored).as_ref(), &format!(r#","metadata":{{{}}}"#, pairs(15)));
}

#[test]
fn the_list_is_asked_for_by_the_attempts_id() {
    let key = Secret::new("own-key".into());
    let asked = with("openai", Way::Stored).lookup(&request(""), &context(Some(&key)), None).unwrap();
    assert_eq!(asked.method, Method::GET);
    assert_eq!(asked.path, format!("/chat/completions?metadata%5Binterlock_attempt_id%5D={ID}&limit=1"));
    assert!(asked.headers.iter().any(|(name, value)| name == "authorization" && value == "Bearer own-key"));
    assert!(!format!("{asked:?}").contains("own-key"));
}

fn list(body: &str) -> LookupAnswer {
    let adapter = with("openai", Way::Stored);
    let asked = adapter.lookup(&request(""), &context(None), None).unwrap();
    adapter.from_lookup(&request(""), &context(None), &asked, &ok(), body.as_bytes())
}

fn stored(metadata: &str, finish: &str) -> String {
    format!(
        r#"{{"object":"list","data":[{{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"m",
        "choices":[{{"index":0,"message":{{"role":"assistant","content":"hello"}},"finish_reason":{finish}}}],
        "usage":{{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4}},"metadata":{metadata}}}],"has_more":false}}"#
    )
}

#[test]
fn a_stored_completion_is_read_as_the_answer_it_was() {
    let own = format!(r#"{{"ticket":"1","interlock_attempt_id":"{ID}"}}"#);
    let LookupAnswer::Finished { answer, pieces } = list(&stored(&own, "\"stop\"")) else { panic!("not finished") };
    assert_eq!((answer.reply.usage.unwrap().input_tokens, pieces.len()), (3, 0));
    let body = Json::parse(&answer.body).unwrap();
    assert!(body.get("metadata").unwrap().get("interlock_attempt_id").is_none());
    assert_eq!(body.get("metadata").unwrap().get("ticket").and_then(Json::as_str), Some("1"));
}

#[test]
fn only_an_empty_list_says_that_there_is_none() {
    assert!(matches!(list(r#"{"object":"list","data":[]}"#), LookupAnswer::Absent(a) if !a.shows_running));
    let own = format!(r#"{{"interlock_attempt_id":"{ID}"}}"#);
    let other = r#"{"interlock_attempt_id":"0193a1b2-0000-7000-8000-000000000002"}"#;
    let unreadable = [
        "",
        "[]",
        "{}",
        r#"{"object":"list"}"#,
        &stored(other, "\"stop\""),
        &stored("null", "\"stop\""),
        &stored(&own, "null"),
    ];
    for body in unreadable {
        assert!(matches!(list(body), LookupAnswer::Unreadable(_)), "{body}");
    }
    let adapter = with("openai", Way::Stored);
    let asked = adapter.lookup(&request(""), &context(None), None).unwrap();
    let head = Head { status: StatusCode::NOT_FOUND, headers: HeaderMap::new() };
    let answer = adapter.from_lookup(&request(""), &context(None), &asked, &head, br#"{"object":"list","data":[]}"#);
    assert!(matches!(answer, LookupAnswer::Unreadable(_)));
}

const STREAM: &str = concat!(
    "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,",
    "\"delta\":{\"role\":\"assistant\",\"content\":\"hello\"},\"finish_reason\":null}]}\n\n",
    "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,",
    "\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
    "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[],",
    "\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":1,\"total_tokens\":4}}\n\ndata: [DONE]\n\n",
);

fn found(body: &str) -> LookupAnswer {
    let adapter = with("llama-cpp", Way::Conversation);
    let streamed = request(r#","stream":true"#);
    let asked = adapter.lookup(&streamed, &context(None), None).unwrap();
    adapter.from_lookup(&streamed, &context(None), &asked, &ok(), body.as_bytes())
}

fn done(bytes: usize) -> LookupRequest {
    let body = format!(
        r#"[{{"conversation_id":"{ID}","is_done":true,"total_bytes":{bytes},"started_at":1,"completed_at":2}}]"#
    );
    let LookupAnswer::Ask(replay) = found(&body) else { panic!("no second question") };
    replay
}

fn replayed(asked: &LookupRequest, body: &str) -> LookupAnswer {
    let adapter = with("llama-cpp", Way::Conversation);
    adapter.from_lookup(&request(r#","stream":true"#), &context(None), asked, &ok(), body.as_bytes())
}

#[test]
fn a_conversation_is_named_found_replayed_and_ended() {
    let adapter = with("llama-cpp", Way::Conversation);
    let upstream = adapter.to_upstream(&request(r#","stream":true"#), &context(None)).unwrap();
    assert!(upstream.headers.iter().any(|(name, value)| name == "x-conversation-id" && value == ID));
    let whole = adapter.to_upstream(&request(""), &context(None)).unwrap();
    assert!(!whole.headers.iter().any(|(name, _)| name == "x-conversation-id"), "only streams are kept");
    assert!(adapter.lookup(&request(""), &context(None), None).is_none());
    let asked = adapter.lookup(&request(r#","stream":true"#), &context(None), None).unwrap();
    assert_eq!((asked.method, asked.path.as_str()), (Method::POST, "/streams/lookup"));
    assert_eq!(&asked.body[..], format!(r#"{{"conversation_ids":["{ID}"]}}"#).as_bytes());
    let replay = done(STREAM.len());
    assert_eq!((&replay.method, replay.path.as_str()), (&Method::GET, format!("/stream?conv_id={ID}&from=0").as_str()));
    let LookupAnswer::Finished { answer, pieces } = replayed(&replay, STREAM) else { panic!("not finished") };
    assert_eq!((answer.reply.usage.unwrap().output_tokens, pieces.len()), (1, 3));
    let stop = adapter.cancel(&context(None), None).unwrap();
    assert_eq!((stop.method, stop.path), (Method::DELETE, format!("/stream?conv_id={ID}")));
}

#[test]
fn what_llama_server_says_of_a_stream_is_not_taken_for_more() {
    assert!(matches!(found("[]"), LookupAnswer::Absent(a) if a.shows_running && a.remembered_for.is_some()));
    let running = format!(r#"[{{"conversation_id":"{ID}","is_done":false,"total_bytes":0}}]"#);
    assert!(matches!(found(&running), LookupAnswer::Running));
    for body in ["{}", "", "[{}]", r#"[{"conversation_id":"other","is_done":true,"total_bytes":1}]"#] {
        assert!(matches!(found(body), LookupAnswer::Unreadable(_)), "{body}");
    }
    // The beginning fell out of the ring, or the replay was cut: what is left could pass for a whole answer.
    assert!(matches!(replayed(&done(STREAM.len() + 9), STREAM), LookupAnswer::Unreadable(_)));
    let cut = &STREAM[..STREAM.find("data: [DONE]").unwrap() / 3];
    let LookupAnswer::Failed(failure) = replayed(&done(cut.len()), cut) else { panic!("not failed") };
    assert_eq!((failure.proof, failure.reason), (Proof::EndedWithoutResult, "stream_ended_short"));
}
