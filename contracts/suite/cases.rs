//! The cases of a suite: their variables, the prompt filled with them, and what their answers must mean.

use std::collections::BTreeMap;
use std::time::Duration;

use providers::json::Json;

use super::file::{AssertFile, CaseFile, SuiteFile};
use super::form::nearest;
use super::load::Loader;
use super::{Case, SuiteError, Turn};
use crate::assertion::{Assertion, Op, Path};
use crate::expression::Expression;
use crate::template::{self, TemplateError};

type Vars = BTreeMap<String, Json>;

impl Loader {
    pub(super) fn case(
        &mut self,
        file: &SuiteFile,
        index: usize,
        case: &CaseFile,
        limit: Duration,
    ) -> Result<Case, SuiteError> {
        let at = format!("/cases/{index}");
        let vars = self.vars(case, &at)?;
        let prompt = &file.prompt;
        let render = |text: &str, place: &str| self.render(text, place, &vars, &case.name);
        let system = prompt.system.as_ref().map(|text| render(text, "/prompt/system")).transpose()?;
        let mut turns = Vec::new();
        for (i, turn) in prompt.turns.iter().enumerate() {
            let content = render(&turn.content, &format!("/prompt/turns/{i}/content"))?;
            turns.push(Turn { role: turn.role, content });
        }
        let user = render(&prompt.user, "/prompt/user")?;
        let all = Json::Object(vars.iter().fold(Default::default(), |mut all, (name, value)| {
            providers::json::Object::insert(&mut all, name.clone(), value.clone());
            all
        }));
        let mut assertions = Vec::new();
        for (i, assert) in case.assert.iter().enumerate() {
            assertions.push(self.assertion(assert, &format!("{at}/assert/{i}"), &case.name, &all)?);
        }
        let program = self.program(case.program.clone(), limit)?;
        Ok(Case { name: case.name.clone(), system, turns, user, assertions, program })
    }

    /// The fixture's variables, those that are files, and those written out; the later stand over the earlier.
    fn vars(&mut self, case: &CaseFile, at: &str) -> Result<Vars, SuiteError> {
        let mut vars = Vars::new();
        if let Some(fixture) = &case.fixture {
            let bytes = self.read(fixture, fixture)?;
            let problem = |line, column, what| SuiteError {
                file: self.source.shown(fixture),
                line,
                column,
                what,
                cure: "A fixture is one JSON object: the variables".to_owned(),
            };
            let json = Json::parse(&bytes).map_err(|e| match serde_json::from_slice::<serde_json::Value>(&bytes) {
                Err(e) => problem(Some(e.line()), Some(e.column()), format!("it is not JSON: {e}")),
                Ok(_) => problem(None, None, format!("it is not JSON: {e}")),
            })?;
            let Some(object) = json.as_object() else {
                return Err(problem(Some(1), Some(1), "it is not an object".to_owned()));
            };
            vars.extend(object.iter().map(|(name, value)| (name.to_owned(), value.clone())));
        }
        for (name, file) in &case.files {
            let bytes = self.read(file, file)?;
            let text = String::from_utf8(bytes).map_err(|e| {
                let place = self.key_at(&format!("{at}/files/{name}"));
                self.error(place, format!("{file} is not UTF-8: {e}"), "A variable is text: save the file as UTF-8")
            })?;
            vars.insert(name.clone(), Json::String(text));
        }
        vars.extend(case.vars.iter().map(|(name, value)| (name.clone(), from_toml(value))));
        Ok(vars)
    }

    fn render(&self, text: &str, at: &str, vars: &Vars, case: &str) -> Result<String, SuiteError> {
        template::render(text, vars).map_err(|error| match error {
            TemplateError::Unclosed { near } => self.error(
                self.text_at(at, &near).or(self.key_at(at)),
                format!("the prompt opens {near:?} and does not close it"),
                "Write {{name}}; literal braces are written {{\"{{\"}}",
            ),
            TemplateError::UnknownVariable { name, known } => {
                let names: Vec<&str> = known.iter().map(String::as_str).collect();
                let cure = match nearest(&name, &names) {
                    Some(near) => format!("Did you mean {{{{{near}}}}}? Its variables: {}", known.join(", ")),
                    None => format!("Its variables: {}", known.join(", ")),
                };
                let place = self.text_at(at, &name).or(self.key_at(at));
                self.error(place, format!("the prompt uses {{{{{name}}}}}, which case {case} does not have"), &cure)
            }
        })
    }

    fn assertion(&self, file: &AssertFile, at: &str, case: &str, vars: &Json) -> Result<Assertion, SuiteError> {
        let target = file.at.clone().unwrap_or_default();
        let here = || self.value_at(&format!("{at}/at"), 0).or(self.key_at(at));
        let path = if target.starts_with('$') {
            Some(Path::compile(&target).map_err(|(what, offset)| {
                let place = self.value_at(&format!("{at}/at"), offset);
                self.error(
                    place,
                    format!("case {case}: {target:?} is no JSONPath: {what}"),
                    "RFC 9535, as $.items[*].price",
                )
            })?)
        } else {
            None
        };
        if path.is_none() && !target.is_empty() && !target.starts_with('/') {
            let what = format!("case {case}: at = {target:?} is neither a JSON pointer nor a JSONPath");
            return Err(self.error(here(), what, "Begin a pointer with / and a path with $"));
        }
        let mut ops = self.comparisons(file, at, case, vars)?;
        match (ops.pop(), ops.is_empty()) {
            (Some(Op::Count(_)), true) if path.is_none() => {
                let what = format!("case {case}: count counts the matches of a JSONPath, and {target:?} is a pointer");
                Err(self.error(here(), what, "Write at = \"$…\""))
            }
            (Some(op), true) => Ok(Assertion { at: target, path, op }),
            _ => Err(self.error(
                here(),
                format!("case {case}: an assertion at {target:?} needs exactly one comparison"),
                "equals, equals_json, one_of, contains, min/max, count, or cel",
            )),
        }
    }

    fn comparisons(&self, file: &AssertFile, at: &str, case: &str, vars: &Json) -> Result<Vec<Op>, SuiteError> {
        let mut ops = Vec::new();
        if let Some(value) = &file.equals {
            ops.push(Op::Equals(from_toml(value)));
        }
        if let Some(text) = &file.equals_json {
            ops.push(Op::Equals(Json::parse(text.as_bytes()).map_err(|e| {
                let place = self.value_at(&format!("{at}/equals_json"), 0);
                self.error(place, format!("case {case}: equals_json is not JSON: {e}"), "One JSON value as text")
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
        ops.extend(file.count.map(Op::Count));
        if let Some(text) = &file.cel {
            ops.push(Op::Holds(Expression::compile(text, vars).map_err(|wrong| {
                let place = self.value_at(&format!("{at}/cel"), wrong.at.unwrap_or(0));
                let what = format!("case {case}: the expression {text:?} does not compile: {}", wrong.what);
                self.error(place, what, "CEL, as output.total > 0 && size(output.items) == 2")
            })?));
        }
        Ok(ops)
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

/// Every TOML value but a date has a JSON form, and a date's is its text; so is that of a number that is none.
pub(super) fn from_toml(value: &toml::Value) -> Json {
    match value {
        toml::Value::Datetime(date) => Json::String(date.to_string()),
        toml::Value::Array(items) => Json::Array(items.iter().map(from_toml).collect()),
        toml::Value::Table(table) => {
            let mut object = providers::json::Object::new();
            for (name, value) in table {
                object.insert(name.clone(), from_toml(value));
            }
            Json::Object(object)
        }
        toml::Value::Float(number) if !number.is_finite() => Json::String(number.to_string()),
        other => Json::from(&serde_json::to_value(other).unwrap_or(serde_json::Value::Null)),
    }
}
