//! Prompts that are longer than what the model reads, and are cut without a word.

use serde_json::Value;

use super::rewrite::texts;
use super::{Act, BOTH, Memory, Misbehaviour, ROUND_TRIP, Skip, TOKENIZER};
use crate::local::sim::model::Ask;

/// What such a provider reads of a prompt, bytes: some 2,000 tokens, the default of several local servers.
const READS: usize = 8_192;

const fn row(name: &'static str, does: &'static str, source: &'static str, acts: &'static [Act]) -> Misbehaviour {
    Misbehaviour::new(name, does, source, TOKENIZER, BOTH, acts)
}

pub(super) const ROWS: &[Misbehaviour] = &[
    row(
        "cuts-the-head",
        "drops the front of a long prompt, and counts what is left",
        "B072",
        &[Act::Skip(Skip::Window), Act::Body(|body| head_off(texts(body)))],
    ),
    row(
        "cuts-the-head-bills-all",
        "drops the front of a long prompt, and bills all of it",
        "B072",
        &[Act::Skip(Skip::Window), Act::Ask(|ask, _| head_off(turns(ask)))],
    ),
    row(
        "cuts-the-middle",
        "drops the middle of a long prompt, and bills all of it",
        "context compression",
        &[Act::Skip(Skip::Window), Act::Ask(|ask, _| middle_out(turns(ask)))],
    ),
    row(
        "cuts-the-tail",
        "drops the end of a long prompt, and counts what is left",
        "embedding servers behind chat",
        &[Act::Skip(Skip::Window), Act::Body(|body| tail_off(texts(body), READS))],
    ),
    row(
        "cuts-the-tail-bills-all",
        "drops the end of a long prompt, and bills all of it",
        "request size limits",
        &[Act::Skip(Skip::Window), Act::Ask(|ask, _| tail_off(turns(ask), READS))],
    ),
    // Fits every window: it is the transport that loses it.
    Misbehaviour::new(
        "cuts-input-at-64-kb",
        "reads the first 64 kB of a prompt",
        "request size limits",
        ROUND_TRIP,
        BOTH,
        &[Act::Skip(Skip::Window), Act::Ask(|ask, _| tail_off(turns(ask), 65_536))],
    ),
    row(
        "cuts-only-beyond-the-window",
        "drops the front of a prompt beyond its window instead of refusing it",
        "B072",
        &[Act::Skip(Skip::Window), Act::Ask(beyond_window)],
    ),
    row(
        "rolls-over-turns",
        "drops the oldest messages of a long conversation",
        "chat servers with rolling history",
        &[Act::Skip(Skip::Window), Act::Body(oldest_out)],
    ),
];

fn turns(ask: &mut Ask) -> Vec<&mut String> {
    ask.turns.iter_mut().map(|turn| &mut turn.text).collect()
}

/// The nearest place at or before `at` where a character begins.
fn boundary(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

/// Keeps the last bytes of all texts together.
fn head_off(texts: Vec<&mut String>) {
    let mut room = READS;
    for text in texts.into_iter().rev() {
        let from = boundary(text, text.len().saturating_sub(room));
        text.drain(..from);
        room = room.saturating_sub(text.len());
    }
}

/// Keeps the first bytes of all texts together.
fn tail_off(texts: Vec<&mut String>, reads: usize) {
    let mut room = reads;
    for text in texts {
        let to = boundary(text, room);
        text.truncate(to);
        room = room.saturating_sub(text.len());
    }
}

fn middle_out(texts: Vec<&mut String>) {
    for text in texts.into_iter().filter(|text| text.len() > READS) {
        let (from, to) = (boundary(text, READS / 2), boundary(text, text.len() - READS / 2));
        text.drain(from..to);
    }
}

/// A token is about four bytes.
fn beyond_window(ask: &mut Ask, _: &Memory) {
    let all: usize = ask.turns.iter().map(|turn| turn.text.len()).sum();
    if all > ask.window.saturating_mul(4) {
        head_off(turns(ask));
    }
}

fn oldest_out(body: &mut Value) {
    if let Some(messages) = body.get_mut("messages").and_then(Value::as_array_mut) {
        let long = |messages: &[Value]| messages.iter().map(|m| m.to_string().len()).sum::<usize>() > READS;
        while messages.len() > 1 && long(messages) {
            messages.remove(0);
        }
    }
    head_off(texts(body));
}
