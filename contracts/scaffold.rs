//! A new suite from what the consumer really sent and got: a chat-completions request and its answer, or several.
//!
//! What it cannot know it says in comments, for the author to decide. It writes a suite only if that suite can be read,
//! never over anything, and judges the given answers by it before anybody relies on it.

use std::path::{Path, PathBuf};

use providers::canonical::Reply;
use providers::json::Json;

use crate::check::CheckResult;
use crate::observation::{Count, Observation};
use crate::probe::{self, OUTPUT};
use crate::runner::{Exchange, Transcript};
use crate::schema;
use crate::suite::{SUITE_SCHEMA, Suite, SuiteError};

mod infer;
mod pair;
mod prompt;
mod suggest;
#[cfg(test)]
mod tests;
mod text;

pub use pair::Pair;

/// Why there is no suite, and what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum ScaffoldError {
    #[error("{file}: {what}. {cure}")]
    Input { file: String, what: String, cure: String },
    #[error("{} exists already: nothing was written. Choose another name, or remove it", .0.display())]
    Exists(PathBuf),
    #[error("{} cannot be written: {source}", .path.display())]
    Write { path: PathBuf, source: std::io::Error },
    #[error("the new suite cannot be read, which is a fault of this program: {0}")]
    Unreadable(#[from] SuiteError),
}

pub(crate) fn input(file: &str, what: impl Into<String>, cure: impl Into<String>) -> ScaffoldError {
    ScaffoldError::Input { file: file.to_owned(), what: what.into(), cure: cure.into() }
}

/// A suite that is not written yet.
#[derive(Debug)]
pub struct Draft {
    name: String,
    /// Paths inside the suite, and their text.
    files: Vec<(String, String)>,
    replies: Vec<(String, Reply)>,
    /// What the author should look at.
    notes: Vec<String>,
}

/// What was written, and what the given answers come to under it.
#[derive(Debug)]
pub struct Written {
    pub folder: PathBuf,
    pub files: Vec<String>,
    pub notes: Vec<String>,
    pub suite: Suite,
    /// The schema kind's verdicts on the given answers.
    pub tried: Vec<CheckResult>,
}

impl Draft {
    /// The suite `name` from real requests and their answers; the first decides what all have in common.
    pub fn new(name: &str, pairs: &[Pair]) -> Result<Draft, ScaffoldError> {
        let plain = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
        if !plain || name == "suite" {
            return Err(input(name, "this is no name for a suite", "Letters, digits, - and _; it names the folder"));
        }
        let Some(first) = pairs.first() else {
            return Err(input(name, "there is no request", "Give one --request and its --answer at least"));
        };
        let shape = text::Shape::of(first)?;
        let prompt = prompt::common(pairs)?;
        let answers: Vec<Json> = pairs.iter().map(|pair| pair.output(&shape)).collect::<Result<_, _>>()?;
        let output_schema = shape.schema(&answers);
        let cases = suggest::case_names(pairs);
        let mut files = vec![("schema.json".to_owned(), text::pretty(&output_schema))];
        for tool in &shape.tools {
            files.push((format!("tools/{}.json", tool.name), text::pretty(&tool.parameters)));
        }
        for (case, vars) in cases.iter().zip(&prompt.vars) {
            files.push((format!("cases/{case}.json"), text::pretty(&Json::Object(vars.clone()))));
        }
        files.push(("suite.toml".to_owned(), text::suite(name, &shape, &prompt, &cases, &answers)));
        let replies = cases.into_iter().zip(pairs.iter().map(|pair| pair.reply.clone())).collect();
        let notes = shape.notes.iter().chain(&prompt.notes).cloned().collect();
        Ok(Draft { name: name.to_owned(), files, replies, notes })
    }

    /// Writes the suite into a folder of its name under `dir`. It is read there before it gets its name, and the given
    /// answers are judged by it.
    pub async fn write(self, dir: &Path) -> Result<Written, ScaffoldError> {
        let folder = dir.join(&self.name);
        if folder.symlink_metadata().is_ok() {
            return Err(ScaffoldError::Exists(folder));
        }
        let io = |path: &Path| {
            let path = path.to_owned();
            move |source| ScaffoldError::Write { path, source }
        };
        std::fs::create_dir_all(dir).map_err(io(dir))?;
        let workshop = dir.join(format!(".new-{}-{}", self.name, std::process::id()));
        let made = self.make(&workshop);
        let suite = made.and_then(|draft| Suite::load(&draft).map_err(ScaffoldError::from).map(|suite| (draft, suite)));
        let moved = match suite {
            // Somebody may have been faster: only an empty folder would be replaced.
            Ok((draft, suite)) => std::fs::rename(&draft, &folder).map(|()| suite).map_err(io(&folder)),
            Err(error) => Err(error),
        };
        let _ = std::fs::remove_dir_all(&workshop);
        moved?;
        let schema = dir.join("suite.schema.json");
        if schema.symlink_metadata().is_err() {
            std::fs::write(&schema, SUITE_SCHEMA).map_err(io(&schema))?;
        }
        let suite = Suite::load(&folder)?;
        let tried = try_answers(&suite, &self.replies).await;
        let files = self.files.into_iter().map(|(path, _)| path).collect();
        Ok(Written { folder, files, notes: self.notes, suite, tried })
    }

    /// The files, in a folder of the suite's name: a suite is called as its folder is.
    fn make(&self, workshop: &Path) -> Result<PathBuf, ScaffoldError> {
        let draft = workshop.join(&self.name);
        for (path, text) in &self.files {
            let path = draft.join(path);
            let folder = path.parent().unwrap_or(&draft).to_owned();
            let written = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&path, text));
            written.map_err(|source| ScaffoldError::Write { path, source })?;
        }
        Ok(draft)
    }
}

/// What the schema kind says of the given answers, each taken for every repeat of its case.
async fn try_answers(suite: &Suite, replies: &[(String, Reply)]) -> Vec<CheckResult> {
    let mut transcript = Transcript::default();
    for probe in probe::plan(suite, "").into_iter().filter(|p| p.call.key.probe == OUTPUT) {
        let Some((_, reply)) = replies.iter().find(|(case, _)| *case == probe.call.key.case) else { continue };
        let observation = Observation::Answered(reply.clone());
        transcript.keep(Exchange { call: probe.call, observation, count: Count::NoEndpoint });
    }
    schema::judge(suite, &transcript).await
}
