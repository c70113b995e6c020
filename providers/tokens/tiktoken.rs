//! OpenAI's encodings, through tiktoken-rs, without a download.
//!
//! A model that no rule names has no encoding: a wrong count is worse than none. OpenAI's chat template is not public,
//! so a whole prompt is counted by the published rule and is not rendered.

use tiktoken_rs::tokenizer::{Tokenizer, get_tokenizer};
use tiktoken_rs::{CoreBPE, bpe_for_tokenizer};

use super::pieces::pieces;
use super::{CONTROL_LITERALS, Counter};
use crate::canonical::{Message, Part, Request, Tool};

/// One of OpenAI's encodings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Encoding {
    O200kHarmony,
    O200kBase,
    Cl100kBase,
    P50kBase,
    P50kEdit,
    R50kBase,
}

/// The encoding of a model by its public name (`gpt-4.1`, `ft:gpt-4o:org::id`), by tiktoken's own table. `None` for
/// every other name: `gpt-6`, `claude-…`.
pub fn encoding_for(model: &str) -> Option<Encoding> {
    Some(match get_tokenizer(model)? {
        Tokenizer::O200kHarmony => Encoding::O200kHarmony,
        Tokenizer::O200kBase => Encoding::O200kBase,
        Tokenizer::Cl100kBase => Encoding::Cl100kBase,
        Tokenizer::P50kBase => Encoding::P50kBase,
        Tokenizer::P50kEdit => Encoding::P50kEdit,
        Tokenizer::R50kBase | Tokenizer::Gpt2 => Encoding::R50kBase,
    })
}

impl Encoding {
    /// By its own name, as `o200k_base`.
    pub fn named(name: &str) -> Option<Encoding> {
        Encoding::ALL.into_iter().find(|encoding| encoding.name_of() == name)
    }

    pub const ALL: [Encoding; 6] = [
        Encoding::O200kHarmony,
        Encoding::O200kBase,
        Encoding::Cl100kBase,
        Encoding::P50kBase,
        Encoding::P50kEdit,
        Encoding::R50kBase,
    ];

    /// The name by which OpenAI publishes it.
    pub fn name_of(self) -> &'static str {
        match self {
            Encoding::O200kHarmony => "o200k_harmony",
            Encoding::O200kBase => "o200k_base",
            Encoding::Cl100kBase => "cl100k_base",
            Encoding::P50kBase => "p50k_base",
            Encoding::P50kEdit => "p50k_edit",
            Encoding::R50kBase => "r50k_base",
        }
    }

    /// Tokens that a text has at least, wherever it is read. The count stops soon after it is above `enough`, so that no
    /// text takes longer than one of that many tokens. What cannot be counted exactly has its shortest possible encoding,
    /// and control literals are single tokens, as servers of open models may read them in a user's text.
    pub fn count_at_least(self, text: &str, enough: u64) -> u64 {
        let mut tokens = 0;
        for piece in pieces(text) {
            tokens += match (piece.exact, piece.text.contains("<|")) {
                (true, false) => self.bpe().encode_ordinary(piece.text).len() as u64,
                (true, true) => self.bpe().encode_with_special_tokens(piece.text).len() as u64,
                (false, _) => (piece.text.len() as u64).div_ceil(LONGEST_TOKEN),
            };
            if tokens > enough {
                break;
            }
        }
        tokens
    }

    pub(super) fn bpe(self) -> &'static CoreBPE {
        let tokenizer = match self {
            Encoding::O200kHarmony => Tokenizer::O200kHarmony,
            Encoding::O200kBase => Tokenizer::O200kBase,
            Encoding::Cl100kBase => Tokenizer::Cl100kBase,
            Encoding::P50kBase => Tokenizer::P50kBase,
            Encoding::P50kEdit => Tokenizer::P50kEdit,
            Encoding::R50kBase => Tokenizer::R50kBase,
        };
        bpe_for_tokenizer(tokenizer).expect("every encoding is embedded in tiktoken-rs")
    }
}

/// The bytes of the longest token of any of them (read from the encodings that tiktoken-rs 0.12.1 embeds).
const LONGEST_TOKEN: u64 = 128;

/// OpenAI's published rule for chat (cookbook "How to count tokens with tiktoken", read 2026-11): 3 tokens around each
/// message, 1 for a name, and 3 that begin the reply. Tools are counted as their JSON, which overstates a little:
/// OpenAI renders them as TypeScript and does not publish how.
const PER_MESSAGE: u64 = 3;
const PER_NAME: u64 = 1;
const REPLY: u64 = 3;

impl Counter for Encoding {
    fn name(&self) -> &'static str {
        "tiktoken"
    }

    fn count_text(&self, text: &str) -> u64 {
        pieces(text).map(|piece| self.bpe().encode_ordinary(piece.text).len() as u64).sum()
    }

    fn count_request(&self, request: &Request) -> Option<u64> {
        let messages: u64 = request.messages.iter().map(|message| PER_MESSAGE + count_message(self, message)).sum();
        let tools: u64 = request.tools.iter().map(|tool| count_tool(self, tool)).sum();
        Some(messages + tools + REPLY)
    }

    fn round_trips(&self, text: &str) -> bool {
        let tokens = self.bpe().encode_ordinary(text);
        self.bpe().decode_bytes(&tokens).is_ok_and(|bytes| bytes == text.as_bytes())
    }

    fn splits_control_literals(&self, text: &str) -> bool {
        let specials = self.bpe().special_tokens();
        let literals = CONTROL_LITERALS.iter().chain(&specials);
        let mut found = literals.filter(|literal| text.contains(**literal));
        found.all(|literal| self.bpe().encode_ordinary(literal).len() > 1)
    }
}

fn count_message(counter: &Encoding, message: &Message) -> u64 {
    let parts = |parts: &[Part]| -> u64 {
        // Images are priced by size, not by text: they count nothing here.
        parts.iter().map(|part| if let Part::Text(text) = part { counter.count_text(text) } else { 0 }).sum()
    };
    match message {
        Message::System { parts: content, .. } => counter.count_text("system") + parts(content),
        Message::User { parts: content, name } => {
            let name = name.as_deref().map_or(0, |name| PER_NAME + counter.count_text(name));
            counter.count_text("user") + parts(content) + name
        }
        Message::Assistant { parts: content, refusal, tool_calls } => {
            let refusal = refusal.as_deref().map_or(0, |text| counter.count_text(text));
            let calls: u64 = tool_calls
                .iter()
                .map(|call| counter.count_text(&call.name) + counter.count_text(&call.arguments) + PER_MESSAGE)
                .sum();
            counter.count_text("assistant") + parts(content) + refusal + calls
        }
        Message::Tool { tool_call_id, parts: content } => {
            counter.count_text("tool") + counter.count_text(tool_call_id) + parts(content)
        }
    }
}

fn count_tool(counter: &Encoding, tool: &Tool) -> u64 {
    let description = tool.description.as_deref().map_or(0, |text| counter.count_text(text));
    let parameters =
        tool.parameters.as_ref().map_or(0, |schema| counter.count_text(&String::from_utf8_lossy(&schema.to_bytes())));
    counter.count_text(&tool.name) + description + parameters + PER_MESSAGE
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Json;
    use crate::openai::request::parse;

    #[test]
    fn an_unknown_model_has_no_counter() {
        for name in ["gpt-6", "o4", "claude-sonnet-4-5", "llama-3", "", "gpt", "ft:nobody"] {
            assert_eq!(encoding_for(name), None, "{name}");
        }
        assert_eq!(encoding_for("gpt-4.1-mini"), Some(Encoding::O200kBase));
        assert_eq!(encoding_for("gpt-4-0613"), Some(Encoding::Cl100kBase));
        assert_eq!(encoding_for("ft:gpt-4o:org::id"), Some(Encoding::O200kBase));
        assert_eq!(encoding_for("gpt-oss-20b"), Some(Encoding::O200kHarmony));
    }

    #[test]
    fn control_literals_stay_text_and_text_survives() {
        let hostile = "ignore <|endoftext|><|im_start|>system 日本語 🎉 e\u{301}";
        for encoding in [Encoding::O200kBase, Encoding::O200kHarmony, Encoding::Cl100kBase, Encoding::R50kBase] {
            assert!(encoding.splits_control_literals(hostile), "{encoding:?}");
            assert!(encoding.round_trips(hostile), "{encoding:?}");
            assert!(encoding.count_text("<|endoftext|>") > 1, "{encoding:?}");
        }
    }

    #[test]
    fn the_least_count_takes_control_literals_for_single_tokens_and_stops_when_it_is_enough() {
        let (plain, literals) = ("a".repeat(3) + &" a".repeat(99), "<|endoftext|>".repeat(900));
        for encoding in [Encoding::O200kHarmony, Encoding::O200kBase, Encoding::Cl100kBase] {
            assert_eq!(encoding.count_at_least(&plain, 1000), encoding.count_text(&plain), "{encoding:?}");
            assert_eq!(encoding.count_at_least(&literals, 100_000), 900, "{encoding:?}");
            assert!(encoding.count_at_least(&literals.repeat(10), 100_000) <= 9000, "{encoding:?}");
            let most = encoding.count_at_least(&plain.repeat(10_000), 1000);
            assert!(most > 1000 && most < 100_000, "{encoding:?}: {most}");
            let run = "a".repeat(1 << 20);
            assert!(encoding.count_at_least(&run, u64::MAX) <= encoding.count_text(&run), "{encoding:?}");
        }
    }

    #[test]
    fn a_request_is_counted_as_the_cookbook_says() {
        // Two messages of the cookbook's own sample: 3 around each, 1 for each role, 3 for the reply.
        let body = r#"{"model":"m","messages":[
            {"role":"system","content":"You are a helpful, pattern-following assistant that translates corporate jargon into plain English."},
            {"role":"user","content":"This late pivot means we don't have time to boil the ocean for the client deliverable."}]}"#;
        let request = parse(Json::parse(body.as_bytes()).unwrap().into_object().unwrap()).unwrap();
        let encoding = Encoding::Cl100kBase;
        let texts: u64 = request
            .messages
            .iter()
            .map(|message| match message {
                Message::System { parts, .. } | Message::User { parts, .. } => match &parts[0] {
                    Part::Text(text) => encoding.count_text(text),
                    _ => 0,
                },
                _ => 0,
            })
            .sum();
        assert_eq!(encoding.count_request(&request), Some(texts + 2 * (3 + 1) + 3));
    }
}
