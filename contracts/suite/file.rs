//! The shape of suite.toml, word for word. Every unknown word is an error; what the words mean is decided in `load`.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{Counter, Output, ResponseFormat, Role};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SuiteFile {
    pub name: String,
    pub description: String,
    #[serde(default = "schema_json")]
    pub schema: String,
    #[serde(default)]
    pub output: Output,
    #[serde(default = "one")]
    pub repeats: u32,
    #[serde(default = "all")]
    pub pass_rate: f64,
    #[serde(default)]
    pub required: Vec<String>,
    #[serde(default = "max_calls")]
    pub max_calls: usize,
    #[serde(default)]
    pub program: Option<Vec<String>>,
    #[serde(default = "ten_seconds")]
    pub program_seconds: f64,
    #[serde(default)]
    pub skip: BTreeMap<String, String>,
    pub prompt: PromptFile,
    #[serde(default)]
    pub parameters: ParametersFile,
    #[serde(default)]
    pub tokenizer: TokenizerFile,
    #[serde(default)]
    pub cases: Vec<CaseFile>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PromptFile {
    #[serde(default)]
    pub system: Option<String>,
    #[serde(default)]
    pub turns: Vec<TurnFile>,
    pub user: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TurnFile {
    pub role: Role,
    pub content: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ParametersFile {
    pub temperature: f64,
    pub max_tokens: u64,
    pub response_format: ResponseFormat,
    pub top_p: Option<f64>,
    pub seed: Option<u64>,
    pub n: Option<u64>,
    pub stop: Vec<String>,
    pub tools: Vec<ToolFile>,
}

impl Default for ParametersFile {
    fn default() -> Self {
        ParametersFile {
            temperature: 0.0,
            max_tokens: 256,
            response_format: ResponseFormat::None,
            top_p: None,
            seed: None,
            n: None,
            stop: Vec::new(),
            tools: Vec::new(),
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ToolFile {
    pub name: String,
    pub description: String,
    /// A file with the JSON Schema of the arguments.
    pub parameters: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct TokenizerFile {
    pub counter: Counter,
    /// A `tokenizer.json` in the suite's folder.
    pub file: Option<String>,
    /// The model's chat template: a Jinja file, or the `tokenizer_config.json` that holds it.
    pub chat_template: Option<String>,
    pub window: Option<u64>,
    pub answer_room: Option<u64>,
    pub tolerance: f64,
    pub tolerance_tokens: u64,
}

impl Default for TokenizerFile {
    fn default() -> Self {
        TokenizerFile {
            counter: Counter::Auto,
            file: None,
            chat_template: None,
            window: None,
            answer_room: None,
            tolerance: 0.02,
            tolerance_tokens: 8,
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CaseFile {
    pub name: String,
    /// A file with one JSON object: the variables.
    #[serde(default)]
    pub fixture: Option<String>,
    /// Variables whose text is a file.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    #[serde(default)]
    pub vars: BTreeMap<String, toml::Value>,
    #[serde(default)]
    pub assert: Vec<AssertFile>,
    #[serde(default)]
    pub program: Option<Vec<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AssertFile {
    #[serde(default)]
    pub at: Option<String>,
    #[serde(default)]
    pub equals: Option<toml::Value>,
    /// The value as JSON text, for numbers that TOML cannot write.
    #[serde(default)]
    pub equals_json: Option<String>,
    #[serde(default)]
    pub one_of: Option<Vec<toml::Value>>,
    #[serde(default)]
    pub contains: Option<String>,
    #[serde(default)]
    pub min: Option<f64>,
    #[serde(default)]
    pub max: Option<f64>,
    #[serde(default)]
    pub count: Option<usize>,
    #[serde(default)]
    pub cel: Option<String>,
}

fn schema_json() -> String {
    "schema.json".to_owned()
}

fn one() -> u32 {
    1
}

fn all() -> f64 {
    1.0
}

fn max_calls() -> usize {
    200
}

fn ten_seconds() -> f64 {
    10.0
}
