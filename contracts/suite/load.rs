//! Reads a suite's files into a [`Suite`], or says which file and line is wrong and what to do.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use providers::json::Json;
use sha2::{Digest, Sha256};

use super::cases::{from_toml, number};
use super::file::SuiteFile;
use super::places::{Place, Places};
use super::source::SUITE_FILE;
use super::{Output, Parameters, Program, ResponseFormat, Source, Suite, SuiteError, Tokenizer, Tool, form};
use crate::check::{self, CheckInfo};

pub(super) fn load(source: Source) -> Result<Suite, SuiteError> {
    let bytes = source.read(SUITE_FILE).map_err(|why| SuiteError {
        file: source.shown(SUITE_FILE),
        line: None,
        column: None,
        what: format!("it cannot be read: {why}"),
        cure: "A suite is a folder with a suite.toml in it".to_owned(),
    })?;
    let mut loader = Loader { source, text: String::new(), places: Places::default(), files: BTreeMap::new() };
    loader.text = String::from_utf8(bytes.clone())
        .map_err(|e| loader.error(None, format!("it is not UTF-8: {e}"), "Save it as UTF-8"))?;
    loader.files.insert(SUITE_FILE.to_owned(), bytes);
    let file = loader.file()?;
    loader.suite(file)
}

/// The suite while it is being read: its files are collected for the digest as they are used.
pub(super) struct Loader {
    pub(super) source: Source,
    text: String,
    places: Places,
    files: BTreeMap<String, Vec<u8>>,
}

impl Loader {
    /// Its syntax, then its form (the schema), then its types, which agree with the schema.
    fn file(&mut self) -> Result<SuiteFile, SuiteError> {
        let syntax = |loader: &Loader, e: toml::de::Error| {
            let at = e.span().map(|span| Place::at(&loader.text, span.start));
            loader.error(at, e.message().replace('\n', " "), "See contracts/suites/README.md for what a suite says")
        };
        let value: toml::Value = toml::from_str(&self.text).map_err(|e| syntax(self, e))?;
        self.places = Places::read(&self.text).map_err(|e| syntax(self, e))?;
        form::judge(&from_toml(&value).to_serde(), &self.places)
            .map_err(|wrong| self.error(wrong.offset.map(|at| Place::at(&self.text, at)), wrong.what, &wrong.cure))?;
        toml::from_str(&self.text).map_err(|e| syntax(self, e))
    }

    fn suite(mut self, file: SuiteFile) -> Result<Suite, SuiteError> {
        self.check_numbers(&file)?;
        let schema_bytes = self.read(&file.schema, "schema")?;
        let (schema, validator) = self.schema(&file.schema, &schema_bytes)?;
        let known_keys = schema
            .get("properties")
            .and_then(Json::as_object)
            .map(|o| o.iter().map(|(name, _)| name.to_owned()).collect());
        let parameters = self.parameters(&file)?;
        let (required, skip) = self.required_and_skipped(&file)?;
        let limit = Duration::from_secs_f64(file.program_seconds);
        let program = self.program(file.program.clone(), limit)?;
        let tokenizer = self.tokenizer(&file)?;
        let mut cases = Vec::new();
        for (i, case) in file.cases.iter().enumerate() {
            cases.push(self.case(&file, i, case, limit)?);
        }
        let room = file.tokenizer.answer_room.unwrap_or(parameters.max_tokens);
        let suite = Suite {
            name: file.name,
            description: file.description,
            cases,
            schema,
            validator,
            known_keys,
            output: file.output,
            repeats: file.repeats,
            pass_rate: file.pass_rate,
            required,
            skip,
            max_calls: file.max_calls,
            parameters,
            tokenizer: Tokenizer {
                counter: file.tokenizer.counter,
                file: tokenizer,
                window: file.tokenizer.window,
                answer_room: room,
                tolerance: file.tokenizer.tolerance,
                tolerance_tokens: file.tokenizer.tolerance_tokens,
            },
            program,
            digest: digest(&self.files),
            source: self.source.clone(),
        };
        let planned = crate::probe::estimated_calls(&suite);
        if planned > suite.max_calls {
            return Err(self.error(
                self.line_of("max_calls").or(self.line_of("repeats")),
                format!("a run would make up to {planned} calls, more than max_calls = {}", suite.max_calls),
                "Fewer cases or repeats, or a larger max_calls",
            ));
        }
        Ok(suite)
    }

    fn check_numbers(&self, file: &SuiteFile) -> Result<(), SuiteError> {
        let name = self.source.folder_name();
        let (t, p) = (&file.tokenizer, &file.parameters);
        let rows: [(bool, &str, &str, String); 11] = [
            (file.name == name, "name", "it differs from its folder", format!("Call it name = \"{name}\"")),
            (!file.cases.is_empty(), "cases", "there is no case", "Add a [[cases]] with a real input".into()),
            ((1..=20).contains(&file.repeats), "repeats", "it is out of range", "1 to 20".into()),
            (
                file.pass_rate > 0.0 && file.pass_rate <= 1.0,
                "pass_rate",
                "it is out of range",
                "Above 0, at most 1".into(),
            ),
            ((0.0..=2.0).contains(&p.temperature), "temperature", "it is out of range", "0 to 2; suites use 0".into()),
            (p.top_p.is_none_or(|n| n > 0.0 && n <= 1.0), "top_p", "it is out of range", "Above 0, at most 1".into()),
            (p.n.is_none_or(|n| (1..=16).contains(&n)), "n", "it is out of range", "1 to 16".into()),
            (p.max_tokens > 0, "max_tokens", "it is 0", "The answer's longest length in tokens".into()),
            ((0.0..=0.5).contains(&t.tolerance), "tolerance", "it is out of range", "A share, 0 to 0.5".into()),
            (
                file.program_seconds > 0.0 && file.program_seconds <= 300.0,
                "program_seconds",
                "it is out of range",
                "Above 0, at most 300".into(),
            ),
            (
                file.output == Output::Text || p.tools.len() == 1,
                "output",
                "output = \"tool\" needs exactly one tool",
                "Add one [[parameters.tools]]".into(),
            ),
        ];
        for (held, key, what, cure) in rows {
            if !held {
                return Err(self.error(self.line_of(key), format!("{key}: {what}"), &cure));
            }
        }
        let mut seen = BTreeSet::new();
        for (i, case) in file.cases.iter().enumerate() {
            let plain =
                !case.name.is_empty() && case.name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
            if !plain || case.name == check::WHOLE_SUITE || !seen.insert(&case.name) {
                return Err(self.error(
                    self.value_at(&format!("/cases/{i}/name"), 0),
                    format!("case name {:?} cannot be used", case.name),
                    "Letters, digits, - and _ (it names files), each name once, and not \"suite\"",
                ));
            }
        }
        Ok(())
    }

    fn schema(&self, file: &str, bytes: &[u8]) -> Result<(Json, jsonschema::Validator), SuiteError> {
        let value: serde_json::Value = serde_json::from_slice(bytes).map_err(|e| SuiteError {
            file: self.source.shown(file),
            line: Some(e.line()),
            column: Some(e.column()),
            what: format!("it is not JSON: {e}"),
            cure: "The output's JSON Schema".to_owned(),
        })?;
        let problem = |what: String, cure: &str| SuiteError {
            file: self.source.shown(file),
            line: None,
            column: None,
            what,
            cure: cure.to_owned(),
        };
        let json = Json::parse(bytes).map_err(|e| problem(format!("it is not exact JSON: {e}"), "Each name once"))?;
        if json.as_object().is_none() {
            return Err(problem("it is not an object".to_owned(), "A JSON Schema such as {\"type\": \"object\", …}"));
        }
        // A contract that names a format means it.
        let validator = jsonschema::options().should_validate_formats(true).build(&value).map_err(|e| {
            problem(
                format!("it is not a JSON Schema: {e}"),
                "$schema chooses the draft; a $ref must stay inside the file",
            )
        })?;
        Ok((json, validator))
    }

    fn parameters(&mut self, file: &SuiteFile) -> Result<Parameters, SuiteError> {
        let p = &file.parameters;
        let mut tools = Vec::new();
        for tool in &p.tools {
            let bytes = self.read(&tool.parameters, &tool.parameters)?;
            let (parameters, _) = self.schema(&tool.parameters, &bytes)?;
            tools.push(Tool { name: tool.name.clone(), description: tool.description.clone(), parameters });
        }
        if p.response_format != ResponseFormat::None && file.output == Output::Tool {
            return Err(self.error(
                self.line_of("response_format"),
                "response_format binds the text, but output = \"tool\" reads the tool call".to_owned(),
                "Use one of the two",
            ));
        }
        Ok(Parameters {
            temperature: from_toml(&number(p.temperature)),
            max_tokens: p.max_tokens,
            response_format: p.response_format,
            top_p: p.top_p.map(|top_p| from_toml(&number(top_p))),
            seed: p.seed,
            n: p.n,
            stop: p.stop.clone(),
            tools,
        })
    }

    fn required_and_skipped(
        &self,
        file: &SuiteFile,
    ) -> Result<(Vec<&'static str>, BTreeMap<&'static str, String>), SuiteError> {
        let mut required: Vec<&'static str> = check::CHECKS.iter().filter(|c| c.core).map(|c| c.name).collect();
        for name in &file.required {
            let info = self.check_named(name)?;
            if !required.contains(&info.name) {
                required.push(info.name);
            }
        }
        let mut skip = BTreeMap::new();
        for (name, reason) in &file.skip {
            let info = self.check_named(name)?;
            let line = self.line_of(name);
            if required.contains(&info.name) {
                let why = if info.core { "every permit needs it" } else { "the suite requires it" };
                return Err(self.error(line, format!("{name} cannot be skipped: {why}"), "Take it out of [skip]"));
            }
            if reason.trim().is_empty() {
                return Err(self.error(line, format!("{name} is skipped without a reason"), "Say why, in words"));
            }
            skip.insert(info.name, reason.clone());
        }
        Ok((required, skip))
    }

    fn check_named(&self, name: &str) -> Result<&'static CheckInfo, SuiteError> {
        check::named(name).ok_or_else(|| {
            let names: Vec<_> = check::CHECKS.iter().map(|c| c.name).collect();
            let line = self.line_of(name).or_else(|| self.line_of_text(&format!("\"{name}\"")));
            let cure = match form::nearest(name, &names) {
                Some(near) => format!("Did you mean {near}?"),
                None => format!("Checks: {}", names.join(", ")),
            };
            self.error(line, format!("there is no check {name:?}"), &cure)
        })
    }

    pub(super) fn program(
        &mut self,
        argv: Option<Vec<String>>,
        limit: Duration,
    ) -> Result<Option<Program>, SuiteError> {
        let Some(argv) = argv else { return Ok(None) };
        if argv.is_empty() {
            return Err(self.error(
                self.line_of("program"),
                "program names no program".to_owned(),
                "program = [\"./check.sh\"]",
            ));
        }
        // The consumer's own logic is part of what was judged: files of the suite's folder go into the digest.
        for word in &argv {
            let word = word.strip_prefix("./").unwrap_or(word);
            if let Ok(bytes) = self.source.read(word) {
                self.files.insert(word.to_owned(), bytes);
            }
        }
        Ok(Some(Program { argv, limit }))
    }

    /// A file that suite.toml names; it goes into the digest.
    pub(super) fn read(&mut self, file: &str, named_by: &str) -> Result<Vec<u8>, SuiteError> {
        let bytes = self.source.read(file).map_err(|why| {
            let line = self.line_of_text(named_by);
            self.error(
                line,
                format!("{} cannot be read: {why}", self.source.shown(file)),
                "Paths are relative to the suite's folder",
            )
        })?;
        self.files.insert(file.to_owned(), bytes.clone());
        Ok(bytes)
    }

    pub(super) fn error(&self, at: Option<Place>, what: String, cure: &str) -> SuiteError {
        SuiteError {
            file: self.source.shown(SUITE_FILE),
            line: at.map(|place| place.line),
            column: at.map(|place| place.column),
            what,
            cure: cure.to_owned(),
        }
    }

    /// The first place that sets `key`.
    fn line_of(&self, key: &str) -> Option<Place> {
        self.places.named(key).map(|at| Place::at(&self.text, at))
    }

    pub(super) fn line_of_text(&self, text: &str) -> Option<Place> {
        self.text.find(text).map(|at| Place::at(&self.text, at))
    }

    /// Where the key with this pointer stands.
    pub(super) fn key_at(&self, pointer: &str) -> Option<Place> {
        self.places.key(pointer).map(|at| Place::at(&self.text, at))
    }

    /// The byte `inside` of the text that a value says; exact where it is written without escapes, which is said to
    /// begin behind its quotes.
    pub(super) fn value_at(&self, pointer: &str, inside: usize) -> Option<Place> {
        let value = self.places.value(pointer)?;
        let written = self.text.get(value.clone())?;
        let quotes = written.len() - written.trim_start_matches(['"', '\'']).len();
        // A newline behind the opening quotes of a long string is no part of it.
        let newline = usize::from(quotes == 3 && written[quotes..].starts_with('\n'));
        Some(Place::at(&self.text, (value.start + quotes + newline + inside).min(value.end)))
    }

    /// Where this text stands in a value.
    pub(super) fn text_at(&self, pointer: &str, text: &str) -> Option<Place> {
        let value = self.places.value(pointer)?;
        let at = self.text.get(value.clone())?.find(text)?;
        Some(Place::at(&self.text, value.start + at))
    }
}

/// Each file's path and bytes, both with their length before them, in the order of the paths.
fn digest(files: &BTreeMap<String, Vec<u8>>) -> String {
    let mut hash = Sha256::new();
    for (path, bytes) in files {
        for part in [path.as_bytes(), bytes.as_slice()] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
    }
    hash.finalize().iter().map(|b| format!("{b:02x}")).collect()
}
