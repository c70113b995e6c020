//! Translation is total in every dialect: a spoiled request is sent or refused by name, a spoiled answer or chunk is
//! rendered or is none, and none of it panics.

use bytes::Bytes;
use serde_json::Value;

use super::assembled::rendering;
use super::{Dialect, to_upstream};
use crate::adapter::CallContext;
use crate::compatible::{adapter_named, names};
use crate::fixtures::{PROVIDERS, all, names_the_model};
use crate::json::Json;
use crate::totality::Dice;

/// Bodies of the dialect: as the fixtures of the provider that speaks it have them on the wire.
fn bodies(provider: &str) -> Vec<Value> {
    all(provider).iter().filter_map(|fixture| fixture.get("upstream")?.get("body").cloned()).collect()
}

#[test]
fn every_spoiled_request_is_sent_or_refused_by_name() {
    let context = CallContext { model: "target", attempt_id: "0193", api_key: None };
    let adapters: Vec<_> = names().into_iter().map(|name| adapter_named(name).unwrap()).collect();
    for (dialect, provider) in [(Dialect::Messages, "anthropic"), (Dialect::Responses, "openai-responses")] {
        let (mut sent, mut refused) = (0, 0);
        for (seed, mut spoiled) in (0..3_000).zip(bodies(provider).into_iter().cycle()) {
            let mut dice = Dice(seed);
            for _ in 0..=dice.roll(2) {
                dice.spoil(&mut spoiled);
            }
            let Json::Object(spoiled) = Json::from(&spoiled) else { continue };
            let request = match dialect.parse(spoiled) {
                Ok(request) => request,
                Err(refusal) => {
                    assert!(!refusal.param.is_empty() && !refusal.message.is_empty(), "seed {seed}");
                    refused += 1;
                    continue;
                }
            };
            for adapter in &adapters {
                match to_upstream(adapter.as_ref(), &request, &context) {
                    Ok(upstream) => {
                        assert!(names_the_model(&upstream), "seed {seed}");
                        sent += 1;
                    }
                    Err(refusal) => assert!(!refusal.param.is_empty() && !refusal.why.is_empty(), "seed {seed}"),
                }
            }
        }
        assert!(sent > 1_000 && refused > 300, "the dice are loaded: {sent} sent, {refused} refused");
    }
}

#[test]
fn every_spoiled_answer_and_chunk_is_rendered_or_is_none() {
    let rendering = rendering(r#"{"model":"m"}"#);
    let (mut rendered, mut none) = (0, 0);
    for (provider, _) in PROVIDERS {
        for (seed, fixture) in (0..2_000).zip(all(provider).into_iter().cycle()) {
            let mut dice = Dice(seed);
            for dialect in Dialect::ALL {
                // Canonical and the provider's own.
                for name in ["reply", "response"] {
                    let Some(mut answer) = fixture.get(name).cloned() else { continue };
                    let answer = if name == "response" { &mut answer["body"] } else { &mut answer };
                    dice.spoil(answer);
                    let stored = Bytes::from(answer.to_string());
                    match dialect.whole(&rendering, &stored) {
                        Some(_) => rendered += 1,
                        None => none += 1,
                    }
                    let _ = dialect.whole_as_stream(&rendering, &stored);
                }
                let mut writer = dialect.writer(&rendering);
                for chunk in fixture["chunks"].as_array().into_iter().flatten() {
                    let mut chunk: Value = serde_json::from_str(chunk.as_str().unwrap_or("{}")).unwrap();
                    dice.spoil(&mut chunk);
                    let frames = writer.chunk(chunk.to_string().as_bytes());
                    assert!(frames.is_empty() || frames.ends_with(b"\n\n"), "seed {seed}");
                }
                assert!(writer.end(Some(b"{")).len() + writer.error("[").len() > 0, "seed {seed}");
            }
        }
    }
    assert!(rendered > 1_000 && none > 100, "the dice are loaded: {rendered} rendered, {none} none");
}
