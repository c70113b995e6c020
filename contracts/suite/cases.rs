//! The cases of a suite: their variables, the prompt filled with them, and what their answers must mean.

use std::collections::BTreeMap;
use std::time::Duration;

use providers::json::Json;

use super::file::{AssertFile, CaseFile, SuiteFile};
use super::load::Loader;
use super::{Case, SuiteError};
use crate::assertion::{Assertion, Op};
use crate::template::{self, TemplateError};

impl Loader {
    pub(super) fn case(&mut self, file: &SuiteFile, case: &CaseFile, limit: Duration) -> Result<Case, SuiteError> {
        let mut vars: BTreeMap<String, String> = BTreeMap::new();
        if let Some(fixture) = &case.fixture {
            let bytes = self.read(fixture, fixture)?;
            let value: serde_json::Value = serde_json::from_slice(&bytes).map_err(|e| SuiteError {
                file: self.source.shown(fixture),
                line: Some(e.line()),
                what: format!("it is not JSON: {e}"),
                cure: "A fixture is one JSON object: the variables".to_owned(),
            })?;
            let Json::Object(object) = Json::from(&value) else {
                return Err(SuiteError {
                    file: self.source.shown(fixture),
                    line: Some(1),
                    what: "it is not an object".to_owned(),
                    cure: "A fixture is one JSON object: the variables".to_owned(),
                });
            };
            vars.extend(object.iter().map(|(name, value)| (name.to_owned(), words(value))));
        }
        vars.extend(case.vars.iter().map(|(name, value)| (name.clone(), words(&from_toml(value)))));
        let system = file.prompt.system.as_ref().map(|s| self.render(s, &vars, &case.name)).transpose()?;
        let mut assertions = Vec::new();
        for assert in &case.assert {
            assertions.push(self.assertion(assert, &case.name)?);
        }
        Ok(Case {
            name: case.name.clone(),
            system,
            user: self.render(&file.prompt.user, &vars, &case.name)?,
            assertions,
            program: self.program(case.program.clone(), limit)?,
        })
    }

    fn render(&self, text: &str, vars: &BTreeMap<String, String>, case: &str) -> Result<String, SuiteError> {
        template::render(text, vars).map_err(|error| match error {
            TemplateError::Unclosed { near } => self.error(
                self.line_of_text(&near),
                format!("the prompt opens {near:?} and does not close it"),
                "Write {{name}}",
            ),
            TemplateError::UnknownVariable { name, known } => self.error(
                self.line_of_text(&name),
                format!("the prompt uses {{{{{name}}}}}, which case {case} does not have"),
                &format!("Its variables: {}", known.join(", ")),
            ),
        })
    }

    fn assertion(&self, file: &AssertFile, case: &str) -> Result<Assertion, SuiteError> {
        let line = self.line_of_text(&format!("\"{}\"", file.at));
        if !file.at.is_empty() && !file.at.starts_with('/') {
            return Err(self.error(
                line,
                format!("case {case}: at = {:?} is no JSON pointer", file.at),
                "Begin it with /",
            ));
        }
        let mut ops = Vec::new();
        if let Some(value) = &file.equals {
            ops.push(Op::Equals(from_toml(value)));
        }
        if let Some(text) = &file.equals_json {
            ops.push(Op::Equals(Json::parse(text.as_bytes()).map_err(|e| {
                self.error(line, format!("case {case}: equals_json is not JSON: {e}"), "One JSON value as text")
            })?));
        }
        if let Some(values) = &file.one_of {
            ops.push(Op::OneOf(values.iter().map(from_toml).collect()));
        }
        if let Some(text) = &file.contains {
            ops.push(Op::Contains(text.clone()));
        }
        if file.min.is_some() || file.max.is_some() {
            ops.push(Op::Between { min: file.min, max: file.max });
        }
        match (ops.pop(), ops.is_empty()) {
            (Some(op), true) => Ok(Assertion { at: file.at.clone(), op }),
            _ => Err(self.error(
                line,
                format!("case {case}: an assertion at {:?} needs exactly one comparison", file.at),
                "equals, equals_json, one_of, contains, or min/max",
            )),
        }
    }
}

/// A whole number is written without a point: some providers read `0.0` as something else than `0`.
pub(super) fn number(value: f64) -> toml::Value {
    if value.fract() == 0.0 && value.abs() < 1e15 {
        toml::Value::Integer(value as i64)
    } else {
        toml::Value::Float(value)
    }
}

pub(super) fn from_toml(value: &toml::Value) -> Json {
    // Every TOML value but a date has a JSON form, and a date's is its text.
    Json::from(&serde_json::to_value(value).unwrap_or(serde_json::Value::Null))
}

/// A variable as it stands in a prompt: text as it is, anything else as JSON.
fn words(value: &Json) -> String {
    match value {
        Json::String(s) => s.clone(),
        other => String::from_utf8_lossy(&other.to_bytes()).into_owned(),
    }
}
