//! A model's own chat template (Jinja, as published with the model), rendered as the servers render it.
//!
//! The template is foreign code: it sees the conversation and nothing else, cannot read a file, and a template that
//! refuses a conversation (`raise_exception`) is an error in words, never a panic.

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, ErrorKind, Value, context};

use crate::canonical::{Message, Part, Request};
use crate::json::Json;

/// A chat template, parsed.
#[derive(Debug)]
pub struct ChatTemplate {
    environment: Environment<'static>,
    bos: String,
    eos: String,
}

/// Why there is no prompt.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TemplateError(String);

const NAME: &str = "chat_template";
/// Steps of one rendering: a template that needs more does not end.
const STEPS: u64 = 5_000_000;

impl ChatTemplate {
    /// Parses `source`. `bos` and `eos` are the texts of the model's first and last token, where it has them.
    pub fn new(source: String, bos: &str, eos: &str) -> Result<ChatTemplate, TemplateError> {
        let mut environment = Environment::new();
        // As transformers sets its Jinja: templates are written for it.
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax.map_err(|e| TemplateError(words(&e)))?);
        environment.set_fuel(Some(STEPS));
        environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.add_function("raise_exception", |why: String| -> Result<Value, minijinja::Error> {
            Err(minijinja::Error::new(ErrorKind::InvalidOperation, why))
        });
        environment.add_template_owned(NAME, source).map_err(|e| TemplateError(words(&e)))?;
        Ok(ChatTemplate { environment, bos: bos.to_owned(), eos: eos.to_owned() })
    }

    /// From the text of a `tokenizer_config.json`: its `chat_template`, `bos_token` and `eos_token`.
    pub fn from_config(config: &[u8]) -> Result<ChatTemplate, TemplateError> {
        let config = Json::parse(config).map_err(|e| TemplateError(format!("it is not JSON: {e}")))?;
        let token = |name: &str| {
            let token = config.get(name);
            // A token is a text, or an object with its text in `content`.
            token.and_then(|t| t.as_str().or_else(|| t.get("content").and_then(Json::as_str))).unwrap_or_default()
        };
        let template = config.get("chat_template").and_then(|template| match template {
            Json::String(text) => Some(text.as_str()),
            // Several templates: the one called `default` is for conversations.
            Json::Array(all) => {
                let default = all.iter().find(|t| t.get("name").and_then(Json::as_str) == Some("default"));
                default.and_then(|t| t.get("template")).and_then(Json::as_str)
            }
            _ => None,
        });
        let template = template.ok_or_else(|| TemplateError("it holds no chat_template".to_owned()))?;
        ChatTemplate::new(template.to_owned(), token("bos_token"), token("eos_token"))
    }

    /// The prompt, up to where the model begins to answer.
    pub fn render(&self, request: &Request) -> Result<String, TemplateError> {
        let messages: Vec<Value> = request.messages.iter().map(message).collect();
        let tools = request.body.get_some("tools").map(|tools| Value::from(Serde(tools.to_serde())));
        let template = self.environment.get_template(NAME).map_err(|e| TemplateError(words(&e)))?;
        let context = context! {
            messages,
            tools,
            add_generation_prompt => true,
            bos_token => self.bos.as_str(),
            eos_token => self.eos.as_str(),
        };
        template.render(context).map_err(|e| TemplateError(words(&e)))
    }
}

fn words(error: &minijinja::Error) -> String {
    let what = error.detail().map_or_else(|| error.kind().to_string(), str::to_owned);
    match error.line() {
        Some(line) => format!("line {line} of the chat template: {what}"),
        None => format!("the chat template: {what}"),
    }
}

/// A message as templates expect it: `role`, `content` as text, and what a role has beside.
fn message(message: &Message) -> Value {
    match message {
        Message::System { parts, .. } => context! { role => "system", content => text(parts) },
        Message::User { parts, .. } => context! { role => "user", content => text(parts) },
        Message::Assistant { parts, tool_calls, .. } if tool_calls.is_empty() => {
            context! { role => "assistant", content => text(parts) }
        }
        Message::Assistant { parts, tool_calls, .. } => {
            let calls: Vec<Value> = tool_calls
                .iter()
                .map(|call| {
                    // Templates read arguments as an object; what is no JSON stays text.
                    let arguments = Json::parse(call.arguments.as_bytes()).map_or_else(
                        |_| Value::from(call.arguments.as_str()),
                        |json| Value::from(Serde(json.to_serde())),
                    );
                    context! {
                        id => call.id.as_str(), r#type => "function",
                        function => context! { name => call.name.as_str(), arguments },
                    }
                })
                .collect();
            context! { role => "assistant", content => text(parts), tool_calls => calls }
        }
        Message::Tool { tool_call_id, parts } => {
            context! { role => "tool", tool_call_id => tool_call_id.as_str(), content => text(parts) }
        }
    }
}

fn text(parts: &[Part]) -> String {
    parts.iter().filter_map(|part| if let Part::Text(text) = part { Some(text.as_str()) } else { None }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::openai::request::parse;

    pub(super) const CHATML: &str = "{% for message in messages %}\n{{ '<|im_start|>' + message['role'] + '\\n' + message['content'].strip() + '<|im_end|>' + '\\n' }}\n{%- endfor %}\n{% if add_generation_prompt %}\n{{ '<|im_start|>assistant\\n' }}\n{%- endif %}";

    fn request(body: &str) -> Request {
        parse(Json::parse(body.as_bytes()).unwrap().into_object().unwrap()).unwrap()
    }

    const TALK: &str = r#"{"model":"m","messages":[{"role":"system","content":" Be brief. "},{"role":"user","content":[{"type":"text","text":"Hi"}]}]}"#;

    #[test]
    fn a_template_is_rendered_as_transformers_would() {
        let template = ChatTemplate::new(CHATML.to_owned(), "", "").unwrap();
        let wanted = "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n";
        assert_eq!(template.render(&request(TALK)).unwrap(), wanted);
    }

    #[test]
    fn a_template_may_refuse_a_conversation_in_words() {
        let source =
            "{{ bos_token }}{% if messages[0].role == 'system' %}{{ raise_exception('no system role') }}{% endif %}";
        let template = ChatTemplate::new(source.to_owned(), "<s>", "").unwrap();
        let why = template.render(&request(TALK)).unwrap_err().to_string();
        assert!(why.contains("no system role") && why.contains("line 1"), "{why}");
    }

    #[test]
    fn a_template_that_never_ends_is_stopped() {
        let source = "{% for a in range(100000) %}{% for b in range(100000) %}x{% endfor %}{% endfor %}";
        let template = ChatTemplate::new(source.to_owned(), "", "").unwrap();
        template.render(&request(TALK)).unwrap_err();
    }

    #[test]
    fn a_tokenizer_config_names_template_and_tokens() {
        let config = r#"{"bos_token":{"content":"<s>"},"chat_template":[{"name":"default","template":"{{ bos_token }}{{ messages[1].content }}"}]}"#;
        let template = ChatTemplate::from_config(config.as_bytes()).unwrap();
        assert_eq!(template.render(&request(TALK)).unwrap(), "<s>Hi");
        assert!(ChatTemplate::from_config(b"{}").unwrap_err().to_string().contains("no chat_template"));
    }
}
