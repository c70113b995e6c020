//! The mini-model behind the simulated providers: deterministic, and useful enough to keep a real contract.
//!
//! It follows general rules (do as told, call the tool, fill the schema, else echo) and must never know a suite: what
//! passes here has to pass because the gateway and the suite did their part.

use serde_json::{Value, json};

use super::Behaviour;
use super::schema::{self, Unwritable};
use super::words::{Stems, subject};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    System,
    User,
    Assistant,
    Tool,
}

#[derive(Debug, Clone)]
pub(super) struct Turn {
    pub(super) role: Role,
    pub(super) text: String,
}

#[derive(Debug, Clone)]
pub(super) struct Tool {
    pub(super) name: String,
    pub(super) description: String,
    pub(super) schema: Value,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ToolChoice {
    Forbidden,
    Auto,
    Required,
    Named(String),
}

#[derive(Debug, Clone)]
pub(super) enum Format {
    Text,
    AnyObject,
    Schema(Value),
}

/// A request, in no provider's words.
#[derive(Debug, Clone)]
pub(super) struct Ask {
    pub(super) turns: Vec<Turn>,
    pub(super) tools: Vec<Tool>,
    pub(super) choice: ToolChoice,
    pub(super) format: Format,
    /// Tokens that the answer may have.
    pub(super) limit: Option<usize>,
    pub(super) stops: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    Natural,
    Length,
    Stop(String),
    Tool,
}

#[derive(Debug, Clone)]
pub(super) struct Reply {
    /// Without a tool: the answer. With one: its arguments, as JSON text, cut where the limit cut them.
    pub(super) text: String,
    pub(super) tool: Option<String>,
    pub(super) end: End,
    pub(super) tokens: usize,
}

/// The one tokenizer. Its first use takes seconds in a debug build on a busy machine, so a provider loads it before it
/// serves: a first call that is slow for that reason would look like a provider that hangs.
pub fn tokenizer() -> &'static tiktoken_rs::CoreBPE {
    tiktoken_rs::o200k_base_singleton()
}

/// Tokens of a text. Control tokens inside it are text: a user's `<|endoftext|>` ends nothing.
pub(super) fn count(text: &str) -> usize {
    tokenizer().encode_ordinary(text).len()
}

/// The answer; `behaviour` decides whether it keeps the contract.
pub(super) fn answer(ask: &Ask, behaviour: Behaviour) -> Result<Reply, Unwritable> {
    let broken = behaviour == Behaviour::BreaksContract;
    let ignores_system = |turn: &&Turn| !(broken && turn.role == Role::System);
    let turns: Vec<&Turn> = ask.turns.iter().filter(ignores_system).collect();
    let system = joined(&turns, Role::System);
    let about = topic(&turns);
    if let Some(tool) = forced_tool(ask, about) {
        return call(tool, about, &system, ask.limit);
    }
    if let Some(schema) = wanted_schema(ask, &turns) {
        let value = schema::write(&schema, about, &system)?;
        return Ok(finish(structured(value, broken), ask));
    }
    if let Some(told) = instruction(&turns) {
        return Ok(finish(told, ask));
    }
    if let (ToolChoice::Auto, Some(tool)) = (&ask.choice, likely_tool(&ask.tools, &turns, about)) {
        return call(tool, about, &system, ask.limit);
    }
    let last = turns.iter().rev().find(|turn| matches!(turn.role, Role::User | Role::Tool));
    let said = match last {
        Some(turn) if turn.role == Role::Tool => format!("The tool answered: {}", turn.text),
        Some(turn) => format!("You said: {}", turn.text),
        None => "You said nothing.".to_owned(),
    };
    Ok(finish(said, ask))
}

fn joined(turns: &[&Turn], role: Role) -> String {
    turns.iter().filter(|turn| turn.role == role).map(|turn| turn.text.as_str()).collect::<Vec<_>>().join("\n")
}

/// What the answer is about: the last user's text.
fn topic<'t>(turns: &[&'t Turn]) -> &'t str {
    turns.iter().rev().find(|turn| turn.role == Role::User).map_or("", |turn| subject(&turn.text))
}

/// The contract breaker adds a member and wraps the object in prose and a fence.
fn structured(mut value: Value, broken: bool) -> String {
    if !broken {
        return value.to_string();
    }
    if let Value::Object(object) = &mut value {
        object.insert("confidence_note".to_owned(), json!("fairly sure"));
    }
    format!("Sure! Here is the JSON you asked for:\n```json\n{value:#}\n```\nLet me know if you need anything else.")
}

fn forced_tool<'a>(ask: &'a Ask, about: &str) -> Option<&'a Tool> {
    match &ask.choice {
        ToolChoice::Named(name) => ask.tools.iter().find(|tool| tool.name == *name),
        ToolChoice::Required => ask.tools.iter().rev().max_by_key(|tool| fitness(tool, about)),
        ToolChoice::Auto | ToolChoice::Forbidden => None,
    }
}

/// Of its own accord the model calls a tool that clearly fits, and answers once the tool has.
fn likely_tool<'a>(tools: &'a [Tool], turns: &[&Turn], about: &str) -> Option<&'a Tool> {
    if turns.last().is_none_or(|turn| turn.role != Role::User) {
        return None;
    }
    tools.iter().rev().max_by_key(|tool| fitness(tool, about)).filter(|tool| fitness(tool, about) >= 2)
}

fn fitness(tool: &Tool, about: &str) -> usize {
    Stems::of(&format!("{} {}", tool.name.replace(['_', '-'], " "), tool.description)).overlap(&Stems::of(about))
}

fn call(tool: &Tool, about: &str, system: &str, limit: Option<usize>) -> Result<Reply, Unwritable> {
    let arguments = schema::write(&tool.schema, about, system)?.to_string();
    let name_tokens = count(&tool.name);
    let (text, tokens, cut) = truncate(&arguments, limit.map(|limit| limit.saturating_sub(name_tokens)));
    let end = if cut { End::Length } else { End::Tool };
    Ok(Reply { text, tool: Some(tool.name.clone()), end, tokens: tokens + name_tokens })
}

/// The schema of the request, else one that stands in a prompt which asks for JSON.
fn wanted_schema(ask: &Ask, turns: &[&Turn]) -> Option<Value> {
    let written = || {
        let asking = turns.iter().filter(|turn| matches!(turn.role, Role::System | Role::User));
        asking.filter(|turn| turn.text.to_ascii_lowercase().contains("json")).find_map(|turn| embedded(&turn.text))
    };
    match &ask.format {
        Format::Schema(schema) => Some(schema.clone()),
        Format::AnyObject => Some(written().unwrap_or_else(
            || json!({"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}),
        )),
        Format::Text => written(),
    }
}

/// The first JSON object in a text that is a schema of an object.
fn embedded(text: &str) -> Option<Value> {
    text.match_indices('{').find_map(|(at, _)| {
        let value = serde_json::Deserializer::from_str(&text[at..]).into_iter::<Value>().next()?.ok()?;
        (value.get("properties").is_some_and(Value::is_object) && schema::check(&value).is_ok()).then_some(value)
    })
}

/// What the prompt says to answer, word for word; the system prompt goes before the user.
fn instruction(turns: &[&Turn]) -> Option<String> {
    let by = |role| turns.iter().rev().filter(move |turn| turn.role == role);
    by(Role::System).chain(by(Role::User)).find_map(|turn| told(&turn.text))
}

fn told(text: &str) -> Option<String> {
    const LINES: [&str; 3] = ["reply with exactly:", "answer with exactly:", "respond with exactly:"];
    const WORDS: [&str; 6] = [
        "reply with the marker",
        "answer with the marker",
        "repeat the word",
        "repeat the marker",
        "reply with the word",
        "answer with the word",
    ];
    let lower = text.to_ascii_lowercase();
    let after = |phrase: &&str| lower.find(*phrase).map(|at| text[at + phrase.len()..].trim_start());
    let line = LINES.iter().find_map(after).map(|rest| unquoted(rest.lines().next().unwrap_or("").trim()));
    let word = || WORDS.iter().find_map(after).map(first_word);
    line.or_else(word).filter(|told| !told.is_empty()).map(str::to_owned)
}

const QUOTES: [(char, char); 5] = [('"', '"'), ('\'', '\''), ('`', '`'), ('“', '”'), ('«', '»')];

/// The inside of a line that is one quotation.
fn unquoted(line: &str) -> &str {
    let bare = line.strip_suffix('.').unwrap_or(line);
    let inner = QUOTES.iter().find_map(|(open, close)| bare.strip_prefix(*open)?.strip_suffix(*close));
    inner.unwrap_or(line)
}

fn first_word(rest: &str) -> &str {
    let rest = rest.trim_start_matches([':', ' ']);
    for (open, close) in QUOTES {
        if let Some((inner, _)) = rest.strip_prefix(open).and_then(|inner| inner.split_once(close)) {
            return inner;
        }
    }
    rest.split_whitespace().next().unwrap_or("").trim_end_matches(['.', ',', '!', '?', ';', ':'])
}

/// Ends a text where it must end: at the first stop sequence, or at the limit if that comes first.
fn finish(text: String, ask: &Ask) -> Reply {
    let stops = ask.stops.iter().filter(|stop| !stop.is_empty());
    let stop = stops.filter_map(|stop| Some((text.find(stop.as_str())?, stop))).min_by_key(|(at, _)| *at);
    let (text, end) = match stop {
        Some((at, stop)) => (&text[..at], End::Stop(stop.clone())),
        None => (text.as_str(), End::Natural),
    };
    let (text, tokens, cut) = truncate(text, ask.limit);
    Reply { text, tool: None, end: if cut { End::Length } else { end }, tokens }
}

/// At most `limit` tokens of `text`, their number, and whether anything was cut. Half a character is left away.
fn truncate(text: &str, limit: Option<usize>) -> (String, usize, bool) {
    let tokenizer = tokenizer();
    let tokens = tokenizer.encode_ordinary(text);
    let Some(limit) = limit.filter(|limit| *limit < tokens.len()) else {
        return (text.to_owned(), tokens.len(), false);
    };
    let bytes = tokenizer.decode_bytes(&tokens[..limit]).unwrap_or_default();
    let whole = bytes.utf8_chunks().next().map_or("", |chunk| chunk.valid());
    (whole.to_owned(), limit, true)
}

/// The text in pieces of one token each, for a stream.
pub(super) fn pieces(text: &str) -> Vec<String> {
    let tokenizer = tokenizer();
    let (mut pieces, mut held) = (Vec::new(), Vec::new());
    for token in tokenizer.encode_ordinary(text) {
        held.extend(tokenizer.decode_bytes(&[token]).unwrap_or_default());
        if let Ok(piece) = std::str::from_utf8(&held) {
            pieces.push(piece.to_owned());
            held.clear();
        }
    }
    pieces
}
