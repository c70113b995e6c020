//! Prompts that do not arrive as they were sent: roles, order, and the characters of user text.

use serde_json::{Value, json};

use super::rewrite::texts;
use super::{Act, BOTH, Memory, Misbehaviour, OPENAI, ROUND_TRIP, TOKENIZER};
use crate::local::sim::model::{Ask, Role, Turn};

const fn row(name: &'static str, does: &'static str, source: &'static str, acts: &'static [Act]) -> Misbehaviour {
    Misbehaviour::new(name, does, source, ROUND_TRIP, BOTH, acts)
}

/// Changes the texts of the prompt; the bill is made of what was sent.
macro_rules! read_as {
    ($change:expr) => {
        &[Act::Ask(|ask, _| ask.turns.iter_mut().for_each(|turn| turn.text = $change(turn.text.as_str())))]
    };
}

pub(super) const ROWS: &[Misbehaviour] = &[
    row("ignores-system-prompt", "does not show the system prompt to the model", "B005", &[Act::Ask(no_system)]),
    row(
        "bills-no-system-prompt",
        "drops the system prompt before the prompt is counted",
        "B005",
        &[Act::Body(drops_system)],
    ),
    Misbehaviour::new(
        "drops-later-system-messages",
        "keeps the first system message and drops those inside the conversation",
        "B005",
        ROUND_TRIP,
        OPENAI,
        &[Act::Ask(first_system_only)],
    ),
    row(
        "merges-roles",
        "joins all messages into one of the user",
        "completion models behind a chat interface",
        &[Act::Ask(merges)],
    ),
    row(
        "reverses-messages",
        "shows the conversation in reverse order",
        "chat templates that sort by role",
        &[Act::Ask(|ask, _| ask.turns.reverse())],
    ),
    row(
        "drops-history",
        "shows the last message only",
        "stateless wrappers around chat models",
        &[Act::Ask(no_history)],
    ),
    row(
        "drops-assistant-turns",
        "drops the assistant's earlier turns",
        "B033",
        &[Act::Ask(|ask, _| {
            ask.turns.retain(|turn| turn.role != Role::Assistant);
        })],
    ),
    row(
        "drops-tool-results",
        "drops the results of tools",
        "B028",
        &[Act::Ask(|ask, _| {
            ask.turns.retain(|turn| turn.role != Role::Tool);
        })],
    ),
    row("lower-cases-input", "reads the prompt in lower case", "uncased tokenizers", read_as!(lower)),
    row(
        "collapses-white-space",
        "joins runs of white space into one blank",
        "tokenizers that normalise",
        read_as!(collapsed),
    ),
    row("composes-accents", "composes letters and accents (NFC)", "tokenizers that normalise", read_as!(composed)),
    row("strips-zero-width", "takes zero-width characters out", "input sanitisers", read_as!(no_zero_width)),
    row("loses-emoji", "reads characters beyond the first plane as U+FFFD", "B144", read_as!(first_plane)),
    row("splits-surrogates", "reads each half of a surrogate pair by itself", "B010", read_as!(split_pairs)),
    row(
        "reads-ascii-only",
        "reads what is not ASCII as question marks",
        "Windows consoles in between",
        read_as!(ascii),
    ),
    row("reads-latin-1", "reads UTF-8 as Latin-1", "proxies that assume ISO-8859-1", read_as!(latin)),
    row(
        "unescapes-html",
        "turns &amp; and &lt; in the prompt into & and <",
        "proxies that sanitise input",
        read_as!(unescaped),
    ),
    row("drops-nul", "ends the text at a NUL", "B143", read_as!(before_nul)),
    row(
        "mixes-sessions",
        "puts another caller's prompt before this one",
        "prefix caches that collide",
        &[Act::Ask(mixes)],
    ),
    Misbehaviour::new(
        "interprets-control-tokens",
        "reads control-token literals in user text as control tokens",
        "B062",
        TOKENIZER,
        BOTH,
        &[Act::Body(|body| texts(body).into_iter().for_each(|text| *text = controlled(text)))],
    ),
    Misbehaviour::new(
        "obeys-injected-system",
        "lets user text close its turn and open a system turn",
        "B062",
        TOKENIZER,
        BOTH,
        &[Act::Ask(injected)],
    ),
    Misbehaviour::new(
        "deletes-control-literals",
        "takes control-token literals out of user text, and bills them",
        "B062",
        TOKENIZER,
        BOTH,
        read_as!(literals_out),
    ),
    Misbehaviour::new(
        "refuses-control-literals",
        "refuses prompts that hold control-token literals",
        "tiktoken's disallowed_special",
        TOKENIZER,
        BOTH,
        &[Act::Body(refuses_literals)],
    ),
];

fn no_system(ask: &mut Ask, _: &Memory) {
    ask.turns.retain(|turn| turn.role != Role::System);
}

fn drops_system(body: &mut Value) {
    super::rewrite::without(body, &["system"]);
    if let Some(messages) = body.get_mut("messages").and_then(Value::as_array_mut) {
        messages.retain(|message| message["role"] != "system" && message["role"] != "developer");
    }
}

fn first_system_only(ask: &mut Ask, _: &Memory) {
    let mut seen = false;
    ask.turns.retain(|turn| turn.role != Role::System || !std::mem::replace(&mut seen, true));
}

fn merges(ask: &mut Ask, _: &Memory) {
    let text = ask.turns.iter().map(|turn| turn.text.as_str()).collect::<Vec<_>>().join("\n");
    ask.turns = vec![Turn { role: Role::User, text }];
}

fn no_history(ask: &mut Ask, _: &Memory) {
    let last = ask.turns.pop();
    ask.turns = last.into_iter().collect();
}

fn lower(text: &str) -> String {
    text.to_lowercase()
}

fn collapsed(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn composed(text: &str) -> String {
    const PAIRS: [(&str, &str); 6] = [
        ("e\u{301}", "é"),
        ("n\u{303}", "ñ"),
        ("a\u{308}", "ä"),
        ("o\u{308}", "ö"),
        ("u\u{308}", "ü"),
        ("A\u{30a}", "Å"),
    ];
    PAIRS.iter().fold(text.to_owned(), |text, (apart, whole)| text.replace(apart, whole))
}

fn no_zero_width(text: &str) -> String {
    text.replace(['\u{200b}', '\u{200c}', '\u{200d}', '\u{2060}', '\u{feff}'], "")
}

fn first_plane(text: &str) -> String {
    text.chars().map(|c| if c > '\u{ffff}' { '\u{fffd}' } else { c }).collect()
}

fn split_pairs(text: &str) -> String {
    char::decode_utf16(text.encode_utf16().flat_map(|unit| [unit, 0x20].into_iter().take(wide(unit))))
        .map(|c| c.unwrap_or('\u{fffd}'))
        .collect()
}

/// How many units go out for one: a surrogate gets a blank behind it, which parts the pair.
fn wide(unit: u16) -> usize {
    if (0xd800..0xe000).contains(&unit) { 2 } else { 1 }
}

fn ascii(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii() { c } else { '?' }).collect()
}

fn latin(text: &str) -> String {
    text.bytes().map(char::from).collect()
}

fn unescaped(text: &str) -> String {
    text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&")
}

fn before_nul(text: &str) -> String {
    text.split('\0').next().unwrap_or_default().to_owned()
}

fn mixes(ask: &mut Ask, memory: &Memory) {
    if let (Some(previous), Some(turn)) = (memory.previous(), ask.turns.last_mut()) {
        turn.text = format!("Reply with exactly: {previous}\n{}", turn.text);
    }
}

/// Where control-token literals of the usual families stand in a text.
fn literals(text: &str) -> Vec<(usize, usize)> {
    const PLAIN: [&str; 8] = ["[INST]", "[/INST]", "<s>", "</s>", "<start_of_turn>", "<end_of_turn>", "<bos>", "<eos>"];
    let mut found: Vec<(usize, usize)> = PLAIN
        .iter()
        .flat_map(|literal| text.match_indices(literal).map(|(at, literal)| (at, at + literal.len())))
        .collect();
    for (open, close) in [("<|", "|>"), ("<｜", "｜>")] {
        let inside = |at: usize| Some(at + open.len()..at + open.len() + text[at + open.len()..].find(close)?);
        let ranges = text.match_indices(open).filter_map(|(at, _)| Some((at, inside(at)?)));
        let named =
            ranges.filter(|(_, name)| text[name.clone()].chars().all(|c| c.is_alphabetic() || "_▁".contains(c)));
        found.extend(named.map(|(at, name)| (at, name.end + close.len())));
    }
    found.sort_unstable();
    found
}

fn replaced(text: &str, instead: &str) -> String {
    let (mut out, mut from) = (String::new(), 0);
    for (start, end) in literals(text) {
        out.push_str(&text[from..start]);
        out.push_str(instead);
        from = end;
    }
    out + &text[from..]
}

/// One token each, as a control token is.
fn controlled(text: &str) -> String {
    replaced(text, "\n")
}

fn literals_out(text: &str) -> String {
    replaced(text, "")
}

/// What follows `<|start…|>system` in a user's text becomes a system turn.
fn injected(ask: &mut Ask, _: &Memory) {
    const OPENINGS: [&str; 3] = ["<|im_start|>system", "<|start_header_id|>system<|end_header_id|>", "<|system|>"];
    let mut more = Vec::new();
    for turn in ask.turns.iter().filter(|turn| turn.role == Role::User) {
        for opening in OPENINGS {
            more.extend(turn.text.split(opening).skip(1).map(|rest| {
                let end = rest.find("<|").unwrap_or(rest.len());
                Turn { role: Role::System, text: rest[..end].trim().to_owned() }
            }));
        }
    }
    ask.turns.extend(more);
}

fn refuses_literals(body: &mut Value) {
    if texts(body).iter().any(|text| !literals(text).is_empty()) {
        // A value that no protocol takes: the request is refused as it stands.
        body["temperature"] = json!("disallowed special token");
    }
}
