//! For tests: what a client makes of a stream's events, by the rules of the official SDKs, and the rules of order that
//! the documentation states.

use crate::dialects::{Dialect, Rendering};
use crate::json::{Json, Object};
use crate::stream::sampling::Outcome;

pub(crate) const JOB: &str = "0193a1b2c3d4e5f60718293a4b5c6d7e";

pub(crate) fn rendering(request: &str) -> Rendering {
    let request = Json::parse(request.as_bytes()).unwrap().into_object().unwrap();
    Rendering { stem: JOB.to_owned(), request: request.into(), include_usage: true, after: None }
}

/// The stream that a client of the dialect gets of what an adapter gave out.
pub(crate) fn told(dialect: Dialect, rendering: &Rendering, outcome: &Outcome) -> String {
    let mut writer = dialect.writer(rendering);
    let (mut out, mut usage) = (Vec::new(), None);
    for piece in &outcome.pieces {
        match piece {
            crate::adapter::StreamPiece::Chunk { data, .. } => out.extend_from_slice(&writer.chunk(data)),
            crate::adapter::StreamPiece::Usage { data } => usage = Some(data.clone()),
        }
    }
    out.extend_from_slice(&writer.end(usage.as_deref()));
    String::from_utf8(out).unwrap()
}

/// The events, each under the name that its data says.
pub(crate) fn events(stream: &str) -> Vec<Json> {
    let read = |frame: &str| {
        let (name, data) = frame.strip_prefix("event: ").unwrap().split_once("\ndata: ").unwrap();
        let json = Json::parse(data.as_bytes()).unwrap_or_else(|error| panic!("{error}: {data}"));
        assert_eq!(json.get("type").and_then(Json::as_str), Some(name));
        json
    };
    assert!(stream.is_empty() || stream.ends_with("\n\n"), "{stream}");
    stream.split_terminator("\n\n").map(read).collect()
}

pub(crate) fn text<'a>(json: &'a Json, name: &str) -> &'a str {
    json.get(name).and_then(Json::as_str).unwrap_or_else(|| panic!("no text `{name}`: {json:?}"))
}

pub(crate) fn object_mut(json: &mut Json) -> &mut Object {
    json.as_object_mut().expect("an object")
}

pub(crate) fn grow(object: &mut Object, name: &str, more: &str) {
    match object.get_mut(name) {
        Some(Json::String(text)) => text.push_str(more),
        _ => drop(object.insert(name, more)),
    }
}

/// A message of Anthropic's events. Blocks come one after the other, from 0 on, each with its start and its stop.
pub(crate) fn message(stream: &str) -> Json {
    let events = events(stream);
    let kinds: Vec<&str> = events.iter().map(|event| text(event, "type")).collect();
    assert_eq!((kinds.first(), kinds.last()), (Some(&"message_start"), Some(&"message_stop")), "{kinds:?}");
    assert_eq!(kinds.iter().filter(|kind| **kind == "message_delta").count(), 1, "{kinds:?}");
    assert_eq!(kinds[kinds.len() - 2], "message_delta");
    let mut message = events[0].get("message").unwrap().clone();
    let (mut blocks, mut open, mut input): (Vec<Json>, bool, String) = (Vec::new(), false, String::new());
    for event in &events[1..events.len() - 1] {
        let kind = text(event, "type");
        if kind == "message_delta" {
            assert!(!open, "the message ended within a block");
            merge(object_mut(&mut message), event.get("delta").unwrap());
            let usage = object_mut(&mut message).get_mut("usage").unwrap();
            merge(object_mut(usage), event.get("usage").unwrap());
            continue;
        }
        let index = event.get("index").and_then(Json::as_u64).unwrap() as usize;
        assert_eq!(index, if kind == "content_block_start" { blocks.len() } else { blocks.len() - 1 }, "{stream}");
        assert_eq!(open, kind != "content_block_start", "{stream}");
        match kind {
            "content_block_start" => {
                blocks.push(event.get("content_block").unwrap().clone());
                (open, input) = (true, String::new());
            }
            "content_block_delta" => add(blocks.last_mut().unwrap(), event.get("delta").unwrap(), &mut input),
            "content_block_stop" => {
                open = false;
                if !input.is_empty() {
                    let input = crate::dialects::messages::input(&input);
                    object_mut(blocks.last_mut().unwrap()).insert("input", input);
                }
            }
            other => panic!("{other}"),
        }
    }
    object_mut(&mut message).insert("content", blocks);
    message
}

fn add(block: &mut Json, delta: &Json, input: &mut String) {
    match text(delta, "type") {
        "input_json_delta" => input.push_str(text(delta, "partial_json")),
        "citations_delta" => {
            let citation = delta.get("citation").unwrap().clone();
            match object_mut(block).get_mut("citations") {
                Some(Json::Array(citations)) => citations.push(citation),
                _ => drop(object_mut(block).insert("citations", vec![citation])),
            }
        }
        kind => {
            let name = kind.strip_suffix("_delta").unwrap();
            grow(object_mut(block), name, text(delta, name));
        }
    }
}

fn merge(into: &mut Object, more: &Json) {
    for (name, value) in more.as_object().unwrap().iter() {
        into.insert(name, value.clone());
    }
}

/// A response of OpenAI's events: numbered from 0, items one after the other, each told in full before it is done; the
/// last event holds the response, and that is what was told.
pub(crate) fn response(stream: &str) -> Json {
    let events = events(stream);
    for (i, event) in events.iter().enumerate() {
        assert_eq!(event.get("sequence_number").and_then(Json::as_u64), Some(i as u64), "{event:?}");
    }
    let kinds: Vec<&str> = events.iter().map(|event| text(event, "type")).collect();
    assert_eq!(kinds[..2], ["response.created", "response.in_progress"]);
    let last = events.last().and_then(|event| event.get("response")).expect("a response at the end").clone();
    assert_eq!(kinds.last(), Some(&&*format!("response.{}", text(&last, "status"))));
    let (mut output, mut done): (Vec<Json>, Vec<Json>) = (Vec::new(), Vec::new());
    for event in &events[2..events.len() - 1] {
        let index = event.get("output_index").and_then(Json::as_u64).unwrap() as usize;
        match text(event, "type") {
            "response.output_item.added" => {
                assert_eq!((index, output.len()), (output.len(), done.len()), "one after the other");
                output.push(event.get("item").unwrap().clone());
            }
            "response.output_item.done" => {
                let item = event.get("item").unwrap().clone();
                let mut grown = output[index].clone();
                if item.get("status").is_some() {
                    object_mut(&mut grown).insert("status", item.get("status").unwrap().clone());
                }
                assert_eq!(grown, item, "it was told in full");
                done.push(item);
            }
            kind => tell_item(kind, &mut output[index], event),
        }
    }
    assert_eq!(last.get("output"), Some(&Json::Array(done)), "the response is what was told");
    last
}

fn tell_item(kind: &str, item: &mut Json, event: &Json) {
    if let Some(id) = event.get("item_id") {
        assert_eq!(Some(id), item.get("id"));
    }
    if kind.starts_with("response.function_call_arguments") {
        match kind.ends_with("delta") {
            true => grow(object_mut(item), "arguments", text(event, "delta")),
            false => assert_eq!(item.get("arguments"), event.get("arguments")),
        }
        return;
    }
    let (list, index) =
        if event.get("summary_index").is_some() { ("summary", "summary_index") } else { ("content", "content_index") };
    let at = event.get(index).and_then(Json::as_u64).unwrap() as usize;
    let Some(Json::Array(parts)) = object_mut(item).get_mut(list) else { panic!("no {list}") };
    if kind.ends_with("part.added") {
        assert_eq!(at, parts.len());
        parts.push(event.get("part").unwrap().clone());
        return;
    }
    assert_eq!(at, parts.len() - 1, "only the last part is open");
    let part = parts.last_mut().unwrap();
    let name = if text(part, "type") == "refusal" { "refusal" } else { "text" };
    match kind.rsplit('.').next() {
        Some("delta") => {
            grow(object_mut(part), name, text(event, "delta"));
            if let Some(Json::Array(more)) = event.get("logprobs")
                && let Some(Json::Array(all)) = object_mut(part).get_mut("logprobs")
            {
                all.extend_from_slice(more);
            }
        }
        Some("added") => match object_mut(part).get_mut("annotations") {
            Some(Json::Array(all)) => all.push(event.get("annotation").unwrap().clone()),
            _ => panic!("{kind}"),
        },
        Some("done") if kind.ends_with("part.done") => assert_eq!(Some(&*part), event.get("part")),
        Some("done") => assert_eq!(part.get(name), event.get(name)),
        _ => panic!("{kind}"),
    }
}
