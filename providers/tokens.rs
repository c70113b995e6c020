//! Local token counters behind one trait: OpenAI's encodings, and a model's own `tokenizer.json` with its chat template.
//!
//! Nothing is downloaded and nothing is guessed: a model that no counter knows has none. All text is counted as plain
//! text: `<|endoftext|>` in a user's message is several tokens of text and never one control token.

mod file;
mod pieces;
mod template;
mod tiktoken;

pub use file::{TokenizerError, TokenizerFile};
pub use template::{ChatTemplate, TemplateError};
pub use tiktoken::{Encoding, encoding_for};

use crate::canonical::Request;

/// Literals that chat templates use for control; in user text they must stay text.
pub const CONTROL_LITERALS: &[&str] = &[
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|start|>",
    "<|end|>",
    "<|message|>",
    "<|channel|>",
    "<|return|>",
    "<|call|>",
    "<|endofprompt|>",
    "<|fim_prefix|>",
];

/// Counts the tokens of texts and of whole requests.
pub trait Counter: Send + Sync + std::fmt::Debug {
    /// Who counts, in words: `tiktoken`, `tokenizer.json`.
    fn name(&self) -> &'static str;

    /// Tokens of one text, read as plain text.
    fn count_text(&self, text: &str) -> u64;

    /// Tokens of the whole prompt, as near as can be known without the provider. `None`: this prompt cannot be counted.
    fn count_request(&self, request: &Request) -> Option<u64>;

    /// Whether the text survives encoding and decoding.
    fn round_trips(&self, text: &str) -> bool;

    /// Whether every control literal that stands in the text stays text: it is encoded as several tokens.
    fn splits_control_literals(&self, text: &str) -> bool;

    /// The prompt as the model's own chat template writes it; `Err` says why it refuses. `None`: no template is known.
    fn render(&self, request: &Request) -> Option<Result<String, String>> {
        let _ = request;
        None
    }
}

impl<C: Counter + ?Sized> Counter for std::sync::Arc<C> {
    fn name(&self) -> &'static str {
        (**self).name()
    }
    fn count_text(&self, text: &str) -> u64 {
        (**self).count_text(text)
    }
    fn count_request(&self, request: &Request) -> Option<u64> {
        (**self).count_request(request)
    }
    fn round_trips(&self, text: &str) -> bool {
        (**self).round_trips(text)
    }
    fn splits_control_literals(&self, text: &str) -> bool {
        (**self).splits_control_literals(text)
    }
    fn render(&self, request: &Request) -> Option<Result<String, String>> {
        (**self).render(request)
    }
}
