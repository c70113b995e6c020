//! OpenAI's embeddings, for the simulated providers: a text's vector comes from its words, so it is the same each time,
//! and texts that share words are near each other.

use axum::http::StatusCode;
use axum::response::Response;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use super::Settings;
use super::model;
use super::noise::Noise;
use super::wire::{self, Fault};

const KNOWN: [&str; 5] = ["dimensions", "encoding_format", "input", "model", "user"];
/// The length of a whole vector.
const DIMENSIONS: usize = 64;
/// The most inputs of one call.
const MOST: usize = 2_048;

pub(super) fn embed(body: &Value, settings: &Settings) -> Result<Response, Fault> {
    wire::check_names(body, &KNOWN, &[])?;
    let model = wire::model(body, settings)?;
    let inputs = inputs(body)?;
    let length = wire::limit(body, "dimensions")?.unwrap_or(DIMENSIONS);
    if length > DIMENSIONS {
        return Err(Fault::invalid("dimensions", format!("dimensions: this model has at most {DIMENSIONS}")));
    }
    let coded = match body.get("encoding_format").filter(|format| !format.is_null()).map(Value::as_str) {
        None | Some(Some("float")) => false,
        Some(Some("base64")) => true,
        Some(_) => return Err(Fault::invalid("encoding_format", "encoding_format: must be float or base64")),
    };
    let tokens: usize = inputs.iter().map(|text| model::count(text)).sum();
    for text in &inputs {
        wire::check_window(model::count(text), 0, settings)?;
    }
    let data = inputs.iter().enumerate().map(|(index, text)| {
        let vector = vector(text, length);
        let shown = if coded { json!(packed(&vector)) } else { json!(vector) };
        json!({"object": "embedding", "index": index, "embedding": shown})
    });
    let data: Vec<Value> = data.collect();
    let usage = json!({"prompt_tokens": tokens, "total_tokens": tokens});
    Ok(wire::json(StatusCode::OK, &json!({"object": "list", "data": data, "model": model, "usage": usage})))
}

/// A text, texts, the tokens of a text, or those of several.
fn inputs(body: &Value) -> Result<Vec<String>, Fault> {
    let wrong = || Fault::invalid("input", "input: must be a non-empty text, tokens, or up to 2048 of either");
    let tokens = |list: &[Value]| {
        let ids: Option<Vec<u32>> = list.iter().map(|id| u32::try_from(id.as_u64()?).ok()).collect();
        let text = model::tokenizer().decode_bytes(&ids.unwrap_or_default());
        text.ok().map(|text| String::from_utf8_lossy(&text).into_owned()).filter(|text| !text.is_empty())
    };
    let one = |item: &Value| match item {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Array(ids) => tokens(ids),
        _ => None,
    };
    match body.get("input") {
        Some(Value::Array(ids)) if ids.first().is_some_and(Value::is_number) => {
            Ok(vec![tokens(ids).ok_or_else(wrong)?])
        }
        Some(Value::Array(items)) if (1..=MOST).contains(&items.len()) => {
            items.iter().map(|item| one(item).ok_or_else(wrong)).collect()
        }
        Some(item @ Value::String(_)) => Ok(vec![one(item).ok_or_else(wrong)?]),
        _ => Err(wrong()),
    }
}

/// The sum of the words' own vectors, of length 1.
fn vector(text: &str, length: usize) -> Vec<f32> {
    let mut sum = vec![0_i32; length];
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    // A text of no words is a word of its own.
    for word in words
        .map(str::to_lowercase)
        .chain([text.to_owned()].into_iter().filter(|text| !text.contains(char::is_alphanumeric)))
    {
        let dice = Noise::of(&[b"embedding", word.as_bytes()]);
        for place in &mut sum {
            *place += i32::try_from(dice.below(2_001)).unwrap_or_default() - 1_000;
        }
    }
    let norm = sum.iter().map(|place| f64::from(*place).powi(2)).sum::<f64>().sqrt().max(1.0);
    #[expect(clippy::cast_possible_truncation, reason = "a vector's numbers are single precision on this wire")]
    sum.into_iter().map(|place| (f64::from(place) / norm) as f32).collect()
}

/// Single precision, little-endian, in base64.
fn packed(vector: &[f32]) -> String {
    let bytes: Vec<u8> = vector.iter().flat_map(|number| number.to_le_bytes()).collect();
    BASE64_STANDARD.encode(bytes)
}
