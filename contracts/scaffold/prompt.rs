//! Which parts of a real prompt vary: what differs between several requests, or in a single one what stands in tags, in
//! fences or behind a label.
//!
//! A guess that would not give the real prompt back, byte for byte, is not made.

use std::collections::BTreeMap;

use providers::canonical::{Message, Part};
use providers::json::{Json, Object};

use super::{Pair, ScaffoldError, input};
use crate::template;

/// The prompt as a template, and the variables of each case.
#[derive(Debug)]
pub(super) struct Prompt {
    pub system: Option<String>,
    /// Role and template.
    pub turns: Vec<(&'static str, String)>,
    pub user: String,
    pub vars: Vec<Object>,
    pub notes: Vec<String>,
}

const TEXT_CURE: &str = "A suite's prompt is text in system, user and assistant messages, the last of them the user's";

/// What all requests have in common.
pub(super) fn common(pairs: &[Pair]) -> Result<Prompt, ScaffoldError> {
    let conversations: Vec<Vec<(&str, String)>> = pairs.iter().map(conversation).collect::<Result<_, _>>()?;
    let shape = |c: &[(&'static str, String)]| c.iter().map(|(role, _)| *role).collect::<Vec<_>>();
    let first = shape(&conversations[0]);
    for (pair, conversation) in pairs.iter().zip(&conversations) {
        if shape(conversation) != first {
            let what = "its messages are not those of the first request, role for role";
            return Err(input(&pair.request_file, what, "Make a suite of its own for it"));
        }
    }
    let mut prompt = Prompt {
        system: None,
        turns: Vec::new(),
        user: String::new(),
        vars: vec![Object::new(); pairs.len()],
        notes: Vec::new(),
    };
    for (i, role) in first.iter().enumerate() {
        let texts: Vec<&str> = conversations.iter().map(|c| c[i].1.as_str()).collect();
        let last = i + 1 == first.len();
        let template = match (texts.iter().all(|t| *t == texts[0]), last) {
            (true, true) if texts.len() == 1 => guessed(texts[0], &mut prompt),
            (true, _) => template::escape(texts[0]),
            (false, _) => differing(&texts, &mut prompt, if last { "input".to_owned() } else { format!("{role}_{i}") }),
        };
        match *role {
            "system" => prompt.system = Some(template),
            _ if last => prompt.user = template,
            role => prompt.turns.push((role, template)),
        }
    }
    Ok(prompt)
}

/// Role and text of each message; several system messages are one.
fn conversation(pair: &Pair) -> Result<Vec<(&'static str, String)>, ScaffoldError> {
    let mut out: Vec<(&'static str, String)> = Vec::new();
    for (i, message) in pair.request.messages.iter().enumerate() {
        let refuse = |what: &str| Err(input(&pair.request_file, format!("messages[{i}] {what}"), TEXT_CURE));
        let (role, parts) = match message {
            Message::System { parts, .. } => ("system", parts),
            Message::User { parts, .. } => ("user", parts),
            Message::Assistant { tool_calls, .. } if !tool_calls.is_empty() => return refuse("calls tools"),
            Message::Assistant { parts, .. } => ("assistant", parts),
            Message::Tool { .. } => return refuse("is a tool's result"),
        };
        let mut text = String::new();
        for part in parts {
            match part {
                Part::Text(piece) => text.push_str(piece),
                Part::Image { .. } => return refuse("holds an image"),
                Part::Other(kind) => return refuse(&format!("holds a part of type {kind}")),
            }
        }
        match (role, out.first_mut()) {
            ("system", Some((_, first))) if out_is_system(first, &pair.request.messages) => {
                first.push_str("\n\n");
                first.push_str(&text);
            }
            ("system", _) => out.insert(0, (role, text)),
            _ => out.push((role, text)),
        }
    }
    match out.last() {
        Some(("user", _)) => Ok(out),
        _ => Err(input(&pair.request_file, "the last message is not the user's", TEXT_CURE)),
    }
}

/// Whether a first text is there that a system message has put there.
fn out_is_system(_first: &str, messages: &[Message]) -> bool {
    messages.iter().filter(|m| matches!(m, Message::System { .. })).count() > 1
}

/// The common beginning and end, cut at words, with a variable between them.
fn differing(texts: &[&str], prompt: &mut Prompt, name: String) -> String {
    let head =
        texts.iter().skip(1).fold(texts[0].len(), |least, text| least.min(alike(texts[0].bytes(), text.bytes())));
    let head = boundary(texts[0], head, |c| c.is_whitespace());
    let tails = texts.iter().map(|text| &text[head..]);
    let rest = &texts[0][head..];
    let tail = tails.skip(1).fold(rest.len(), |least, text| least.min(alike(rest.bytes().rev(), text.bytes().rev())));
    let from = rest.len() - tail;
    let from = (from..=rest.len()).find(|at| rest.is_char_boundary(*at)).unwrap_or(rest.len());
    let from = rest[from..].find(char::is_whitespace).map_or(rest.len(), |at| from + at);
    let tail = &rest[from..];
    for (text, vars) in texts.iter().zip(&mut prompt.vars) {
        vars.insert(name.clone(), text[head..text.len() - tail.len()].to_owned());
    }
    format!("{}{{{{{name}}}}}{}", template::escape(&texts[0][..head]), template::escape(tail))
}

fn alike(a: impl Iterator<Item = u8>, b: impl Iterator<Item = u8>) -> usize {
    a.zip(b).take_while(|(a, b)| a == b).count()
}

/// The end of the last whole word before `at`.
fn boundary(text: &str, at: usize, ends: impl Fn(char) -> bool) -> usize {
    let at = (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    if at == text.len() {
        return at;
    }
    text[..at].char_indices().rev().find(|(_, c)| ends(*c)).map_or(0, |(i, c)| i + c.len_utf8())
}

/// A part of a text: as it is, or a variable.
enum Piece<'a> {
    Fixed(&'a str),
    Variable(String, &'a str),
}

/// The first way of cutting a single message that finds something and gives the message back.
fn guessed(text: &str, prompt: &mut Prompt) -> String {
    for cut in [tagged, fenced, labelled] {
        let pieces = cut(text);
        let mut vars = BTreeMap::new();
        let mut out = String::new();
        for piece in &pieces {
            match piece {
                Piece::Fixed(text) => out.push_str(&template::escape(text)),
                Piece::Variable(name, value) => {
                    out.push_str(&format!("{{{{{name}}}}}"));
                    vars.insert(name.clone(), Json::from(*value));
                }
            }
        }
        let distinct = vars.len() == pieces.iter().filter(|p| matches!(p, Piece::Variable(..))).count();
        if !vars.is_empty() && distinct && template::render(&out, &vars).is_ok_and(|back| back == text) {
            let names: Vec<&str> = vars.keys().map(String::as_str).collect();
            let words = names.join(", ");
            prompt
                .notes
                .push(format!("taken for what varies in the prompt: {words}. Look at [prompt] and cases/*.json"));
            for (name, value) in vars {
                prompt.vars[0].insert(name, value);
            }
            return out;
        }
    }
    prompt
        .notes
        .push("the whole user message was taken for what varies: put its fixed words into [prompt] user".to_owned());
    prompt.vars[0].insert("input", text);
    "{{input}}".to_owned()
}

/// `<ticket>…</ticket>`.
fn tagged(text: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(open) = rest.find('<') {
        let Some(close) = rest[open..].find('>').map(|at| open + at) else { break };
        let name = &rest[open + 1..close];
        let end = format!("</{name}>");
        let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
        match rest[close + 1..].find(&end).filter(|_| is_name) {
            Some(length) if length > 0 => {
                let (from, to) = (close + 1, close + 1 + length);
                pieces.push(Piece::Fixed(&rest[..from]));
                pieces.push(Piece::Variable(name.to_ascii_lowercase().replace('-', "_"), &rest[from..to]));
                rest = &rest[to..];
            }
            _ => {
                pieces.push(Piece::Fixed(&rest[..close + 1]));
                rest = &rest[close + 1..];
            }
        }
    }
    pieces.push(Piece::Fixed(rest));
    pieces
}

/// What stands between two lines of ``` or """.
fn fenced(text: &str) -> Vec<Piece<'_>> {
    for fence in ["```", "\"\"\""] {
        let Some(open) = text.find(fence) else { continue };
        let Some(from) = text[open..].find('\n').map(|at| open + at + 1) else { continue };
        let Some(length) = text[from..].find(&format!("\n{fence}")).filter(|length| *length > 0) else { continue };
        let to = from + length;
        return vec![
            Piece::Fixed(&text[..from]),
            Piece::Variable("text".to_owned(), &text[from..to]),
            Piece::Fixed(&text[to..]),
        ];
    }
    Vec::new()
}

/// `Customer: Ada`, and what follows a line that ends in a colon up to the next label.
fn labelled(text: &str) -> Vec<Piece<'_>> {
    let mut starts = Vec::new();
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if let Some((name, length)) = label(line) {
            starts.push((name, at, at + length));
        }
        at += line.len();
    }
    let mut pieces = Vec::new();
    let mut done = 0;
    for (i, (name, _, from)) in starts.iter().enumerate() {
        let next = starts.get(i + 1).map_or(text.len(), |(_, begin, _)| *begin);
        let value = text[*from..next].trim_end_matches('\n');
        if value.is_empty() {
            continue;
        }
        pieces.push(Piece::Fixed(&text[done..*from]));
        pieces.push(Piece::Variable(name.clone(), value));
        done = from + value.len();
    }
    pieces.push(Piece::Fixed(&text[done..]));
    pieces
}

/// The variable's name, and how long the label is with its colon and space (or line end).
fn label(line: &str) -> Option<(String, usize)> {
    let colon = line.find(':')?;
    let words = &line[..colon];
    let plain = words.chars().all(|c| c.is_alphanumeric() || c == ' ' || c == '_' || c == '-');
    let short = words.chars().count() <= 30 && words.split_whitespace().count() <= 3;
    let begins = words.chars().next().is_some_and(char::is_alphabetic) && words.is_ascii();
    let behind = &line[colon + 1..];
    let gap = behind.len() - behind.trim_start_matches([' ', '\n']).len();
    let name = words.trim().to_ascii_lowercase().replace([' ', '-'], "_");
    (plain && short && begins && gap > 0).then_some((name, colon + 1 + gap))
}
