//! Probes of the conversation: a marker in each role, tool calls with exact numbers, and their history.

use providers::json::{Json, Object};

use super::body::{function, message, object, text, tool};
use super::texts::{EXACT, EXACT_TOO, exactly, marker};
use super::{ASSISTANT_ECHO, LATE_SYSTEM, MARKER_LIMIT, PING, Planner, TOOL_HISTORY};
use crate::schema::example;
use crate::suite::Tool;

impl Planner<'_> {
    /// A system message after turns of the other roles: some wire formats have no place for it, and lose it.
    pub(super) fn late_system(&self) -> Object {
        let turns = vec![
            message("system", "You are terse."),
            message("user", "Hello."),
            message("assistant", "Hello."),
            message("system", &exactly(&marker(&self.suite.name, LATE_SYSTEM))),
            message("user", "Go ahead."),
        ];
        self.conversation(turns, MARKER_LIMIT)
    }

    pub(super) fn assistant_echo(&self) -> Object {
        let turns = vec![
            message("user", "Choose a word."),
            message("assistant", &marker(&self.suite.name, ASSISTANT_ECHO)),
            message("user", "Repeat your last answer, word for word."),
        ];
        self.conversation(turns, MARKER_LIMIT)
    }

    /// Two calls of one tool in one turn, with integers that no double holds, and their results.
    pub(super) fn tool_history(&self, tool: &Tool) -> Object {
        let calls = [("callaaaa1", EXACT), ("callbbbb2", EXACT_TOO)].map(|(id, number)| {
            let arguments = arguments(tool, number).map_or_else(|| "{}".to_owned(), |(_, json)| json);
            let function = object([("name", text(&tool.name)), ("arguments", text(&arguments))]);
            object([("id", text(id)), ("type", text("function")), ("function", function)])
        });
        let result = |id: &str, content: &str| {
            object([("role", text("tool")), ("tool_call_id", text(id)), ("content", text(content))])
        };
        let turns = vec![
            message("user", "Use the tool for both, then repeat what the second call answered, word for word."),
            object([("role", text("assistant")), ("content", Json::Null), ("tool_calls", Json::Array(calls.to_vec()))]),
            result("callaaaa1", "nothing"),
            result("callbbbb2", &marker(&self.suite.name, TOOL_HISTORY)),
        ];
        let mut body = self.conversation(turns, MARKER_LIMIT);
        self.put_tools(&mut body, false);
        body
    }

    /// `Call NAME once with {…}`, for each of the numbers. `None`: this tool takes no number.
    pub(super) fn exact_calls(&self, tool: &Tool, numbers: &[&str]) -> Option<Object> {
        let wanted: Option<Vec<String>> =
            numbers.iter().map(|n| arguments(tool, n).map(|(_, json)| format!("once with {json}"))).collect();
        let user = format!("Call {} {}.", tool.name, wanted?.join(" and "));
        let mut body = self.body(None, &user, self.suite.parameters.max_tokens);
        self.put_tools(&mut body, true);
        Some(body)
    }

    /// A tool that takes nothing, forced.
    pub(super) fn ping(&self) -> Object {
        let mut body = self.body(None, "Ping.", self.suite.parameters.max_tokens);
        let mut nothing = Object::new();
        nothing.insert("type", "object");
        nothing.insert("properties", Object::new());
        body.insert("tools", vec![function(PING, "Pings. Takes nothing.", Json::Object(nothing))]);
        let choice = object([("type", text("function")), ("function", object([("name", text(PING))]))]);
        body.insert("tool_choice", choice);
        body
    }

    /// The suite's first tool with a schema that is none.
    pub(super) fn bad_tool(&self, of: &Tool) -> Object {
        let mut body = self.body(None, "Hello.", MARKER_LIMIT);
        let nonsense = object([("type", text("interlock-no-such-type"))]);
        let parameters = object([("type", text("object")), ("properties", object([("a", nonsense)]))]);
        body.insert("tools", vec![tool(&Tool { parameters, ..of.clone() })]);
        body
    }
}

/// Arguments that fit the tool, with `number` in the first place that takes it: which member, and the JSON.
pub(crate) fn arguments(tool: &Tool, number: &str) -> Option<(String, String)> {
    let schema = tool.parameters.to_serde();
    let value = example(&schema)?;
    let takes = |property: &Json| {
        let bounded = ["enum", "const", "minimum", "maximum", "multipleOf", "pattern", "format", "maxLength"];
        let free = bounded.iter().all(|keyword| property.get(keyword).is_none());
        let kind = property.get("type").and_then(Json::as_str);
        kind.filter(|kind| free && matches!(*kind, "integer" | "number" | "string")).map(str::to_owned)
    };
    let properties = tool.parameters.get("properties")?.as_object()?;
    let fitting = |wanted: &[&str]| {
        properties.iter().find_map(|(name, property)| {
            let kind = takes(property)?;
            wanted.contains(&kind.as_str()).then(|| (name.to_owned(), kind))
        })
    };
    // A number loses digits before a text does.
    let (name, kind) = fitting(&["integer", "number"]).or_else(|| fitting(&["string"]))?;
    let mut out = Json::from(&value).into_object()?;
    let number = if kind == "string" { text(number) } else { Json::parse(number.as_bytes()).ok()? };
    out.insert(name.as_str(), number);
    Some((name, String::from_utf8(Json::Object(out).to_bytes().to_vec()).ok()?))
}
