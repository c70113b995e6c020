//! `generationConfig`: what the client's other members become there. Numbers keep their digits.

use super::WHO;
use crate::adapter::Unsupported;
use crate::canonical::{Request, ResponseFormat};
use crate::json::{Json, Object};
use crate::leftover::{add_sampling, add_stops, object, refuse_parameters, short};

const CARRIED: &[&str] =
    &["seed", "presence_penalty", "frequency_penalty", "logprobs", "top_logprobs", "reasoning_effort"];

pub(super) fn refuse_unknown(request: &Request) -> Result<(), Unsupported> {
    refuse_parameters(request, WHO, CARRIED)
}

pub(super) fn write(request: &Request, model: &str) -> Result<Object, Unsupported> {
    let mut config = Object::new();
    if let Some(limit) = request.max_tokens {
        config.insert("maxOutputTokens", limit);
    }
    add_stops(&mut config, "stopSequences", request);
    add_sampling(&mut config, "topP", request);
    if let Some(n) = request.n.filter(|n| *n > 1) {
        config.insert("candidateCount", n);
    }
    let same = [
        ("seed", "seed"),
        ("presence_penalty", "presencePenalty"),
        ("frequency_penalty", "frequencyPenalty"),
        ("logprobs", "responseLogprobs"),
        ("top_logprobs", "logprobs"),
    ];
    for (name, theirs) in same {
        if let Some(value) = request.body.get_some(name) {
            config.insert(theirs, value.clone());
        }
    }
    format(request, &mut config);
    if let Some(thinking) = thinking(request, model)? {
        config.insert("thinkingConfig", thinking);
    }
    Ok(config)
}

/// A schema's `name` is a label without a place here; the schema itself is enforced, so `strict` is always met.
fn format(request: &Request, config: &mut Object) {
    let schema = match &request.response_format {
        None | Some(ResponseFormat::Text) => return,
        Some(ResponseFormat::JsonObject) => None,
        Some(ResponseFormat::JsonSchema { schema, .. }) => Some(schema),
    };
    config.insert("responseMimeType", "application/json");
    if let Some(schema) = schema {
        config.insert("responseJsonSchema", schema.clone());
    }
}

/// Gemini 2.5 counts the tokens of a thought, by the figures of Google's own chat dialect; later models know levels
/// (ai.google.dev/gemini-api/docs/openai and docs/thinking, read 2026-11).
fn thinking(request: &Request, model: &str) -> Result<Option<Json>, Unsupported> {
    let Some(effort) = request.body.get_some("reasoning_effort") else { return Ok(None) };
    let counted = model.contains("gemini-2.5");
    let unknown = |word: &str| {
        let known = if counted { "none, minimal, low, medium or high" } else { "minimal, low, medium or high" };
        Unsupported::new("reasoning_effort", format!("this model knows no `{}`: send {known}", short(word)))
    };
    let Some(word) = effort.as_str() else { return Err(unknown(effort.kind())) };
    let budget = |tokens: u64| Some(object([("thinkingBudget", Json::from(tokens))]));
    Ok(match word {
        "none" if counted => budget(0),
        "minimal" | "low" if counted => budget(1_024),
        "medium" if counted => budget(8_192),
        "high" if counted => budget(24_576),
        "minimal" | "low" | "medium" | "high" => Some(object([("thinkingLevel", Json::from(word))])),
        _ => return Err(unknown(word)),
    })
}
