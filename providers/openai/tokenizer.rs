//! The endpoints by which llama-server and vLLM show their tokenizer and chat template.
//!
//! Both stand at the server's root, beside `/v1`. Read 2026-11-30: llama.cpp `tools/server/README.md` (b11434, measured);
//! docs.vllm.ai, "Tokenizer API". Texts are read as plain text; a conversation is read as the chat endpoint reads it.

use bytes::Bytes;

use crate::adapter::Rendered;
use crate::canonical::Request;
use crate::compatible::TokenizerApi;
use crate::json::{Json, Object};

const TEMPLATE: &str = "/../apply-template";
const TOKENIZE: &str = "/../tokenize";
const DETOKENIZE: &str = "/../detokenize";

/// Path and body of the question for the rendered prompt. vLLM answers with its tokens.
pub(super) fn template(api: TokenizerApi, request: &Request, model: &str) -> (&'static str, Bytes) {
    let mut body = Object::new();
    body.insert("model", model);
    for name in ["messages", "tools"] {
        if let Some(value) = request.body.get_some(name) {
            body.insert(name, value.clone());
        }
    }
    body.insert("add_generation_prompt", true);
    let path = match api {
        TokenizerApi::LlamaCpp => TEMPLATE,
        TokenizerApi::Vllm => TOKENIZE,
    };
    (path, written(body))
}

pub(super) fn read_template(body: &[u8]) -> Option<Rendered> {
    let answer = Json::parse(body).ok()?;
    match answer.get("prompt").and_then(Json::as_str) {
        Some(text) => Some(Rendered::Text(text.to_owned())),
        None => read_tokens(body).map(Rendered::Tokens),
    }
}

pub(super) fn tokenize(api: TokenizerApi, text: &str, model: &str) -> (&'static str, Bytes) {
    let mut body = Object::new();
    match api {
        TokenizerApi::LlamaCpp => {
            body.insert("content", text);
            body.insert("add_special", false);
            body.insert("parse_special", false);
        }
        TokenizerApi::Vllm => {
            body.insert("model", model);
            body.insert("prompt", text);
            body.insert("add_special_tokens", false);
        }
    }
    (TOKENIZE, written(body))
}

pub(super) fn read_tokens(body: &[u8]) -> Option<Vec<u64>> {
    let answer = Json::parse(body).ok()?;
    answer.get("tokens")?.as_array()?.iter().map(Json::as_u64).collect()
}

pub(super) fn detokenize(api: TokenizerApi, tokens: &[u64], model: &str) -> (&'static str, Bytes) {
    let mut body = Object::new();
    if api == TokenizerApi::Vllm {
        body.insert("model", model);
    }
    body.insert("tokens", tokens.iter().copied().map(Json::from).collect::<Vec<_>>());
    (DETOKENIZE, written(body))
}

pub(super) fn read_text(body: &[u8]) -> Option<String> {
    let answer = Json::parse(body).ok()?;
    let text = answer.get("content").or_else(|| answer.get("prompt"))?;
    text.as_str().map(str::to_owned)
}

fn written(body: Object) -> Bytes {
    Json::Object(body).to_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapter::CallContext;
    use crate::compatible::adapter_named;
    use crate::openai::request::parse;

    #[test]
    fn each_server_is_asked_in_its_own_words_and_understood() {
        let body = br#"{"model":"m","max_tokens":4,"messages":[{"role":"user","content":"hi"}]}"#;
        let request = parse(Json::parse(body).unwrap().into_object().unwrap()).unwrap();
        let context = CallContext { model: "target", attempt_id: "0193", api_key: None };
        let text = |bytes: &Bytes| String::from_utf8(bytes.to_vec()).unwrap();

        let llama = adapter_named("llama-cpp").unwrap();
        let sent = llama.to_template(&request, &context).unwrap().unwrap();
        assert_eq!(sent.path, "/../apply-template");
        assert!(!text(&sent.body).contains("max_tokens"));
        assert_eq!(llama.from_template(br#"{"prompt":"<s>hi"}"#), Some(Rendered::Text("<s>hi".into())));
        let sent = llama.to_tokenize("<|im_end|>", &context).unwrap().unwrap();
        assert_eq!(text(&sent.body), r#"{"content":"<|im_end|>","add_special":false,"parse_special":false}"#);
        assert_eq!(llama.from_tokenize(br#"{"tokens":[6004,2]}"#), Some(vec![6004, 2]));
        assert_eq!(text(&llama.to_detokenize(&[6004], &context).unwrap().unwrap().body), r#"{"tokens":[6004]}"#);
        assert_eq!(llama.from_detokenize(br#"{"content":"hi"}"#), Some("hi".to_owned()));

        let vllm = adapter_named("vllm").unwrap();
        let sent = vllm.to_count(&request, &context).unwrap().unwrap();
        assert_eq!(sent.path, "/../tokenize");
        assert_eq!(vllm.from_count(br#"{"count":7,"max_model_len":4096,"tokens":[1]}"#), Some(7));
        assert_eq!(vllm.from_template(br#"{"count":2,"tokens":[1,2]}"#), Some(Rendered::Tokens(vec![1, 2])));
        let sent = vllm.to_detokenize(&[1], &context).unwrap().unwrap();
        assert_eq!(text(&sent.body), r#"{"model":"target","tokens":[1]}"#);
        assert_eq!(vllm.from_detokenize(br#"{"prompt":"hi"}"#), Some("hi".to_owned()));
    }
}
