//! The mini-model behind the simulated providers: deterministic, and useful enough to keep a real contract.
//!
//! It follows general rules (do as told, call the tool, fill the schema, else echo) and must never know a suite: what
//! passes here has to pass because the gateway and the suite did their part.

use serde_json::{Value, json};

use super::Behaviour;
use super::noise::Noise;
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
    /// Whether several tools may be called at once.
    pub(super) parallel: bool,
    /// How many answers are wanted.
    pub(super) choices: usize,
    /// Asks for the same answer each time.
    pub(super) seed: Option<i64>,
    /// The provider's window, tokens.
    pub(super) window: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    Natural,
    Length,
    Stop(String),
    Tool,
}

/// A call of a tool. `arguments` is JSON text, cut where the limit cut it.
#[derive(Debug, Clone)]
pub(super) struct Called {
    pub(super) name: String,
    pub(super) arguments: String,
}

#[derive(Debug, Clone)]
pub(super) struct Reply {
    /// Empty beside tool calls.
    pub(super) text: String,
    pub(super) calls: Vec<Called>,
    pub(super) end: End,
    pub(super) tokens: usize,
    /// Whether a schema was to be filled.
    pub(super) structured: bool,
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
///
/// `dice` are cast where chance is asked for, `noise` everywhere.
pub(super) fn answer(ask: &Ask, behaviour: Behaviour, noise: &Noise, dice: &Noise) -> Result<Reply, Unwritable> {
    let broken = behaviour == Behaviour::BreaksContract;
    let ignores_system = |turn: &&Turn| !(broken && turn.role == Role::System);
    let turns: Vec<&Turn> = ask.turns.iter().filter(ignores_system).collect();
    let system = joined(&turns, Role::System);
    let about = topic(&turns);
    if let Some(tool) = forced_tool(ask, about) {
        return call(tool, about, &system, ask, noise);
    }
    if let Some(schema) = wanted_schema(ask, &turns) {
        let value = match told_value(&schema, &turns)? {
            Some(value) => value,
            None => schema::write(&schema, about, &system, noise)?,
        };
        return Ok(Reply { structured: true, ..finish(structured(value, broken, noise), ask) });
    }
    if let Some(told) = instruction(&turns) {
        return Ok(finish(noise.told(told), ask));
    }
    if let Some(text) = random_words(&turns, dice) {
        return Ok(finish(noise.told(text), ask));
    }
    if let (ToolChoice::Auto, Some(tool)) = (&ask.choice, likely_tool(&ask.tools, &turns, about)) {
        return call(tool, about, &system, ask, noise);
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
fn structured(mut value: Value, broken: bool, noise: &Noise) -> String {
    if !broken {
        return noise.write(&value);
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

/// Of its own accord the model calls a tool that is named or clearly fits, and answers once the tool has.
fn likely_tool<'a>(tools: &'a [Tool], turns: &[&Turn], about: &str) -> Option<&'a Tool> {
    if turns.last().is_none_or(|turn| turn.role != Role::User) {
        return None;
    }
    let named = tools.iter().find(|tool| about.to_ascii_lowercase().contains(&format!("call {}", tool.name)));
    named.or_else(|| tools.iter().rev().max_by_key(|t| fitness(t, about)).filter(|t| fitness(t, about) >= 2))
}

fn fitness(tool: &Tool, about: &str) -> usize {
    Stems::of(&format!("{} {}", tool.name.replace(['_', '-'], " "), tool.description)).overlap(&Stems::of(about))
}

/// The call or calls. Objects in the text that fit the tool are its arguments, one call each.
fn call(tool: &Tool, about: &str, system: &str, ask: &Ask, noise: &Noise) -> Result<Reply, Unwritable> {
    let mut arguments = dictated(&tool.schema, about)?;
    if arguments.is_empty() {
        arguments.push(schema::write(&tool.schema, about, system, noise)?);
    }
    let most = if ask.parallel { arguments.len() } else { 1 };
    let name_tokens = count(&tool.name);
    let mut reply = Reply { text: String::new(), calls: Vec::new(), end: End::Tool, tokens: 0, structured: false };
    for arguments in arguments.iter().take(most) {
        let room = ask.limit.map(|limit| limit.saturating_sub(reply.tokens + name_tokens));
        let (arguments, tokens, cut) = truncate(&noise.write(arguments), room);
        reply.tokens += tokens + name_tokens;
        reply.calls.push(Called { name: tool.name.clone(), arguments });
        if cut {
            reply.end = End::Length;
            break;
        }
    }
    Ok(reply)
}

/// The JSON objects in a text that fit a schema, in order; none where the schema asks for nothing.
fn dictated(schema: &Value, text: &str) -> Result<Vec<Value>, Unwritable> {
    let validator = schema::check(schema)?;
    let names = |value: &Value| value.as_object().is_some_and(|object| !object.is_empty());
    if !schema.get("properties").is_some_and(names) {
        return Ok(Vec::new());
    }
    let (mut found, mut from) = (Vec::new(), 0);
    for (at, _) in text.match_indices('{').filter(|(at, _)| text.is_char_boundary(*at)) {
        let mut values = serde_json::Deserializer::from_str(&text[at..]).into_iter::<Value>();
        if let (true, Some(Ok(value))) = (at >= from, values.next()) {
            from = at + values.byte_offset();
            found.extend(Some(value).filter(|value| names(value) && validator.is_valid(value)));
        }
    }
    Ok(found)
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

/// The object that the prompt says to answer, word for word, if the schema takes it.
fn told_value(schema: &Value, turns: &[&Turn]) -> Result<Option<Value>, Unwritable> {
    let told = instruction(turns).and_then(|told| serde_json::from_str::<Value>(&told).ok());
    let validator = schema::check(schema)?;
    Ok(told.filter(|told| told.is_object() && validator.is_valid(told)))
}

/// Words by chance, where they are asked for.
fn random_words(turns: &[&Turn], dice: &Noise) -> Option<String> {
    const WORDS: [&str; 12] =
        ["amber", "birch", "cloud", "delta", "ember", "fjord", "grove", "heron", "islet", "juniper", "kelp", "lark"];
    let last = turns.last().filter(|last| last.role == Role::User)?;
    let random = last.text.to_ascii_lowercase().contains("random words");
    random.then(|| (0..12).map(|_| WORDS[dice.below(WORDS.len())]).collect::<Vec<_>>().join(" "))
}

/// What the prompt says to answer, word for word; the system prompt goes before the user.
fn instruction(turns: &[&Turn]) -> Option<String> {
    if turns.last().is_some_and(|turn| turn.text.to_ascii_lowercase().contains("repeat your last answer")) {
        let said = turns.iter().rev().find(|turn| turn.role == Role::Assistant);
        return Some(said.map_or("I have not answered anything yet.", |turn| turn.text.as_str()).to_owned());
    }
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
    Reply { text, calls: Vec::new(), end: if cut { End::Length } else { end }, tokens, structured: false }
}

/// At most `limit` tokens of `text`, their number, and whether anything was cut. Half a character is left away.
pub(super) fn truncate(text: &str, limit: Option<usize>) -> (String, usize, bool) {
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
