//! How many tokens a request may use, guessed before it is sent: cheap, and on the high side.
//!
//! A guess is only held while the job runs; what counts in the end is the usage that the provider tells.

use providers::canonical::{Message, Part, Request, Tool};

/// Bytes of UTF-8 text to a token: about right for English, on the low side for most other scripts.
const BYTES_PER_TOKEN: u64 = 4;
/// What a message costs beside its text, as OpenAI's cookbook counts it.
const PER_MESSAGE: u64 = 4;
/// An image, or another part that is no text: what OpenAI counts for a large picture in full detail.
const PER_PART: u64 = 1_000;
/// The answer, where the request sets no limit.
const UNLIMITED_OUTPUT: u64 = 1_024;

/// Text, tools and pictures of the prompt, and for each choice asked for as much output as the request allows.
pub fn estimate(request: &Request) -> u64 {
    let text: u64 = request.messages.iter().map(message_bytes).chain(request.tools.iter().map(tool_bytes)).sum();
    let parts: u64 = request.messages.iter().map(|m| parts(m).iter().filter(|p| !is_text(p)).count() as u64).sum();
    let input = text.div_ceil(BYTES_PER_TOKEN) + parts * PER_PART + request.messages.len() as u64 * PER_MESSAGE;
    let output = request.max_tokens.unwrap_or(UNLIMITED_OUTPUT).saturating_mul(request.n.unwrap_or(1).max(1));
    // More than any model gives, and less than any sum of such guesses can overflow.
    input.saturating_add(output).min(u64::from(u32::MAX))
}

fn parts(message: &Message) -> &[Part] {
    match message {
        Message::System { parts, .. }
        | Message::User { parts, .. }
        | Message::Assistant { parts, .. }
        | Message::Tool { parts, .. } => parts,
    }
}

fn is_text(part: &Part) -> bool {
    matches!(part, Part::Text(_))
}

fn message_bytes(message: &Message) -> u64 {
    let text = |part: &Part| match part {
        Part::Text(text) => text.len() as u64,
        Part::Image { .. } | Part::Other(_) => 0,
    };
    let calls = match message {
        Message::Assistant { tool_calls, .. } => {
            tool_calls.iter().map(|call| (call.name.len() + call.arguments.len()) as u64).sum()
        }
        Message::System { .. } | Message::User { .. } | Message::Tool { .. } => 0,
    };
    parts(message).iter().map(text).sum::<u64>() + calls
}

fn tool_bytes(tool: &Tool) -> u64 {
    let schema = tool.parameters.as_ref().map_or(0, |schema| schema.to_bytes().len());
    (tool.name.len() + tool.description.as_ref().map_or(0, String::len) + schema) as u64
}
