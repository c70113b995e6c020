//! A model's own `tokenizer.json`, through the crate `tokenizers`, without a download.
//!
//! With the model's chat template beside it, a prompt is counted exactly as the servers count it. Without one only
//! texts can be counted, and a whole prompt has no count.

use tokenizers::Tokenizer;

use super::template::ChatTemplate;
use super::{CONTROL_LITERALS, Counter};
use crate::canonical::{Message, Part, Request};

/// A tokenizer of a file, and the chat template that goes with it.
#[derive(Debug)]
pub struct TokenizerFile {
    /// Control tokens are read as such: for what the template writes.
    reading_control: Tokenizer,
    /// Control tokens are text: for what people write.
    plain: Tokenizer,
    template: Option<ChatTemplate>,
    control: Vec<String>,
}

/// Why there is no tokenizer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TokenizerError(String);

impl TokenizerFile {
    /// Reads the text of a `tokenizer.json`.
    pub fn read(json: &[u8], template: Option<ChatTemplate>) -> Result<TokenizerFile, TokenizerError> {
        let mut reading_control = Tokenizer::from_bytes(json).map_err(|e| TokenizerError(e.to_string()))?;
        // A file may ask for cut or filled texts, which would be miscounted.
        let whole = |e: tokenizers::Error| TokenizerError(e.to_string());
        reading_control.with_truncation(None).map_err(whole)?;
        reading_control.with_padding(None);
        let mut plain = reading_control.clone();
        plain.set_encode_special_tokens(true);
        let added = reading_control.get_added_tokens_decoder();
        let control = added.into_values().filter(|token| token.special).map(|token| token.content).collect();
        Ok(TokenizerFile { reading_control, plain, template, control })
    }

    fn ids(&self, tokenizer: &Tokenizer, text: &str) -> Option<Vec<u32>> {
        tokenizer.encode(text, false).ok().map(|encoding| encoding.get_ids().to_vec())
    }

    /// Whether a message holds the text of a control token.
    fn holds_control(&self, text: &str) -> bool {
        self.control.iter().any(|token| text.contains(token.as_str()))
    }

    /// The prompt with each hostile text counted as text: the template's own marks around it stay control tokens.
    fn count_apart(&self, request: &Request, prompt: &str) -> Option<u64> {
        let mut rest = prompt;
        let mut total = 0;
        for text in texts(request).filter(|text| self.holds_control(text)) {
            // Templates trim; what they change otherwise cannot be found again.
            let text = text.trim();
            let (before, after) = rest.split_once(text)?;
            total += self.ids(&self.reading_control, before)?.len() + self.ids(&self.plain, text)?.len();
            rest = after;
        }
        Some((total + self.ids(&self.reading_control, rest)?.len()) as u64)
    }
}

fn texts(request: &Request) -> impl Iterator<Item = &str> {
    let parts = request.messages.iter().flat_map(|message| match message {
        Message::System { parts, .. }
        | Message::User { parts, .. }
        | Message::Assistant { parts, .. }
        | Message::Tool { parts, .. } => parts,
    });
    parts.filter_map(|part| if let Part::Text(text) = part { Some(text.as_str()) } else { None })
}

impl Counter for TokenizerFile {
    fn name(&self) -> &'static str {
        "tokenizer.json"
    }

    fn count_text(&self, text: &str) -> u64 {
        self.ids(&self.plain, text).map_or(0, |ids| ids.len() as u64)
    }

    fn count_request(&self, request: &Request) -> Option<u64> {
        let prompt = self.template.as_ref()?.render(request).ok()?;
        if texts(request).any(|text| self.holds_control(text)) {
            return self.count_apart(request, &prompt);
        }
        Some(self.ids(&self.reading_control, &prompt)?.len() as u64)
    }

    fn round_trips(&self, text: &str) -> bool {
        let decoded = self.ids(&self.plain, text).and_then(|ids| self.plain.decode(&ids, false).ok());
        decoded.is_some_and(|decoded| decoded == text)
    }

    fn splits_control_literals(&self, text: &str) -> bool {
        let own = self.control.iter().map(String::as_str);
        let mut found = CONTROL_LITERALS.iter().copied().chain(own).filter(|literal| text.contains(literal));
        found.all(|literal| self.ids(&self.plain, literal).is_some_and(|ids| ids.len() > 1))
    }

    fn render(&self, request: &Request) -> Option<Result<String, String>> {
        Some(self.template.as_ref()?.render(request).map_err(|e| e.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Json;
    use crate::openai::request::parse;

    /// Byte-level, every byte a token, one merge, and ChatML's two control tokens: written here, no model's.
    fn small() -> String {
        let mut vocab = String::new();
        for byte in 0..=255_u32 {
            // The printable stand-ins that byte-level tokenizers use for bytes.
            let printable = matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
            let shift = (0..byte).filter(|b| !matches!(b, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff)).count() as u32;
            let c = char::from_u32(if printable { byte } else { 256 + shift }).unwrap();
            vocab.push_str(&format!("{}: {byte}, ", serde_json::to_string(&c.to_string()).unwrap()));
        }
        format!(
            r#"{{"version":"1.0","truncation":{{"direction":"Right","max_length":4,"strategy":"LongestFirst","stride":0}},
            "padding":null,"added_tokens":[
            {{"id":257,"content":"<|im_start|>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true}},
            {{"id":258,"content":"<|im_end|>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true}}],
            "normalizer":null,"pre_tokenizer":{{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true}},
            "post_processor":null,"decoder":{{"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true,"use_regex":true}},
            "model":{{"type":"BPE","dropout":null,"unk_token":null,"continuing_subword_prefix":null,"end_of_word_suffix":null,
            "fuse_unk":false,"byte_fallback":false,"ignore_merges":false,"vocab":{{{vocab}"hi":256}},"merges":[["h","i"]]}}}}"#
        )
    }

    const CHATML: &str = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}";

    fn counter(template: Option<&str>) -> TokenizerFile {
        let template = template.map(|source| ChatTemplate::new(source.to_owned(), "", "").unwrap());
        TokenizerFile::read(small().as_bytes(), template).unwrap()
    }

    fn request(user: &str) -> Request {
        let body = format!(
            r#"{{"model":"m","messages":[{{"role":"user","content":{}}}]}}"#,
            serde_json::to_string(user).unwrap()
        );
        parse(Json::parse(body.as_bytes()).unwrap().into_object().unwrap()).unwrap()
    }

    #[test]
    fn a_prompt_is_counted_with_its_template_and_without_one_not_at_all() {
        // `<|im_start|>`, `user`, a line break, `hi`, `<|im_end|>`, a line break.
        assert_eq!(counter(Some(CHATML)).count_request(&request("hi")), Some(1 + 4 + 1 + 1 + 1 + 1));
        assert_eq!(counter(None).count_request(&request("hi")), None);
        assert_eq!(counter(None).count_text("hi"), 1);
    }

    #[test]
    fn a_users_control_literal_is_counted_as_text() {
        let counter = counter(Some(CHATML));
        assert!(counter.splits_control_literals("x <|im_end|>"));
        assert_eq!(counter.count_text("<|im_end|>"), 10);
        let (hostile, harmless) =
            (counter.count_request(&request("<|im_end|>")), counter.count_request(&request("<~im_end~>")));
        assert_eq!(hostile, harmless);
    }

    #[test]
    fn every_kind_of_text_survives_and_no_limit_of_the_file_cuts_it() {
        for text in ["🎉👩‍👩‍👧 日本語", "e\u{301}", "a\u{0}b\u{200b}", "<|im_end|>", &"a".repeat(500)]
        {
            assert!(counter(None).round_trips(text), "{text:?}");
        }
    }

    #[test]
    fn what_is_no_tokenizer_is_refused_in_words() {
        assert!(!TokenizerFile::read(b"{}", None).unwrap_err().to_string().is_empty());
    }
}
