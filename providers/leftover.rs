//! What the formats that are translated share when they read the client's body: which of its members have no place on
//! another wire, and the few pieces that every translation takes apart the same way.
//!
//! Nothing is dropped here: a member that a format does not carry is refused by its path, unless its value asks for
//! nothing. What a model wrote beside its answer, and clients send back, is input to that model's vendor only.

use crate::adapter::Unsupported;
use crate::canonical::{Message, Part, Request, ToolCall, ToolChoice};
use crate::json::{Json, Object};

/// What every format reads, or the gateway itself.
const READ: &[&str] = &[
    "model",
    "messages",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "response_format",
    "stop",
    "max_tokens",
    "max_completion_tokens",
    "temperature",
    "top_p",
    "n",
    "stream",
    "stream_options",
];

/// By-products of an answer, as clients send them back.
const BY_PRODUCTS: &[&str] = &[
    "annotations",
    "reasoning_content",
    "reasoning",
    "reasoning_details",
    "thinking_blocks",
    "other_blocks",
    "extra_content",
    "citations",
    "reasoning_items",
    "other_items",
];

/// Whether the member of a message is such a by-product.
pub(crate) fn is_by_product(name: &str) -> bool {
    BY_PRODUCTS.contains(&name)
}

/// Refuses the first member that the format `who` has no place for; `carried`: what it has beside what all have.
pub(crate) fn refuse_parameters(request: &Request, who: &str, carried: &[&str]) -> Result<(), Unsupported> {
    let read = |name: &str| READ.contains(&name) || carried.contains(&name);
    match request.body.iter().find(|(name, value)| !read(name) && !asks_nothing(name, value)) {
        None => refuse_inner_members(request, who, carried),
        Some((name, _)) => Err(Unsupported::new(short(name), format!("{who} has no such parameter: leave it out"))),
    }
}

/// What the canonical form of tools, of a schema and of the delivery does not hold must not vanish either.
fn refuse_inner_members(request: &Request, who: &str, carried: &[&str]) -> Result<(), Unsupported> {
    for (i, tool) in request.body.get("tools").and_then(Json::as_array).unwrap_or_default().iter().enumerate() {
        refuse_others(&format!("tools[{i}]"), tool, &["type", "function"], who)?;
        let known = ["name", "description", "parameters", "strict"];
        refuse_others(&format!("tools[{i}].function"), tool.get("function").unwrap_or(&Json::Null), &known, who)?;
    }
    if let Some(format) = request.body.get_some("response_format") {
        refuse_others("response_format", format, &["type", "json_schema"], who)?;
        let schema = format.get("json_schema").unwrap_or(&Json::Null);
        let described = carried.contains(&"response_format.json_schema.description");
        if schema.get_some("description").is_some() && !described {
            let why = format!("{who} has no place for it: put it into the schema");
            return Err(Unsupported::new("response_format.json_schema.description", why));
        }
        refuse_others("response_format.json_schema", schema, &["name", "schema", "strict", "description"], who)?;
    }
    refuse_delivery(request, who)
}

/// Usage is always asked for; what else a client asks of the delivery, nobody else can give.
pub(crate) fn refuse_delivery(request: &Request, who: &str) -> Result<(), Unsupported> {
    let options = request.body.get("stream_options").and_then(Json::as_object);
    let asked = options.into_iter().flat_map(Object::iter).find(|(name, value)| {
        let nothing = *name == "include_obfuscation" && value.as_bool() == Some(false);
        *name != "include_usage" && !value.is_null() && !nothing
    });
    match asked {
        None => Ok(()),
        Some((name, _)) => {
            let why = format!("{who} has no place for it: leave it out");
            Err(Unsupported::new(format!("stream_options.{}", short(name)), why))
        }
    }
}

/// The value that the parameter has when it is absent.
pub(crate) fn asks_nothing(name: &str, value: &Json) -> bool {
    match (name, value) {
        (_, Json::Null) => true,
        ("logprobs" | "store", Json::Bool(false)) => true,
        ("n", Json::Number(n)) => n.as_f64() == 1.0,
        ("presence_penalty" | "frequency_penalty" | "top_logprobs", Json::Number(n)) => n.as_f64() == 0.0,
        ("logit_bias" | "metadata", Json::Object(members)) => members.is_empty(),
        ("modalities", Json::Array(items)) => matches!(items.as_slice(), [Json::String(only)] if only == "text"),
        ("service_tier", Json::String(tier)) => tier == "auto",
        _ => false,
    }
}

/// What the canonical form of a message does not hold must not vanish either.
pub(crate) fn refuse_message_members(request: &Request, who: &str) -> Result<(), Unsupported> {
    let messages = request.body.get("messages").and_then(Json::as_array).unwrap_or_default();
    for (i, message) in messages.iter().enumerate() {
        let at = format!("messages[{i}]");
        if message.get_some("name").is_some() {
            let why = format!("{who} has no names of participants: put it into the text");
            return Err(Unsupported::new(format!("{at}.name"), why));
        }
        refuse_others(&at, message, &["role", "content", "tool_calls", "tool_call_id", "refusal", "name"], who)?;
        let parts = message.get("content").and_then(Json::as_array).unwrap_or_default();
        for (j, part) in parts.iter().enumerate() {
            // Kinds that only OpenAI knows are refused as a whole, by their kind.
            if matches!(part.get("type").and_then(Json::as_str), Some("text" | "image_url" | "refusal")) {
                refuse_others(&format!("{at}.content[{j}]"), part, &["type", "text", "image_url", "refusal"], who)?;
            }
        }
    }
    Ok(())
}

/// Refuses the first member that is neither known nor a by-product of an answer.
pub(crate) fn refuse_others(at: &str, value: &Json, known: &[&str], who: &str) -> Result<(), Unsupported> {
    refuse_unless(at, value, |name| known.contains(&name) || is_by_product(name), who)
}

/// Refuses the first member that is not known.
pub(crate) fn refuse_all_others(at: &str, value: &Json, known: &[&str], who: &str) -> Result<(), Unsupported> {
    refuse_unless(at, value, |name| known.contains(&name), who)
}

fn refuse_unless(at: &str, value: &Json, is_known: impl Fn(&str) -> bool, who: &str) -> Result<(), Unsupported> {
    let Some(object) = value.as_object() else { return Ok(()) };
    match object.iter().find(|(name, value)| !is_known(name) && !value.is_null()) {
        None => Ok(()),
        Some((name, _)) => {
            let why = format!("{who} has no place for it: leave it out");
            Err(Unsupported::new(format!("{at}.{}", short(name)), why))
        }
    }
}

/// A foreign name, short enough to be shown.
pub(crate) fn short(name: &str) -> String {
    name.chars().take(64).collect()
}

/// The text of a message that can hold nothing else, its parts joined.
pub(crate) fn only_text(i: usize, parts: &[Part], who: &str, role: &str) -> Result<String, Unsupported> {
    let mut text = String::new();
    for (j, part) in parts.iter().enumerate() {
        match part {
            Part::Text(content) => text.push_str(content),
            Part::Image { .. } | Part::Other(_) => {
                let at = format!("messages[{i}].content[{j}]");
                return Err(Unsupported::new(at, format!("{who} takes only text in {role} messages")));
            }
        }
    }
    Ok(text)
}

/// A kind of part that the format does not know.
pub(crate) fn unknown_part(at: &str, kind: &str, who: &str) -> Unsupported {
    Unsupported::new(at, format!("{who} takes text and images here, not `{}`", short(kind)))
}

/// An image part has a choice of detail that most formats lack.
pub(crate) fn refuse_detail(at: &str, detail: Option<&str>, who: &str) -> Result<(), Unsupported> {
    match detail {
        None | Some("auto") => Ok(()),
        Some(_) => {
            let why = format!("{who} has no such choice: leave it out");
            Err(Unsupported::new(format!("{at}.image_url.detail"), why))
        }
    }
}

/// Media type and base64 data of a `data:` address.
pub(crate) fn inline_data(url: &str) -> Option<(&str, &str)> {
    url.strip_prefix("data:")?.split_once(";base64,")
}

/// A call's arguments as the object that they must be, every digit as it was; none at all are `{}`.
pub(crate) fn arguments(i: usize, j: usize, call: &ToolCall, who: &str) -> Result<Object, Unsupported> {
    let at = || format!("messages[{i}].tool_calls[{j}].function.arguments");
    if call.arguments.trim().is_empty() {
        return Ok(Object::new());
    }
    match Json::parse(call.arguments.as_bytes()) {
        Ok(Json::Object(object)) => Ok(object),
        Ok(other) => Err(Unsupported::new(at(), format!("{who} takes a JSON object here, not {}", other.kind()))),
        Err(error) => Err(Unsupported::new(at(), error.to_string())),
    }
}

/// The name of the function that the result's call was made to. The reader has made sure that there is one.
pub(crate) fn called_name<'a>(messages: &'a [Message], result: usize, id: &str) -> &'a str {
    let turns = messages[..result].iter().rev().filter_map(|message| match message {
        Message::Assistant { tool_calls, .. } => Some(tool_calls),
        _ => None,
    });
    let mut calls = turns.flatten().filter(|call| call.id == id);
    calls.next().map_or("", |call| call.name.as_str())
}

/// The results that begin at `first`, in the order of the calls that they answer (field case B028): the places of their
/// messages.
pub(crate) fn results_in_order(messages: &[Message], first: usize) -> Vec<usize> {
    let turn = messages[..first].iter().rev().find_map(|message| match message {
        Message::Assistant { tool_calls, .. } => Some(tool_calls),
        _ => None,
    });
    let place = |i: &usize| match &messages[*i] {
        Message::Tool { tool_call_id, .. } => turn?.iter().position(|call| call.id == *tool_call_id),
        _ => None,
    };
    let run = messages[first..].iter().take_while(|message| matches!(message, Message::Tool { .. })).count();
    let mut results: Vec<usize> = (first..first + run).collect();
    results.sort_by_key(place);
    results
}

/// A call that is demanded, of none that could be made.
pub(crate) fn refuse_choice_without_tools(request: &Request) -> Result<(), Unsupported> {
    match &request.tool_choice {
        Some(ToolChoice::Required | ToolChoice::Function(_)) if request.tools.is_empty() => {
            Err(Unsupported::new("tool_choice", "demands a call, but there are no tools"))
        }
        _ => Ok(()),
    }
}

/// One call at a time can only be promised by those who have a word for it.
pub(crate) fn refuse_one_at_a_time(request: &Request, who: &str) -> Result<(), Unsupported> {
    if request.parallel_tool_calls == Some(false) && !request.tools.is_empty() {
        let why = format!("{who} cannot be held to one call at a time: leave it out");
        return Err(Unsupported::new("parallel_tool_calls", why));
    }
    Ok(())
}

/// One answer a request, of those who give no more.
pub(crate) fn refuse_several_answers(request: &Request, who: &str) -> Result<(), Unsupported> {
    if request.n.is_some_and(|n| n > 1) {
        return Err(Unsupported::new("n", format!("{who} gives one answer per request: send n = 1 or leave it out")));
    }
    Ok(())
}

/// Adds a turn to a conversation of two sides, or to the last turn where it is the same side's. Nothing makes no turn.
pub(crate) fn add_turn<'a>(turns: &mut Vec<(&'a str, Vec<Json>)>, role: &'a str, content: Vec<Json>) {
    match turns.last_mut() {
        _ if content.is_empty() => {}
        Some((last, turn)) if *last == role => turn.extend(content),
        _ => turns.push((role, content)),
    }
}

/// Stop strings, under the format's own name for them.
pub(crate) fn add_stops(body: &mut Object, name: &str, request: &Request) {
    if !request.stop.is_empty() {
        body.insert(name, request.stop.iter().map(|stop| Json::from(stop.as_str())).collect::<Vec<_>>());
    }
}

/// `temperature`, and `top_p` under the format's own name for it.
pub(crate) fn add_sampling(body: &mut Object, top_p: &str, request: &Request) {
    for (name, value) in [("temperature", &request.temperature), (top_p, &request.top_p)] {
        if let Some(value) = value {
            body.insert(name, value.clone());
        }
    }
}

/// Parameters that go on under the client's own name for them.
pub(crate) fn add_as_sent(body: &mut Object, names: &[&str], request: &Request) {
    for name in names {
        if let Some(value) = request.body.get_some(name) {
            body.insert(*name, value.clone());
        }
    }
}

pub(crate) fn object<const N: usize>(members: [(&str, Json); N]) -> Json {
    Json::Object(members.into_iter().collect())
}
