//! The members of the client's body beside the conversation: which are translated, which go on under their own name,
//! which ask for nothing, and the rest, which are refused by name.

use super::refuse_others;
use crate::adapter::Unsupported;
use crate::canonical::{Request, ResponseFormat};
use crate::json::{Json, Object};
use crate::leftover::{asks_nothing, object, short};

/// Translated here or in a sibling, or understood by the gateway itself.
const CARRIED: &[&str] = &[
    "model",
    "messages",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "response_format",
    "verbosity",
    "reasoning_effort",
    "max_tokens",
    "max_completion_tokens",
    "temperature",
    "top_p",
    "logprobs",
    "top_logprobs",
    "store",
    "stream",
    "stream_options",
];

/// The same name, the same values, the same meaning.
const PASSED_ON: &[&str] = &[
    "metadata",
    "user",
    "safety_identifier",
    "service_tier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "prompt_cache_options",
];

/// The least that `max_output_tokens` may be (`CreateResponse`, minimum).
const LEAST_OUTPUT: u64 = 16;

/// Refuses the first member that has no place in this protocol. Null is absent, and so is a value that asks for nothing.
pub(super) fn refuse_unknown(request: &Request) -> Result<(), Unsupported> {
    let has_a_place = |name: &&str| CARRIED.contains(name) || PASSED_ON.contains(name);
    let mut members = request.body.iter();
    if let Some((name, _)) = members.find(|(name, value)| !has_a_place(name) && !asks_for_nothing(name, value)) {
        let why = match name {
            "n" => "OpenAI responses gives one answer per request: send n = 1 or leave it out",
            "stop" => "OpenAI responses has no stop strings: leave it out",
            _ => "OpenAI responses has no such parameter: leave it out",
        };
        return Err(Unsupported::new(short(name), why));
    }
    Ok(())
}

/// No stop strings are none.
fn asks_for_nothing(name: &str, value: &Json) -> bool {
    asks_nothing(name, value) || name == "stop" && value.as_array().is_some_and(<[Json]>::is_empty)
}

/// The limit under the name by which the client sent it is refused below the protocol's least, so that another target
/// may take it (field case B027).
pub(super) fn max_output_tokens(request: &Request) -> Result<Option<u64>, Unsupported> {
    match request.max_tokens {
        Some(limit) if limit < LEAST_OUTPUT => {
            let newer = request.body.get_some("max_completion_tokens").is_some();
            let name = if newer { "max_completion_tokens" } else { "max_tokens" };
            let why = format!("is {limit}; OpenAI responses takes no less than {LEAST_OUTPUT}: send more");
            Err(Unsupported::new(name, why))
        }
        limit => Ok(limit),
    }
}

/// `text`: the answer's format and its verbosity.
pub(super) fn text(request: &Request) -> Result<Option<Json>, Unsupported> {
    let mut text = Object::new();
    if let Some(format) = &request.response_format {
        text.insert("format", self::format(request, format)?);
    }
    if let Some(verbosity) = request.body.get_some("verbosity") {
        text.insert("verbosity", verbosity.clone());
    }
    Ok((!text.is_empty()).then_some(Json::Object(text)))
}

fn format(request: &Request, format: &ResponseFormat) -> Result<Json, Unsupported> {
    let (name, schema, strict) = match format {
        ResponseFormat::Text => return Ok(object([("type", "text".into())])),
        ResponseFormat::JsonObject => return Ok(object([("type", "json_object".into())])),
        ResponseFormat::JsonSchema { name, schema, strict } => (name, schema, strict),
    };
    let sent = request.body.get("response_format").and_then(|format| format.get("json_schema"));
    refuse_others("response_format.json_schema", sent, &["name", "description", "schema", "strict"])?;
    let mut written = Object::new();
    written.insert("type", "json_schema");
    written.insert("name", name.as_str());
    if let Some(description) = sent.and_then(|sent| sent.get_some("description")) {
        written.insert("description", description.clone());
    }
    written.insert("schema", schema.clone());
    if let Some(strict) = strict {
        written.insert("strict", *strict);
    }
    Ok(Json::Object(written))
}

/// Log probabilities are asked for as something to be included, and how many by a number of its own.
pub(super) fn write_logprobs(request: &Request, body: &mut Object) -> Result<(), Unsupported> {
    let wanted = match request.body.get_some("logprobs") {
        None => false,
        Some(Json::Bool(wanted)) => *wanted,
        Some(other) => return Err(Unsupported::new("logprobs", format!("must be a boolean, not {}", other.kind()))),
    };
    let top = request.body.get_some("top_logprobs");
    if wanted {
        body.insert("include", vec![Json::from("message.output_text.logprobs")]);
        if let Some(top) = top {
            body.insert("top_logprobs", top.clone());
        }
    } else if top.is_some_and(|top| top.as_u64() != Some(0)) {
        return Err(Unsupported::new(
            "top_logprobs",
            "says nothing without \"logprobs\": true: send both, or leave it out",
        ));
    }
    Ok(())
}

pub(super) fn pass_on(request: &Request, body: &mut Object) {
    for (name, value) in request.body.iter() {
        if PASSED_ON.contains(&name) && !value.is_null() {
            body.insert(name, value.clone());
        }
    }
}

pub(super) fn store(request: &Request) -> Result<bool, Unsupported> {
    match request.body.get_some("store") {
        None => Ok(false),
        Some(Json::Bool(store)) => Ok(*store),
        Some(other) => Err(Unsupported::new("store", format!("must be a boolean, not {}", other.kind()))),
    }
}

/// What the client asks of the delivery beside usage, which comes unasked here.
pub(super) fn stream_options(request: &Request) -> Option<Object> {
    let mut options = request.body.get("stream_options")?.as_object()?.clone();
    options.remove("include_usage");
    (!options.is_empty()).then_some(options)
}
