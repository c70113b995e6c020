//! A generateContent request, read strictly, and this model's own count of it.

use serde_json::{Value, json};

use crate::local::sim::model::{self, Ask, Format, Role, Tool, ToolChoice, Turn};
use crate::local::sim::wire::{self, Fault};

/// `model` is put there from the path.
const KNOWN: [&str; 8] = [
    "contents",
    "generationConfig",
    "model",
    "safetySettings",
    "serviceTier",
    "systemInstruction",
    "toolConfig",
    "tools",
];

const CONFIG: [&str; 16] = [
    "candidateCount",
    "frequencyPenalty",
    "logprobs",
    "maxOutputTokens",
    "presencePenalty",
    "responseJsonSchema",
    "responseLogprobs",
    "responseMimeType",
    "responseModalities",
    "responseSchema",
    "seed",
    "stopSequences",
    "temperature",
    "thinkingConfig",
    "topK",
    "topP",
];

/// Would change the answer, and this model could only drop them.
const UNSUPPORTED: [&str; 3] = ["logprobs", "responseModalities", "thinkingConfig"];

/// Tokens that a turn, a system prompt or a tool adds to its own.
const PER_TURN: usize = 4;
const PER_PART: usize = 6;

/// The members of a function's declaration.
const DECLARED: [&str; 7] =
    ["behavior", "description", "name", "parameters", "parametersJsonSchema", "response", "responseJsonSchema"];

/// Google takes each of its own names in both spellings, and its clients mix them. What lies inside these is the
/// caller's.
const OPAQUE: [&str; 6] =
    ["args", "parameters", "parametersJsonSchema", "response", "responseJsonSchema", "responseSchema"];

pub(super) fn in_camel_case(value: Value) -> Value {
    let renamed = |(name, value): (String, Value)| {
        let mut parts = name.split('_');
        let first = parts.next().unwrap_or_default().to_owned();
        let name = parts.fold(first, |name, part| {
            let (head, tail) = part.split_at(part.chars().next().map_or(0, char::len_utf8));
            format!("{name}{}{tail}", head.to_ascii_uppercase())
        });
        let value = if OPAQUE.contains(&name.as_str()) { value } else { in_camel_case(value) };
        (name, value)
    };
    match value {
        Value::Object(members) => Value::Object(members.into_iter().map(renamed).collect()),
        Value::Array(items) => items.into_iter().map(in_camel_case).collect(),
        other => other,
    }
}

fn config(body: &Value) -> &Value {
    body.get("generationConfig").unwrap_or(&Value::Null)
}

pub(super) fn check(body: &Value) -> Result<(), Fault> {
    let unknown = |names: &Value, known: &[&str], at: &str| {
        let stray = names.as_object().into_iter().flatten().map(|(name, _)| name);
        match stray.into_iter().find(|name| !known.contains(&name.as_str())) {
            None => Ok(()),
            Some(name) => {
                let why = format!("Invalid JSON payload received. Unknown name \"{name}\"{at}: Cannot find field.");
                Err(Fault::invalid(name, why))
            }
        }
    };
    unknown(body, &KNOWN, "")?;
    for declared in declarations(body) {
        unknown(declared, &DECLARED, " at 'tools[0].function_declarations'")?;
    }
    let config = config(body);
    unknown(config, &CONFIG, " at 'generation_config'")?;
    wire::check_names(config, &CONFIG, &UNSUPPORTED)?;
    wire::check_range(config, "temperature", 0.0, 2.0)?;
    wire::check_range(config, "topP", 0.0, 1.0)?;
    wire::check_range(config, "frequencyPenalty", -2.0, 2.0)?;
    wire::check_range(config, "presencePenalty", -2.0, 2.0)?;
    if wire::flag(config, "responseLogprobs")? {
        return Err(Fault::invalid("responseLogprobs", "Logprobs is not enabled for this model"));
    }
    let there = |name: &str| config.get(name).filter(|value| !value.is_null());
    if there("candidateCount").is_some_and(|n| !n.as_u64().is_some_and(|n| (1..=8).contains(&n))) {
        return Err(Fault::invalid("candidateCount", "candidateCount: must be an integer from 1 to 8"));
    }
    if there("seed").is_some_and(|seed| seed.as_i64().is_none()) {
        return Err(Fault::invalid("seed", "seed: must be an integer"));
    }
    Ok(())
}

pub(super) fn read(body: &Value) -> Result<Ask, Fault> {
    let contents = body.get("contents").and_then(Value::as_array).filter(|contents| !contents.is_empty());
    let contents = contents.ok_or_else(|| Fault::invalid("contents", "* contents: contents is not specified"))?;
    let mut turns = Vec::new();
    if let Some(system) = body.get("systemInstruction").filter(|system| !system.is_null()) {
        turns.push(Turn { role: Role::System, text: plain(system, "systemInstruction")? });
    }
    for (at, content) in contents.iter().enumerate() {
        turns.extend(turn(at, content)?);
    }
    let config = config(body);
    let stops = config.get("stopSequences").filter(|stops| !stops.is_null());
    Ok(Ask {
        turns,
        tools: declarations(body).map(tool).collect(),
        choice: choice(body)?,
        format: format(config)?,
        limit: wire::limit(config, "maxOutputTokens")?,
        stops: stops.map_or(Ok(Vec::new()), |stops| wire::strings(stops, "stopSequences"))?,
        parallel: true,
        choices: config
            .get("candidateCount")
            .and_then(Value::as_u64)
            .and_then(|n| usize::try_from(n).ok())
            .unwrap_or(1),
        seed: config.get("seed").and_then(Value::as_i64),
        window: usize::MAX,
    })
}

fn parts<'a>(content: &'a Value, place: &str) -> Result<&'a Vec<Value>, Fault> {
    let parts = content.get("parts").and_then(Value::as_array).filter(|parts| !parts.is_empty());
    parts.ok_or_else(|| Fault::invalid(place, format!("{place}.parts: must not be empty")))
}

/// One turn: its text, and the results of functions that it carries, each as a turn of its own.
fn turn(at: usize, content: &Value) -> Result<Vec<Turn>, Fault> {
    let role = match content.get("role").and_then(Value::as_str) {
        None | Some("user" | "function") => Role::User,
        Some("model") => Role::Assistant,
        Some(_) => return Err(Fault::invalid("contents", "Please use a valid role: user, model.")),
    };
    let place = format!("contents[{at}]");
    let wrong = || Fault::invalid(&place, format!("{place}.parts: this model reads text"));
    let (mut turns, mut text) = (Vec::new(), String::new());
    for part in parts(content, &place)? {
        if let Some(said) = part.get("text") {
            text.push_str(said.as_str().ok_or_else(wrong)?);
        } else if let Some(result) = part.get("functionResponse") {
            let named = result.get("name").is_some_and(Value::is_string);
            let response = result.get("response").filter(|response| named && response.is_object()).ok_or_else(wrong)?;
            let told = response.get("output").or(response.get("result")).and_then(Value::as_str);
            turns.push(Turn { role: Role::Tool, text: told.map_or_else(|| response.to_string(), str::to_owned) });
        } else if part.get("functionCall").is_none() || role != Role::Assistant {
            return Err(wrong());
        }
    }
    if !text.is_empty() || turns.is_empty() {
        turns.push(Turn { role, text });
    }
    Ok(turns)
}

fn plain(content: &Value, place: &str) -> Result<String, Fault> {
    let wrong = || Fault::invalid(place, format!("{place}: must be text"));
    let text = |part: &Value| part.get("text").and_then(Value::as_str).map(str::to_owned).ok_or_else(wrong);
    parts(content, place)?.iter().map(text).collect()
}

fn declarations(body: &Value) -> impl Iterator<Item = &Value> {
    let tools = body.get("tools").and_then(Value::as_array).into_iter().flatten();
    tools.filter_map(|tool| tool.get("functionDeclarations")?.as_array()).flatten()
}

fn tool(declared: &Value) -> Tool {
    let text = |key| declared.get(key).and_then(Value::as_str).unwrap_or("").to_owned();
    let googles = || declared.get("parameters").map(json_schema);
    // A function without parameters takes none.
    let schema = declared.get("parametersJsonSchema").cloned().or_else(googles);
    let schema = schema.unwrap_or_else(|| json!({"type": "object", "properties": {}}));
    Tool { name: text("name"), description: text("description"), schema }
}

fn choice(body: &Value) -> Result<ToolChoice, Fault> {
    let calling = body.pointer("/toolConfig/functionCallingConfig").unwrap_or(&Value::Null);
    let allowed = calling.get("allowedFunctionNames").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    match (calling.get("mode").and_then(Value::as_str), allowed) {
        (None | Some("AUTO" | "VALIDATED"), []) => Ok(ToolChoice::Auto),
        (Some("NONE"), _) => Ok(ToolChoice::Forbidden),
        (Some("ANY"), []) => Ok(ToolChoice::Required),
        (Some("ANY"), [name]) => Ok(ToolChoice::Named(name.as_str().unwrap_or_default().to_owned())),
        (Some("ANY"), _) => {
            Err(Fault::invalid("allowedFunctionNames", "allowedFunctionNames: this model takes one name"))
        }
        _ => Err(Fault::invalid("toolConfig", "Function calling mode must be AUTO, ANY, VALIDATED or NONE")),
    }
}

fn format(config: &Value) -> Result<Format, Fault> {
    let there = |name: &str| config.get(name).filter(|value| !value.is_null());
    let schema = there("responseJsonSchema").cloned().or_else(|| there("responseSchema").map(json_schema));
    match (there("responseMimeType").and_then(Value::as_str), schema) {
        (None | Some("text/plain"), None) => Ok(Format::Text),
        (Some("application/json"), None) => Ok(Format::AnyObject),
        (Some("application/json"), Some(schema)) => Ok(Format::Schema(schema)),
        _ => Err(Fault::invalid("responseMimeType", "a response schema needs the mime type application/json")),
    }
}

/// Google's own kind of schema as JSON Schema: types in capitals, `nullable`, and integers as text.
fn json_schema(schema: &Value) -> Value {
    let Value::Object(members) = schema else { return schema.clone() };
    let nullable = members.get("nullable") == Some(&Value::Bool(true));
    let mut out = serde_json::Map::new();
    for (name, value) in members {
        let value = match (name.as_str(), value) {
            ("nullable" | "propertyOrdering" | "example" | "format" | "title", _) => continue,
            ("type", Value::String(kind)) if nullable => json!([kind.to_ascii_lowercase(), "null"]),
            ("type", Value::String(kind)) => json!(kind.to_ascii_lowercase()),
            ("properties", Value::Object(all)) => {
                Value::Object(all.iter().map(|(name, part)| (name.clone(), json_schema(part))).collect())
            }
            ("items", part) => json_schema(part),
            ("anyOf", Value::Array(parts)) => parts.iter().map(json_schema).collect(),
            ("minItems" | "maxItems" | "minLength" | "maxLength" | "minProperties" | "maxProperties", value) => {
                let number = value.as_str().and_then(|text| text.parse::<u64>().ok());
                number.map_or_else(|| value.clone(), Value::from)
            }
            (_, value) => value.clone(),
        };
        out.insert(name.clone(), value);
    }
    Value::Object(out)
}

/// This model's own count of everything that makes up the prompt.
pub(super) fn prompt_tokens(body: &Value) -> usize {
    let texts = |content: &Value| -> usize {
        let parts = content.get("parts").and_then(Value::as_array).into_iter().flatten();
        let tokens = parts.map(|part| match part.get("text").and_then(Value::as_str) {
            Some(text) => model::count(text),
            None => model::count(&part.to_string()),
        });
        tokens.sum()
    };
    let contents = body.get("contents").and_then(Value::as_array).into_iter().flatten();
    let contents: usize = contents.map(|content| PER_TURN + texts(content)).sum();
    let system = body.get("systemInstruction").filter(|system| !system.is_null());
    let system = system.map_or(0, |system| PER_PART + texts(system));
    let tools: usize = declarations(body).map(|tool| PER_PART + model::count(&tool.to_string())).sum();
    contents + system + tools
}
