//! suite.toml as it is written for an author to read: what is known is set, what is not is asked for in comments.

use std::fmt::Write as _;

use providers::canonical::ResponseFormat;
use providers::json::{Json, Object};

use super::prompt::Prompt;
use super::{Pair, ScaffoldError, infer, input, suggest};
use crate::suite::Tool;

/// What the request says besides its prompt.
#[derive(Debug)]
pub(super) struct Shape {
    pub reads_tool: bool,
    pub tools: Vec<Tool>,
    pub notes: Vec<String>,
    format: Option<ResponseFormat>,
    stop: Vec<String>,
    temperature: Option<f64>,
    max_tokens: Option<u64>,
    /// Parameters that a suite does not send.
    others: Vec<String>,
}

const CARRIED: [&str; 9] = [
    "model",
    "messages",
    "temperature",
    "max_tokens",
    "max_completion_tokens",
    "response_format",
    "stop",
    "tools",
    "tool_choice",
];

impl Shape {
    pub(super) fn of(pair: &Pair) -> Result<Shape, ScaffoldError> {
        let request = &pair.request;
        let call = pair.reply.choices.first().and_then(|choice| choice.tool_calls.first());
        let mut notes = Vec::new();
        let mut tools = Vec::new();
        for tool in &request.tools {
            if let Some(call) = call
                && call.name != tool.name
            {
                notes.push(format!(
                    "the tool {} was left out: a suite that reads a tool call has that one tool",
                    tool.name
                ));
                continue;
            }
            if !tool.name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_') {
                return Err(input(
                    &pair.request_file,
                    format!("the tool {:?} has no plain name", tool.name),
                    "Letters, digits, - and _",
                ));
            }
            let parameters = tool.parameters.clone().unwrap_or(Json::Object(Object::new()));
            tools.push(Tool {
                name: tool.name.clone(),
                description: tool.description.clone().unwrap_or_default(),
                parameters,
            });
        }
        if call.is_some() && tools.len() != 1 {
            let what = "the answer calls a tool that the request does not have";
            return Err(input(&pair.answer_file, what, "Give the request that this answer belongs to"));
        }
        let reads_tool = call.is_some();
        let format = request.response_format.clone().filter(|format| !reads_tool && *format != ResponseFormat::Text);
        let others: Vec<String> = request
            .body
            .iter()
            .map(|(name, _)| name.to_owned())
            .filter(|name| !CARRIED.contains(&name.as_str()))
            .collect();
        if !others.is_empty() {
            notes.push(format!("a suite does not send {}: what depends on it is not checked", others.join(", ")));
        }
        Ok(Shape {
            reads_tool,
            tools,
            notes,
            format,
            stop: request.stop.clone(),
            temperature: request.temperature.as_ref().map(|t| t.as_f64()),
            max_tokens: request.max_tokens,
            others,
        })
    }

    /// The consumer's own schema where the request states one, else what fits the answers.
    pub(super) fn schema(&self, answers: &[Json]) -> Json {
        let stated = match (&self.format, self.tools.first()) {
            (Some(ResponseFormat::JsonSchema { schema, .. }), _) => schema.as_object().cloned(),
            (_, Some(tool)) if self.reads_tool => tool.parameters.as_object().cloned().filter(|o| !o.is_empty()),
            _ => None,
        };
        let body =
            stated.or_else(|| infer::schema(&answers.iter().collect::<Vec<_>>()).into_object()).unwrap_or_default();
        let mut schema = Object::new();
        if body.get("$schema").is_none() {
            schema.insert("$schema", "https://json-schema.org/draft/2020-12/schema");
        }
        for (name, value) in body.iter() {
            schema.insert(name, value.clone());
        }
        Json::Object(schema)
    }

    fn states_schema(&self) -> bool {
        self.reads_tool || matches!(self.format, Some(ResponseFormat::JsonSchema { .. }))
    }
}

pub(super) fn pretty(json: &Json) -> String {
    let mut out = Vec::new();
    crate::recording::pretty(json, 0, &mut out);
    out.push(b'\n');
    String::from_utf8_lossy(&out).into_owned()
}

/// The whole file.
pub(super) fn suite(name: &str, shape: &Shape, prompt: &Prompt, cases: &[String], answers: &[Json]) -> String {
    let mut out = String::from("#:schema ../suite.schema.json\n");
    head(&mut out, name, shape, answers);
    prompt_section(&mut out, prompt);
    parameters(&mut out, shape, answers);
    out.push_str(
        "\n[tokenizer]\n\
         counter = \"auto\"              # tiktoken | provider (its count endpoint) | auto: whatever there is\n\
         # The context window that you rely on, in tokens. Stated, it is checked that prompt and answer fit:\n\
         # window = 128000\n",
    );
    for (case, answer) in cases.iter().zip(answers) {
        case_section(&mut out, case, answer);
    }
    out.push_str(
        "\n# More cases make a better suite: real inputs, hostile ones above all (instructions in the data, other languages,\n\
         # an empty text). A fallback is only as safe as the cases that it has passed.\n",
    );
    out
}

fn head(out: &mut String, name: &str, shape: &Shape, answers: &[Json]) {
    let _ = write!(
        out,
        "# What the consumer relies on. Every word: contracts/suites/README.md\n\
         name = \"{name}\"\n\
         description = \"\"                # what the consumer does with the answer, in one line\n"
    );
    let from = if shape.states_schema() {
        "as the request states it"
    } else {
        "inferred from the answers: types and keys only"
    };
    let _ = writeln!(out, "schema = \"schema.json\"         # {from}");
    if !shape.states_schema() {
        out.push_str("# Say there what else holds: \"enum\" for words that your code branches on, \"maxLength\", \"minimum\", …\n");
    }
    if shape.reads_tool {
        out.push_str("output = \"tool\"                # the consumer reads the arguments of the tool call\n");
    }
    out.push_str(
        "repeats = 2                     # each case is asked so often; more repeats tell a rate more exactly\n\
         pass_rate = 1.0                 # the share of whole answers that must be good\n",
    );
    let mut required = vec!["\"no_unknown_keys\""];
    if answers.iter().any(|answer| suggest::assertions(answer).iter().any(|s| s.holds)) {
        required.push("\"meaning\"");
    }
    if shape.format.is_some() {
        required.push("\"response_format_honoured\"");
    }
    let _ = writeln!(out, "required = [{}]   # may not be skipped, beyond the core checks", required.join(", "));
    out.push_str(
        "# program = [\"sh\", \"consumer.sh\"] # your own code: the output on stdin, exit 0 = understood. The best check there is\n",
    );
}

fn prompt_section(out: &mut String, prompt: &Prompt) {
    out.push_str("\n# {{name}} is filled from the case's fixture. Literal braces: {{\"{{\"}}\n[prompt]\n");
    if let Some(system) = &prompt.system {
        let _ = writeln!(out, "system = {}", string(system));
    }
    let _ = writeln!(out, "user = {}", string(&prompt.user));
    for (role, text) in &prompt.turns {
        let _ = writeln!(out, "\n[[prompt.turns]]\nrole = \"{role}\"\ncontent = {}", string(text));
    }
}

fn parameters(out: &mut String, shape: &Shape, answers: &[Json]) {
    out.push_str("\n[parameters]\n");
    let heat =
        shape.temperature.filter(|t| *t != 0.0).map(|t| format!("   # the request says {t}; a low one repeats better"));
    let _ = writeln!(out, "temperature = 0{}", heat.unwrap_or_default());
    match shape.max_tokens {
        Some(limit) => {
            let _ = writeln!(out, "max_tokens = {limit}");
        }
        None => {
            let longest = answers.iter().map(|answer| answer.to_bytes().len()).max().unwrap_or(0);
            let room = longest.next_multiple_of(256).max(256);
            let _ = writeln!(
                out,
                "max_tokens = {room}                # the request has no limit; this is twice the answer or more"
            );
        }
    }
    match shape.format {
        Some(ResponseFormat::JsonSchema { .. }) => {
            out.push_str("response_format = \"json_schema\"  # with schema.json\n")
        }
        Some(ResponseFormat::JsonObject) => out.push_str("response_format = \"json_object\"\n"),
        _ => {}
    }
    if !shape.stop.is_empty() {
        let stops: Vec<String> = shape.stop.iter().map(|stop| toml::Value::String(stop.clone()).to_string()).collect();
        let _ = writeln!(out, "stop = [{}]", stops.join(", "));
    }
    if !shape.others.is_empty() {
        let _ = writeln!(out, "# The request also has {}: a suite does not send it.", shape.others.join(", "));
    }
    for tool in &shape.tools {
        let (name, file) = (string(&tool.name), string(&format!("tools/{}.json", tool.name)));
        let description = string(&tool.description);
        let _ =
            writeln!(out, "\n[[parameters.tools]]\nname = {name}\ndescription = {description}\nparameters = {file}");
    }
}

fn case_section(out: &mut String, case: &str, answer: &Json) {
    let _ = write!(out, "\n[[cases]]\nname = \"{case}\"\nfixture = \"cases/{case}.json\"\n");
    let suggestions = suggest::assertions(answer);
    if suggestions.is_empty() {
        return;
    }
    out.push_str("# What this answer must mean, by JSON pointer, JSONPath ($.items[*].n) or CEL. Take out what may differ.\nassert = [\n");
    for suggestion in suggestions {
        let mark = if suggestion.holds { "" } else { "# " };
        let _ = writeln!(out, "  {mark}{},", suggestion.line);
    }
    out.push_str("]\n");
}

/// A TOML string: over several lines where the text has them and can be written as it is.
fn string(text: &str) -> String {
    let plain = !text.contains("'''")
        && !text.ends_with('\'')
        && text.chars().all(|c| !c.is_control() || c == '\n' || c == '\t');
    match text.contains('\n') && plain {
        true => format!("'''\n{text}'''"),
        false => toml::Value::String(text.to_owned()).to_string(),
    }
}
