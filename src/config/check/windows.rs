//! How much models hold, as a provider's settings state it.

use std::collections::BTreeMap;

use providers::compatible::{self, ChatPath};
use providers::prices::SETTINGS;
use providers::tokens::{Encoding, encoding_for};
use providers::windows::Window;

use super::{Checker, raw};

/// Far above any model, and far below what sums of tokens can hold.
const LARGEST: u64 = 1 << 40;

impl Checker {
    /// Windows by model; each bounds something.
    pub(super) fn windows(&mut self, name: &str, raw: &raw::Provider) -> BTreeMap<String, Window> {
        let mut windows = BTreeMap::new();
        for (model, stated) in &raw.windows {
            let setting = format!("providers.{name}.windows.{model:?}");
            self.bounds(&setting, stated);
            let encoding = self.encoding(&setting, raw, model, stated);
            if encoding.is_none() && stated.tokenizer.is_none() {
                let effect =
                    "no text is ever too long for it: set `tokenizer` where one of tiktoken's counts as it does";
                tracing::warn!(provider = name, model, effect, "the window's model has no tokenizer here");
            }
            let window = Window {
                context: stated.context_window,
                input: stated.max_input_tokens,
                output: stated.max_output_tokens,
                answer_counts: stated.answer_counts.unwrap_or(false),
                encoding,
                identity: SETTINGS.into(),
            };
            windows.insert(model.clone(), window);
        }
        windows
    }

    fn bounds(&mut self, setting: &str, stated: &raw::Window) {
        let members = [
            ("context_window", stated.context_window),
            ("max_input_tokens", stated.max_input_tokens),
            ("max_output_tokens", stated.max_output_tokens),
        ];
        for (member, tokens) in members {
            if tokens.is_some_and(|tokens| tokens == 0 || tokens > LARGEST) {
                self.problem(format!("{setting}.{member}"), "must be a number of tokens, as 128000, at least 1");
            }
        }
        if stated.context_window.is_none() && stated.max_input_tokens.is_none() {
            self.problem(setting, "bounds no prompt: set `context_window`, `max_input_tokens` or both");
        }
        for (member, tokens) in &members[1..] {
            if let (Some(tokens), Some(window)) = (tokens, stated.context_window)
                && *tokens > window
            {
                self.problem(
                    format!("{setting}.{member}"),
                    format!("{tokens} is more than the `context_window` of {window} that holds it"),
                );
            }
        }
        if stated.answer_counts.is_some() && stated.context_window.is_none() {
            let cure = "says nothing without `context_window`: set both, or leave it out";
            self.problem(format!("{setting}.answer_counts"), cure);
        }
    }

    fn encoding(&mut self, setting: &str, raw: &raw::Provider, model: &str, stated: &raw::Window) -> Option<Encoding> {
        let Some(word) = stated.tokenizer.as_deref() else {
            // The name of a deployment is anybody's choice.
            let named = compatible::row_named(&raw.adapter).is_none_or(|row| row.path == ChatPath::Plain);
            return named.then(|| encoding_for(model)).flatten();
        };
        let encoding = Encoding::named(word);
        if encoding.is_none() && word != "none" {
            let known = Encoding::ALL.map(|encoding| format!("`{}`", encoding.name_of())).join(", ");
            let what = format!("`{word}` is no tokenizer that is counted with here: use {known} or `none`");
            self.problem(format!("{setting}.tokenizer"), what);
        }
        encoding
    }
}
