//! Request bodies, in OpenAI's words: what the consumer sends, and the small prompts of the probes.

use providers::json::{Json, Number, Object};

use super::Planner;
use crate::suite::{Case, Output, Parameters, ResponseFormat, Tool};

impl Planner<'_> {
    /// What the consumer will send, with every parameter that the suite uses.
    pub(super) fn output(&self, case: &Case) -> Object {
        let p = &self.suite.parameters;
        let mut body = self.case_body(case, p.max_tokens);
        if p.response_format != ResponseFormat::None {
            body.insert("response_format", self.response_format());
        }
        if !p.stop.is_empty() {
            body.insert("stop", stops(p));
        }
        if let Some(top_p) = &p.top_p {
            body.insert("top_p", top_p.clone());
        }
        for (name, value) in [("seed", p.seed), ("n", p.n)] {
            if let Some(value) = value {
                body.insert(name, Number::from_u64(value));
            }
        }
        if !p.tools.is_empty() {
            self.put_tools(&mut body, self.suite.output == Output::Tool);
        }
        body
    }

    /// A case's messages: the system prompt, the turns before, and the user's.
    pub(super) fn case_body(&self, case: &Case, max_tokens: u64) -> Object {
        let system = case.system.iter().map(|system| message("system", system));
        let turns = case.turns.iter().map(|turn| message(turn.role.as_str(), &turn.content));
        self.conversation(system.chain(turns).chain([message("user", &case.user)]).collect(), max_tokens)
    }

    pub(super) fn body(&self, system: Option<&str>, user: &str, max_tokens: u64) -> Object {
        let turns = system.map(|system| ("system", system)).into_iter().chain([("user", user)]);
        self.conversation(turns.map(|(role, text)| message(role, text)).collect(), max_tokens)
    }

    pub(super) fn conversation(&self, messages: Vec<Json>, max_tokens: u64) -> Object {
        let mut body = Object::new();
        body.insert("model", self.model);
        body.insert("messages", messages);
        body.insert("temperature", self.suite.parameters.temperature.clone());
        body.insert("max_tokens", Number::from_u64(max_tokens));
        body
    }

    pub(super) fn response_format(&self) -> Json {
        match self.suite.parameters.response_format {
            ResponseFormat::None => Json::Null,
            ResponseFormat::JsonObject => object([("type", text("json_object"))]),
            ResponseFormat::JsonSchema => {
                // `$schema` and `$id` speak to our validator; some providers refuse keywords they do not know.
                let mut schema = self.suite.schema.as_object().cloned().unwrap_or_default();
                schema.remove("$schema");
                schema.remove("$id");
                let named = object([
                    ("name", text(&self.suite.name)),
                    ("strict", Json::Bool(true)),
                    ("schema", Json::Object(schema)),
                ]);
                object([("type", text("json_schema")), ("json_schema", named)])
            }
        }
    }

    pub(super) fn neutral_prompt(&self) -> String {
        match self.suite.parameters.response_format {
            ResponseFormat::JsonObject => "Greet Ada. Answer in JSON.".to_owned(),
            _ => "Say hello to Ada.".to_owned(),
        }
    }

    pub(super) fn put_tools(&self, body: &mut Object, forced: bool) {
        let tools: Vec<Json> = self.suite.parameters.tools.iter().map(tool).collect();
        body.insert("tools", tools);
        if forced {
            body.insert("tool_choice", "required");
        }
    }
}

pub(super) fn tool(tool: &Tool) -> Json {
    function(&tool.name, &tool.description, tool.parameters.clone())
}

pub(super) fn function(name: &str, description: &str, parameters: Json) -> Json {
    let function = object([("name", text(name)), ("description", text(description)), ("parameters", parameters)]);
    object([("type", text("function")), ("function", function)])
}

pub(super) fn stops(p: &Parameters) -> Json {
    Json::Array(p.stop.iter().map(|s| text(s)).collect())
}

pub(super) fn message(role: &str, content: &str) -> Json {
    object([("role", text(role)), ("content", text(content))])
}

pub(super) fn text(value: &str) -> Json {
    Json::String(value.to_owned())
}

pub(super) fn object<const N: usize>(members: [(&str, Json); N]) -> Json {
    Json::Object(members.into_iter().collect())
}
