//! Structured output that is no clean JSON: wrapped, cut, commented, refused.

use serde_json::Value;

use super::rewrite::{finish, messages, written};
use super::{Act, BOTH, Misbehaviour, OPENAI, SCHEMA};
use crate::local::sim::Wire;
use crate::local::sim::model::{Ask, End, Reply, truncate};

const fn row(name: &'static str, does: &'static str, source: &'static str, acts: &'static [Act]) -> Misbehaviour {
    Misbehaviour::new(name, does, source, SCHEMA, BOTH, acts)
}

/// Changes the text that was written to a schema.
macro_rules! text {
    ($change:expr) => {
        &[Act::Reply(|reply, ask, _| written(reply, ask, $change))]
    };
}

pub(super) const ROWS: &[Misbehaviour] = &[
    row("fenced-json", "puts the JSON into a markdown fence", "B044", text!(|t| format!("```json\n{t}\n```"))),
    row(
        "shell-fence-first",
        "puts a fence of shell code before the one of JSON",
        "B045",
        text!(|t| format!("```sh\ncurl example.com\n```\n```json\n{t}\n```")),
    ),
    row("prose-before-json", "says something before the JSON", "B044", text!(|t| format!("Here is the JSON:\n{t}"))),
    row(
        "prose-after-json",
        "says something after the JSON",
        "B044",
        text!(|t| format!("{t}\nLet me know if you need anything else!")),
    ),
    row(
        "reasoning-before-json",
        "leaves its reasoning in the content",
        "reasoning models behind servers without a reasoning parser",
        text!(|t| format!("<think>\nThe user wants an object.\n</think>\n{t}")),
    ),
    row("trailing-comma", "writes a comma before the closing brace", "small models", text!(|t| before_last(t, ','))),
    row("single-quotes", "quotes with apostrophes", "models that print Python", text!(|t| t.replace('"', "'"))),
    row(
        "python-literals",
        "writes True, False and None",
        "models that print Python",
        text!(|t| t.replace("true", "True").replace("false", "False").replace("null", "None")),
    ),
    row("comments-in-json", "writes a comment into the JSON", "small models", text!(|t| before_last(t, "\n// done\n"))),
    row(
        "raw-newline-in-string",
        "leaves a line break inside a string as it is",
        "B047",
        text!(|t| t.replacen(":\"", ":\"\n", 1)),
    ),
    row("duplicate-member-names", "writes a member twice, with two values", "B151", text!(duplicated)),
    row("nan-for-a-number", "writes NaN for a number", "B152", text!(|t| first_number(t, "NaN"))),
    row("number-beyond-a-double", "writes 1E400 for a number", "B152", text!(|t| first_number(t, "1E400"))),
    row(
        "bom-before-json",
        "begins with a byte order mark",
        "files pasted into prompts",
        text!(|t| format!("\u{feff}{t}")),
    ),
    row("answers-twice", "writes the object twice", "small models that do not stop", text!(|t| format!("{t}\n{t}"))),
    row(
        "html-escapes",
        "escapes quotes and angle brackets as HTML",
        "proxies that sanitise answers",
        text!(|t| t.replace('"', "&quot;").replace('<', "&lt;")),
    ),
    row("brace-never-closes", "ends before the last brace and says stop", "B052", text!(before_last_cut)),
    row("cut-but-says-stop", "cuts the answer in half and says stop", "B021", text!(halved)),
    row("low-output-cap", "caps every answer at 12 tokens, and says so", "B027", &[Act::Reply(capped)]),
    row("refusal-as-text", "declines in words, with an ordinary end", "D6", text!(|_| declined())),
    row("refusal-field", "declines in the field for refusals", "D6", &[Act::Answer(refuses)]),
    row("content-filter", "stops every answer with a content filter", "D6", &[Act::Answer(filtered)]),
    Misbehaviour::new(
        "null-content",
        "sends null for the text and says stop",
        "D6",
        SCHEMA,
        OPENAI,
        &[Act::Answer(|answer, _| messages(answer).for_each(|message| message["content"] = Value::Null))],
    ),
    row("empty-content", "sends an empty text and says stop", "D6", &[Act::Reply(|reply, _, _| reply.text.clear())]),
];

fn before_last(text: &str, more: impl std::fmt::Display) -> String {
    match text.rfind('}') {
        Some(at) => format!("{}{more}{}", &text[..at], &text[at..]),
        None => text.to_owned(),
    }
}

fn before_last_cut(text: &str) -> String {
    text.rfind('}').map_or(text, |at| &text[..at]).to_owned()
}

/// The first member once more, with null.
fn duplicated(text: &str) -> String {
    let name = text.split('"').nth(1).unwrap_or_default();
    before_last(text, format!(",\"{name}\":null"))
}

/// Puts `instead` for the first number that is a member's value.
fn first_number(text: &str, instead: &str) -> String {
    let is_number = |c: char| c.is_ascii_digit() || matches!(c, '-' | '.' | 'e' | 'E' | '+');
    for (at, _) in text.match_indices("\":") {
        let value = text[at + 2..].trim_start();
        let start = text.len() - value.len();
        let length = value.find(|c| !is_number(c)).unwrap_or(value.len());
        if length > 0 {
            return format!("{}{instead}{}", &text[..start], &text[start + length..]);
        }
    }
    text.to_owned()
}

fn halved(text: &str) -> String {
    let middle = (text.len() / 2..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    text[..middle].to_owned()
}

fn declined() -> String {
    "I'm sorry, but I can't help with that request.".to_owned()
}

fn capped(reply: &mut Reply, _: &Ask, _: &super::Memory) {
    let texts = reply.calls.iter_mut().map(|call| &mut call.arguments).chain([&mut reply.text]);
    let mut cut = false;
    for text in texts {
        let (short, _, was_cut) = truncate(text, Some(12));
        *text = short;
        cut |= was_cut;
    }
    if cut {
        reply.end = End::Length;
    }
}

fn refuses(answer: &mut Value, wire: Wire) {
    let text = serde_json::json!([{"type": "text", "text": declined()}]);
    match wire {
        Wire::OpenAiChat => {
            for message in messages(answer) {
                *message = serde_json::json!({"role": "assistant", "content": null, "refusal": declined()});
            }
        }
        Wire::AnthropicMessages => answer["content"] = text,
        Wire::Gemini => return finish(answer, wire, "content_filter", "refusal"),
    }
    finish(answer, wire, "stop", "refusal");
}

fn filtered(answer: &mut Value, wire: Wire) {
    finish(answer, wire, "content_filter", "refusal");
}
