//! Translation is total: whatever stands where something else was expected, it ends at once in a body, an answer or a
//! typed refusal, and never in a panic (field cases B007, B090). Every fixture is spoiled in one or two places, over and
//! over, and run through every adapter; the streams among them through their own.

use serde_json::{Value, json};

use crate::adapter::{Adapter, CallContext};
use crate::compatible::{adapter_named, names};
use crate::failure::Proof;
use crate::fixtures::{PROVIDERS, all, body, head, names_the_model};
use crate::json::Json;
use crate::openai::request::parse;
use crate::stream::sampling::{decode, frames};

/// Deterministic, so that a failure can be repeated.
pub(crate) struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }

    fn junk(&mut self) -> Value {
        let junk = [
            json!(null),
            json!(true),
            json!(-1),
            json!(1e300),
            json!(""),
            json!("\u{0}\u{202e}x"),
            json!([]),
            json!({}),
            json!([null, 7, "x"]),
            json!({"type": "text", "error": {"message": 7}, "id": []}),
        ];
        junk[self.roll(junk.len())].clone()
    }

    /// Replaces, removes or doubles one value somewhere below.
    pub fn spoil(&mut self, value: &mut Value) {
        let here = self.roll(4) == 0;
        match value {
            Value::Array(items) if !here && !items.is_empty() => {
                let i = self.roll(items.len());
                match self.roll(6) {
                    0 => drop(items.remove(i)),
                    1 => items.push(items[i].clone()),
                    _ => self.spoil(&mut items[i]),
                }
            }
            Value::Object(members) if !here && !members.is_empty() => {
                let name = members.keys().nth(self.roll(members.len())).unwrap().clone();
                match self.roll(6) {
                    0 => drop(members.remove(&name)),
                    1 => drop(members.insert(format!("{name}x"), self.junk())),
                    _ => self.spoil(&mut members[&name]),
                }
            }
            _ => *value = self.junk(),
        }
    }
}

fn adapters() -> Vec<std::sync::Arc<dyn Adapter>> {
    names().into_iter().map(|name| adapter_named(name).unwrap()).collect()
}

#[test]
fn every_spoiled_request_is_sent_or_refused_by_name() {
    let adapters = adapters();
    let context = CallContext { model: "target", attempt_id: "0193", api_key: None };
    let (mut sent, mut refused) = (0, 0);
    for (seed, fixture) in (0..3_000).zip(PROVIDERS.iter().flat_map(|(provider, _)| all(provider)).cycle()) {
        let mut dice = Dice(seed);
        let mut spoiled = fixture["request"].clone();
        for _ in 0..=dice.roll(2) {
            dice.spoil(&mut spoiled);
        }
        let Json::Object(spoiled) = Json::from(&spoiled) else { continue };
        let request = match parse(spoiled) {
            Ok(request) => request,
            Err(refusal) => {
                assert!(!refusal.param.is_empty() && !refusal.message.is_empty(), "seed {seed}");
                refused += 1;
                continue;
            }
        };
        for adapter in &adapters {
            match adapter.to_upstream(&request, &context) {
                Ok(upstream) => {
                    assert!(names_the_model(&upstream), "seed {seed}: {}", upstream.path);
                    sent += 1;
                }
                Err(refusal) => assert!(!refusal.param.is_empty() && !refusal.why.is_empty(), "seed {seed}"),
            }
        }
    }
    assert!(sent > 1_000 && refused > 500, "the dice are loaded: {sent} sent, {refused} refused");
}

#[test]
fn every_spoiled_answer_is_read_or_fails_with_a_proof() {
    let plain = json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]});
    let request = parse(Json::from(&plain).into_object().unwrap()).unwrap();
    let (mut read, mut failed) = (0, 0);
    for (provider, _) in PROVIDERS {
        for (seed, fixture) in (0..3_000).zip(all(provider).into_iter().cycle()) {
            let mut dice = Dice(seed);
            let mut response = fixture["response"].clone();
            dice.spoil(&mut response["body"]);
            let (head, body) = (head(&response), body(&response));
            for adapter in adapters() {
                if !head.status.is_success() {
                    let failure = adapter.from_failure(&head, &body);
                    assert_eq!(failure.status, Some(head.status.as_u16()), "seed {seed}");
                    assert!(!failure.message.is_empty() && failure.proof != Proof::NotSent, "seed {seed}");
                    continue;
                }
                match adapter.from_upstream(&request, &head, &body) {
                    Ok(answer) => {
                        assert!(!answer.reply.choices.is_empty(), "seed {seed}");
                        let rendered = Json::parse(&answer.body).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
                        assert!(rendered.get("choices").is_some(), "seed {seed}");
                        read += 1;
                    }
                    Err(failure) => {
                        // A response whose status is a strange word may go on.
                        let unfinished = failure.reason == "response_unfinished";
                        let proof = if unfinished { Proof::Unknown } else { Proof::EndedWithoutResult };
                        assert_eq!(failure.proof, proof, "seed {seed}");
                        failed += 1;
                    }
                }
            }
        }
    }
    assert!(read > 1_000 && failed > 1_000, "the dice are loaded: {read} read, {failed} failed");
}

/// One event's data is spoiled as JSON, or some bytes are changed, lost or doubled.
fn spoil_stream(dice: &mut Dice, body: &str) -> Vec<u8> {
    let mut frames: Vec<String> = frames(body).into_iter().map(str::to_owned).collect();
    for _ in 0..=dice.roll(2) {
        let i = dice.roll(frames.len());
        let data = frames[i].split_once("data: ").map_or(frames[i].as_str(), |(_, data)| data).trim_end().to_owned();
        match serde_json::from_str::<Value>(&data) {
            Ok(mut value) if dice.roll(4) > 0 => {
                dice.spoil(&mut value);
                frames[i] = frames[i].replace(&data, &value.to_string());
            }
            _ if dice.roll(3) == 0 => frames[i].clear(),
            _ => frames[i] = frames[i].repeat(2),
        }
    }
    let mut bytes = frames.concat().into_bytes();
    if dice.roll(4) == 0 && !bytes.is_empty() {
        let at = dice.roll(bytes.len());
        bytes[at] = [b'\n', b'\r', b'{', b'"', 0xff, 0][dice.roll(6)];
    }
    bytes
}

/// Amazon's frames, whose checksums are right again, unless a byte of them is changed afterwards.
fn spoil_frames(dice: &mut Dice, mut events: Value, response: &Value) -> Vec<u8> {
    dice.spoil(&mut events);
    let events = events.as_array().cloned().unwrap_or_default();
    let mut bytes = body(&json!({"headers": response["headers"], "body": events})).to_vec();
    if dice.roll(4) == 0 && !bytes.is_empty() {
        let at = dice.roll(bytes.len());
        bytes[at] ^= 1;
    }
    bytes
}

#[test]
fn every_spoiled_stream_is_an_answer_or_fails_the_same_way_however_its_bytes_come() {
    let request = crate::stream::sampling::request("");
    let (mut read, mut failed, mut unknown) = (0, 0, 0);
    for (provider, _) in PROVIDERS {
        let streams = all(provider).into_iter().filter(|fixture| fixture["request"]["stream"] == true);
        let streams: Vec<Value> = streams.collect();
        for (seed, fixture) in (0..1_500).zip(streams.iter().cycle()) {
            let mut dice = Dice(seed);
            let head = head(&fixture["response"]);
            let body = match &fixture["response"]["body"] {
                Value::String(text) => spoil_stream(&mut dice, text),
                events => spoil_frames(&mut dice, events.clone(), &fixture["response"]),
            };
            let adapter = adapter_named(provider).unwrap();
            let decode = |size: usize| decode(adapter.as_ref(), &request, &head, body.chunks(size));
            let outcome = decode(body.len().max(1));
            assert_eq!(decode(1 + dice.roll(40)), outcome, "{provider}, seed {seed}");
            match &outcome.answer {
                Ok((reply, _)) => {
                    assert!(!reply.choices.is_empty(), "{provider}, seed {seed}");
                    assert_eq!(outcome.finishes().len(), reply.choices.len(), "{provider}, seed {seed}");
                    read += 1;
                }
                Err(failure) if failure.proof == Proof::Unknown => unknown += 1,
                Err(failure) => {
                    assert_eq!(failure.proof, Proof::EndedWithoutResult, "{provider}, seed {seed}");
                    failed += 1;
                }
            }
        }
    }
    assert!(read > 300 && failed > 300 && unknown > 300, "loaded: {read} read, {failed} failed, {unknown} unknown");
}
