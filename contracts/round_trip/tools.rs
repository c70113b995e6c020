//! Tool calls: forced, empty, exact, two at once, and those of earlier turns.

use std::collections::BTreeSet;

use providers::canonical::{Choice, Finish, ToolCall};
use providers::json::Json;

use super::Judge;
use crate::check::{self, CheckInfo, CheckResult, WHOLE_SUITE, excerpt};
use crate::probe;
use crate::suite::Tool;

const NO_TOOLS: &str = "the suite uses no tools";

impl<'a> Judge<'a> {
    /// The probe's answer and the suite's first tool; else a result that says why there is none.
    fn with_tool(&self, row: &CheckInfo, name: &str) -> Result<(&'a Choice, &'a Tool), CheckResult> {
        let Some(tool) = self.suite.parameters.tools.first() else { return Err(row.skipped(WHOLE_SUITE, NO_TOOLS)) };
        self.answered(row, name).map(|choice| (choice, tool))
    }

    pub(super) fn tools(&self) -> CheckResult {
        let row = &check::TOOLS;
        let (choice, _) = match self.with_tool(row, probe::TOOLS) {
            Ok(found) => found,
            Err(result) => return result,
        };
        match self.tool_trouble(choice).or_else(|| self.called_unasked()) {
            Some(why) => row.failed(WHOLE_SUITE, why),
            None => row.passed(WHOLE_SUITE, "honoured: the forced call came back with arguments that fit"),
        }
    }

    fn tool_trouble(&self, choice: &Choice) -> Option<String> {
        let Some(call) = choice.tool_calls.first() else {
            return Some("dropped: a tool call was forced and none came back".to_owned());
        };
        let Some(tool) = self.suite.parameters.tools.iter().find(|t| t.name == call.name) else {
            return Some(format!("it calls {}, which was not offered", excerpt(&call.name)));
        };
        if call.id.is_empty() {
            return Some("the call has no id, so its result could not be sent back".to_owned());
        }
        if let Err(why) = fits(tool, call) {
            return Some(why);
        }
        (choice.finish != Finish::ToolCalls)
            .then(|| format!("a tool call came back, and the finish reason is {:?}", choice.native_finish))
    }

    /// Who refuses `tool_choice: "none"` calls nothing either.
    fn called_unasked(&self) -> Option<String> {
        let choice = self.probe(probe::TOOLS_NONE)?.observation.choice().ok()?;
        let call = choice.tool_calls.first()?;
        Some(format!("tool_choice is dropped: it says none, and {} was called", excerpt(&call.name)))
    }

    pub(super) fn parallel_tools(&self) -> CheckResult {
        let row = &check::PARALLEL_TOOLS;
        let (choice, tool) = match self.with_tool(row, probe::PARALLEL_TOOLS) {
            Ok(found) => found,
            Err(result) => return result,
        };
        let calls = &choice.tool_calls;
        if calls.len() < 2 {
            return row.skipped(WHOLE_SUITE, "the model made one call where two were asked for");
        }
        match mixed_up(tool, calls) {
            Some(why) => row.failed(WHOLE_SUITE, why),
            None => row.passed(WHOLE_SUITE, format!("{} calls, each with its own id and arguments", calls.len())),
        }
    }

    pub(super) fn tools_empty(&self) -> CheckResult {
        let row = &check::TOOLS_EMPTY;
        let (choice, _) = match self.with_tool(row, probe::TOOLS_EMPTY) {
            Ok(found) => found,
            Err(result) => return result,
        };
        let Some(call) = choice.tool_calls.first() else {
            return row.failed(WHOLE_SUITE, "dropped: a tool without parameters was forced and no call came back");
        };
        match Json::parse(call.arguments.as_bytes()) {
            Ok(Json::Object(_)) if call.name == probe::PING => row.passed(WHOLE_SUITE, "the arguments are an object"),
            Ok(Json::Object(_)) => row.failed(WHOLE_SUITE, format!("it calls {} instead", excerpt(&call.name))),
            _ => row.failed(WHOLE_SUITE, format!("the arguments are no JSON object but {}", excerpt(&call.arguments))),
        }
    }

    pub(super) fn tools_exact(&self) -> CheckResult {
        let row = &check::TOOLS_EXACT;
        let Some(tool) = self.suite.parameters.tools.first() else { return row.skipped(WHOLE_SUITE, NO_TOOLS) };
        let Some((member, _)) = probe::arguments(tool, probe::EXACT) else {
            return row.skipped(WHOLE_SUITE, "the tool takes no free number or text");
        };
        let choice = match self.answered(row, probe::TOOLS_EXACT) {
            Ok(choice) => choice,
            Err(result) => return result,
        };
        let found = choice.tool_calls.first().and_then(|call| Json::parse(call.arguments.as_bytes()).ok());
        let value = found.as_ref().and_then(|arguments| arguments.get(&member));
        let digits = match value {
            Some(Json::Number(number)) => number.as_str().to_owned(),
            Some(Json::String(text)) => text.clone(),
            _ => return row.skipped(WHOLE_SUITE, format!("the model did not fill in {member}")),
        };
        match digits {
            digits if digits == probe::EXACT => row.passed(WHOLE_SUITE, "19 digits came back"),
            digits if rounded(&digits) => {
                row.failed(WHOLE_SUITE, format!("{} came back as {digits}: rounded", probe::EXACT))
            }
            digits => row.skipped(WHOLE_SUITE, format!("the model made up {member} = {}", excerpt(&digits))),
        }
    }

    pub(super) fn tool_history(&self) -> CheckResult {
        if self.suite.parameters.tools.is_empty() {
            return check::TOOL_HISTORY.skipped(WHOLE_SUITE, NO_TOOLS);
        }
        self.marker(&check::TOOL_HISTORY, probe::TOOL_HISTORY)
    }
}

/// What is wrong with several calls of one tool, of which each should have arguments of its own.
pub(super) fn mixed_up(tool: &Tool, calls: &[ToolCall]) -> Option<String> {
    if let Some(call) = calls.iter().find(|call| call.name != tool.name) {
        return Some(format!("it calls {}, which was not asked for", excerpt(&call.name)));
    }
    let ids: BTreeSet<&str> = calls.iter().map(|call| call.id.as_str()).collect();
    if ids.len() < calls.len() || ids.contains("") {
        return Some("two calls share an id, so their results could not be told apart".to_owned());
    }
    if let Some(why) = calls.iter().find_map(|call| fits(tool, call).err()) {
        return Some(why);
    }
    let arguments: BTreeSet<&str> = calls.iter().map(|call| call.arguments.as_str()).collect();
    (arguments.len() < calls.len())
        .then(|| "two calls with different arguments were asked for, and they are equal".to_owned())
}

/// The wanted number after a trip through a double, in whatever notation.
fn rounded(digits: &str) -> bool {
    let wanted: Option<f64> = probe::EXACT.parse().ok();
    let got: Option<f64> = digits.parse().ok();
    matches!((wanted, got), (Some(wanted), Some(got)) if (got - wanted).abs() <= wanted * 1e-6)
}

fn fits(tool: &Tool, call: &ToolCall) -> Result<(), String> {
    let arguments = Json::parse(call.arguments.as_bytes())
        .map_err(|e| format!("the arguments are not JSON: {e}: {}", excerpt(&call.arguments)))?;
    let Ok(validator) = jsonschema::validator_for(&tool.parameters.to_serde()) else { return Ok(()) };
    let value = arguments.to_serde();
    let error = validator.iter_errors(&value).next();
    match error {
        Some(error) => Err(format!("the arguments do not fit: {}: {}", error.instance_path().as_str(), error.masked())),
        None => Ok(()),
    }
}
