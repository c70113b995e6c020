//! A suite: what a route's consumer relies on, as data. It answers what is asked of a provider, what the answer must
//! look like and mean, and by which digest a run is known to have judged exactly this.
//!
//! A suite is read once, whole, and either stands or is an error with file, line and cure: nothing of it is guessed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use providers::json::Json;
use providers::tokens::TokenizerFile;

use crate::assertion::Assertion;

mod cases;
mod file;
mod form;
#[cfg(test)]
mod form_tests;
mod load;
mod places;
mod source;
#[cfg(test)]
mod tests;
mod tokens;

pub use form::SUITE_SCHEMA;
pub(crate) use source::Source;

/// What is wrong with a suite, where, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {what}. {cure}", place(.file, .line, .column))]
pub struct SuiteError {
    pub file: String,
    pub line: Option<usize>,
    /// In characters, counted from one.
    pub column: Option<usize>,
    pub what: String,
    pub cure: String,
}

fn place(file: &str, line: &Option<usize>, column: &Option<usize>) -> String {
    match (line, column) {
        (Some(line), Some(column)) => format!("{file}:{line}:{column}"),
        (Some(line), None) => format!("{file}:{line}"),
        (None, _) => file.to_owned(),
    }
}

/// A suite, read and checked.
#[derive(Debug)]
pub struct Suite {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) cases: Vec<Case>,
    pub(crate) schema: Json,
    pub(crate) validator: jsonschema::Validator,
    /// The top-level members that the schema names; `None` where it names none.
    pub(crate) known_keys: Option<Vec<String>>,
    pub(crate) output: Output,
    pub(crate) repeats: u32,
    pub(crate) pass_rate: f64,
    pub(crate) required: Vec<&'static str>,
    /// Checks that this suite does not make, each with its reason.
    pub(crate) skip: BTreeMap<&'static str, String>,
    pub(crate) max_calls: usize,
    pub(crate) parameters: Parameters,
    pub(crate) tokenizer: Tokenizer,
    pub(crate) program: Option<Program>,
    pub(crate) source: Source,
    pub(crate) digest: String,
}

/// One real input and what its answer must mean. The prompt is rendered.
#[derive(Debug, Clone)]
pub struct Case {
    pub name: String,
    pub(crate) system: Option<String>,
    /// Messages between the system prompt and the last user message.
    pub(crate) turns: Vec<Turn>,
    pub(crate) user: String,
    pub(crate) assertions: Vec<Assertion>,
    pub(crate) program: Option<Program>,
}

/// A message of the conversation that the consumer sends along.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Turn {
    pub role: Role,
    pub content: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Role {
    User,
    Assistant,
}

impl Role {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Role::User => "user",
            Role::Assistant => "assistant",
        }
    }
}

/// Which part of the reply the consumer reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Output {
    /// The text of the first choice.
    #[default]
    Text,
    /// The arguments of the first tool call, which is forced.
    Tool,
}

#[derive(Debug, Clone)]
pub(crate) struct Parameters {
    pub temperature: Json,
    pub max_tokens: u64,
    pub response_format: ResponseFormat,
    pub top_p: Option<Json>,
    pub seed: Option<u64>,
    /// Choices asked for; absent: one.
    pub n: Option<u64>,
    pub stop: Vec<String>,
    pub tools: Vec<Tool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ResponseFormat {
    #[default]
    None,
    JsonObject,
    JsonSchema,
}

#[derive(Debug, Clone)]
pub(crate) struct Tool {
    pub name: String,
    pub description: String,
    pub parameters: Json,
}

#[derive(Debug, Clone)]
pub(crate) struct Tokenizer {
    pub counter: Counter,
    /// The model's own tokenizer, where the suite brings it.
    pub file: Option<Arc<TokenizerFile>>,
    pub window: Option<u64>,
    pub answer_room: u64,
    pub tolerance: f64,
    pub tolerance_tokens: u64,
}

/// Who counts besides the bill.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Counter {
    /// tiktoken must know the model.
    Tiktoken,
    /// The `tokenizer.json` of the suite.
    File,
    /// The provider's count endpoint must answer; a local counter is not used.
    Provider,
    /// Whatever there is; at least one.
    #[default]
    Auto,
}

#[derive(Debug, Clone)]
pub(crate) struct Program {
    pub argv: Vec<String>,
    pub limit: Duration,
}

impl Suite {
    /// The suite in the folder `dir`.
    pub fn load(dir: &Path) -> Result<Suite, SuiteError> {
        load::load(Source::Folder(dir.to_owned()))
    }

    /// A suite that ships in the binary.
    pub fn embedded(name: &str) -> Result<Suite, SuiteError> {
        load::load(Source::shipped(name)?)
    }

    /// The suite `name` under `dir` if it stands there, else the shipped one.
    pub fn find(dir: Option<&Path>, name: &str) -> Result<Suite, SuiteError> {
        // The name may come from a request: it names a folder, never a path.
        let plain = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
        match dir.filter(|_| plain).map(|d| d.join(name)).filter(|d| d.join(source::SUITE_FILE).is_file()) {
            Some(folder) => Suite::load(&folder),
            None => Suite::embedded(name),
        }
    }

    /// The names of the suites under `dir`, sorted. A folder without a suite.toml is none.
    pub fn list(dir: &Path) -> Result<Vec<String>, SuiteError> {
        source::list(dir)
    }

    /// The names of the suites in the binary, sorted.
    pub fn shipped() -> Vec<String> {
        source::shipped_names()
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn description(&self) -> &str {
        &self.description
    }

    pub fn cases(&self) -> &[Case] {
        &self.cases
    }

    /// Requests that a run makes at most, counts included: what it costs.
    pub fn planned_calls(&self) -> usize {
        crate::probe::estimated_calls(self)
    }

    /// The window that the consumer needs, tokens, where the suite states one.
    pub fn window(&self) -> Option<u64> {
        self.tokenizer.window
    }

    pub fn repeats(&self) -> u32 {
        self.repeats
    }

    pub fn pass_rate(&self) -> f64 {
        self.pass_rate
    }

    /// Checks that must not be skipped: the core ones and the suite's own.
    pub fn required(&self) -> &[&'static str] {
        &self.required
    }

    /// Checks that this suite does not make, with the reasons it gives.
    pub fn skipped(&self) -> &BTreeMap<&'static str, String> {
        &self.skip
    }

    /// What the consumer reads, in the word of the suite file.
    pub fn reads(&self) -> &'static str {
        match self.output {
            Output::Text => "text",
            Output::Tool => "tool",
        }
    }

    /// SHA-256, in hex, over suite.toml and every file that it names, recordings excluded.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// The folder it was read from; a shipped suite has none.
    pub fn folder(&self) -> Option<PathBuf> {
        self.source.folder().map(Path::to_owned)
    }
}
