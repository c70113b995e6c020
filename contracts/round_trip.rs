//! The round-trip kind: does what the suite sends take effect, and does what happened come back told as it was.
//!
//! Each parameter that the suite uses is honoured, refused or dropped, with the evidence: dropped fails, and so does
//! refused, since the suite needs it. What cannot be seen from outside is skipped and says so.

use providers::canonical::{Choice, Finish};
use providers::failure::{Proof, Rejection};
use providers::json::Json;

use crate::check::{self, CheckInfo, CheckResult, WHOLE_SUITE, excerpt};
use crate::observation::{Count, Observation};
use crate::probe;
use crate::runner::{Exchange, Transcript};
use crate::schema;
use crate::suite::{ResponseFormat, Suite};

pub(crate) fn judge(suite: &Suite, transcript: &Transcript) -> Vec<CheckResult> {
    let judge = Judge { suite, transcript };
    let all: [(&CheckInfo, CheckResult); 13] = [
        (&check::REACHABLE, judge.reachable()),
        (&check::SYSTEM_MARKER, judge.marker(&check::SYSTEM_MARKER, probe::SYSTEM_MARKER)),
        (&check::UNICODE, judge.unicode()),
        (&check::MAX_TOKENS, judge.max_tokens()),
        (&check::STOP, judge.stop()),
        (&check::RESPONSE_FORMAT, judge.response_format()),
        (&check::TOOLS, judge.tools()),
        (&check::TEMPERATURE, judge.temperature()),
        (&check::USAGE_PRESENT, judge.usage_present()),
        (&check::FINISH_REASON, judge.finish_reason()),
        (&check::BAD_MODEL, judge.bad_model()),
        (&check::TOO_LONG, judge.too_long()),
        (&check::LONG_INPUT, judge.marker(&check::LONG_INPUT, probe::LONG_INPUT)),
    ];
    all.into_iter().filter(|(row, _)| !suite.skip.contains_key(row.name)).map(|(_, result)| result).collect()
}

struct Judge<'a> {
    suite: &'a Suite,
    transcript: &'a Transcript,
}

impl<'a> Judge<'a> {
    fn probe(&self, name: &str) -> Option<&'a Exchange> {
        self.transcript.get(WHOLE_SUITE, name, 1)
    }

    /// The probe's answer; else a result that says why there is none.
    fn answered(&self, row: &CheckInfo, name: &str) -> Result<&'a Choice, CheckResult> {
        let Some(exchange) = self.probe(name) else {
            return Err(row.skipped(WHOLE_SUITE, "the call was not made"));
        };
        exchange.observation.choice().map_err(|why| {
            let class = if exchange.observation.is_refused_parameter() { "refused: " } else { "" };
            row.failed(WHOLE_SUITE, format!("{class}{why}"))
        })
    }

    fn reachable(&self) -> CheckResult {
        let row = &check::REACHABLE;
        for exchange in self.transcript.iter() {
            let counted = if let Count::Nothing(observation) = &exchange.count { Some(observation) } else { None };
            if let Some(nothing) = [Some(&exchange.observation), counted].into_iter().flatten().find(|o| o.is_nothing())
            {
                return row.failed(WHOLE_SUITE, format!("{}: {}", exchange.call.key, nothing.trouble()));
            }
        }
        row.passed(WHOLE_SUITE, format!("{} calls, each came to an end", self.transcript.iter().count()))
    }

    fn marker(&self, row: &CheckInfo, name: &'static str) -> CheckResult {
        let marker = probe::marker(&self.suite.name, name);
        match self.answered(row, name) {
            Err(result) => result,
            Ok(choice) => match text_of(choice) {
                text if text.contains(&marker) => row.passed(WHOLE_SUITE, "the marker came back"),
                text => {
                    row.failed(WHOLE_SUITE, format!("the marker {marker} did not come back, but {}", excerpt(text)))
                }
            },
        }
    }

    fn unicode(&self) -> CheckResult {
        let row = &check::UNICODE;
        let wanted = probe::unicode(&self.suite.name);
        match self.answered(row, probe::UNICODE) {
            Err(result) => result,
            Ok(choice) => match text_of(choice) {
                text if text.contains(&wanted) => row.passed(WHOLE_SUITE, "every character came back"),
                text => {
                    let lost = wanted.split(' ').find(|word| !text.contains(word)).unwrap_or("the blanks");
                    row.failed(WHOLE_SUITE, format!("{} did not come back: {}", excerpt(lost), excerpt(text)))
                }
            },
        }
    }

    fn max_tokens(&self) -> CheckResult {
        let row = &check::MAX_TOKENS;
        let choice = match self.answered(row, probe::MAX_TOKENS) {
            Ok(choice) => choice,
            Err(result) => return result,
        };
        let limit = probe::SMALL_LIMIT;
        let output = self.probe(probe::MAX_TOKENS).and_then(|e| e.observation.usage()).map(|u| u.output_tokens);
        let words = text_of(choice).split_whitespace().count() as u64;
        let problem = if output.is_some_and(|n| n > limit) || words > limit {
            format!("dropped: {} tokens billed, {words} words, limit {limit}", output.unwrap_or_default())
        } else if choice.finish != Finish::Length {
            format!("cut or not, the finish reason is {:?}, not length", choice.native_finish)
        } else {
            return row.passed(WHOLE_SUITE, format!("honoured: cut at {limit} tokens, finish reason length"));
        };
        row.failed(WHOLE_SUITE, problem)
    }

    fn stop(&self) -> CheckResult {
        let row = &check::STOP;
        let Some(stop) = self.suite.parameters.stop.first() else {
            return row.skipped(WHOLE_SUITE, "the suite uses no stop string");
        };
        let choice = match self.answered(row, probe::STOP) {
            Ok(choice) => choice,
            Err(result) => return result,
        };
        let text = text_of(choice);
        if text.contains(stop.as_str()) || text.contains("gamma") {
            return row
                .failed(WHOLE_SUITE, format!("dropped: the answer goes on past the stop string: {}", excerpt(text)));
        }
        if !text.contains("beta") {
            return row.failed(WHOLE_SUITE, format!("the text before the stop string is missing: {}", excerpt(text)));
        }
        if choice.finish != Finish::Stop {
            return row.failed(WHOLE_SUITE, format!("stopped, but the finish reason is {:?}", choice.native_finish));
        }
        row.passed(WHOLE_SUITE, "honoured: the answer ends before the stop string")
    }

    fn response_format(&self) -> CheckResult {
        let row = &check::RESPONSE_FORMAT;
        let format = self.suite.parameters.response_format;
        if format == ResponseFormat::None {
            return row.skipped(WHOLE_SUITE, "the suite uses no response_format");
        }
        let choice = match self.answered(row, probe::RESPONSE_FORMAT) {
            Ok(choice) => choice,
            Err(result) => return result,
        };
        let text = text_of(choice);
        let held = match format {
            ResponseFormat::JsonSchema => schema::fits(self.suite, text),
            ResponseFormat::JsonObject | ResponseFormat::None => match Json::parse(text.as_bytes()) {
                Ok(Json::Object(_)) => Ok(()),
                _ => Err("it is not a JSON object".to_owned()),
            },
        };
        match held {
            Ok(()) => row.passed(WHOLE_SUITE, "honoured: JSON came back though no words asked for it"),
            Err(why) => row.failed(WHOLE_SUITE, format!("dropped: {why}")),
        }
    }

    fn tools(&self) -> CheckResult {
        let row = &check::TOOLS;
        if self.suite.parameters.tools.is_empty() {
            return row.skipped(WHOLE_SUITE, "the suite uses no tools");
        }
        let choice = match self.answered(row, probe::TOOLS) {
            Ok(choice) => choice,
            Err(result) => return result,
        };
        match self.tool_trouble(choice) {
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
        let arguments = match Json::parse(call.arguments.as_bytes()) {
            Ok(arguments) => arguments,
            Err(e) => return Some(format!("the arguments are not JSON: {e}: {}", excerpt(&call.arguments))),
        };
        let validator = jsonschema::validator_for(&tool.parameters.to_serde()).ok()?;
        if let Some(error) = validator.iter_errors(&arguments.to_serde()).next() {
            return Some(format!("the arguments do not fit: {}: {}", error.instance_path().as_str(), error.masked()));
        }
        (choice.finish != Finish::ToolCalls)
            .then(|| format!("a tool call came back, and the finish reason is {:?}", choice.native_finish))
    }

    fn temperature(&self) -> CheckResult {
        let row = &check::TEMPERATURE;
        let refused = self.transcript.iter().find_map(|e| match &e.observation {
            Observation::Unsupported(u) if u.param == "temperature" => Some(u.to_string()),
            Observation::Failed(f) if f.param.as_deref() == Some("temperature") => Some(f.message.clone()),
            _ => None,
        });
        match refused {
            Some(why) => row.failed(WHOLE_SUITE, format!("refused: {why}")),
            None => row.skipped(WHOLE_SUITE, "it is taken; whether it is obeyed cannot be seen from outside"),
        }
    }

    fn usage_present(&self) -> CheckResult {
        let row = &check::USAGE_PRESENT;
        let mut seen = 0;
        for exchange in self.transcript.iter() {
            let Ok(reply) = exchange.observation.reply() else { continue };
            seen += 1;
            let key = &exchange.call.key;
            if reply.usage_unreadable {
                return row.failed(WHOLE_SUITE, format!("{key}: the usage cannot be read"));
            }
            if reply.usage.is_none() {
                return row.failed(WHOLE_SUITE, format!("{key}: no usage"));
            }
        }
        match seen {
            0 => row.skipped(WHOLE_SUITE, "no answer came back"),
            n => row.passed(WHOLE_SUITE, format!("{n} answers")),
        }
    }

    /// What the finish reason says must be possible for what came back. The cut-off probe has its own check.
    fn finish_reason(&self) -> CheckResult {
        let row = &check::FINISH_REASON;
        let mut seen = 0;
        for exchange in self.transcript.iter().filter(|e| e.call.key.probe != probe::MAX_TOKENS) {
            let Ok(choice) = exchange.observation.choice() else { continue };
            seen += 1;
            if let Some(why) = untrue_finish(exchange, choice) {
                return row.failed(WHOLE_SUITE, format!("{}: {why}", exchange.call.key));
            }
        }
        match seen {
            0 => row.skipped(WHOLE_SUITE, "no answer came back"),
            n => row.passed(WHOLE_SUITE, format!("{n} answers")),
        }
    }

    fn bad_model(&self) -> CheckResult {
        let row = &check::BAD_MODEL;
        match self.probe(probe::BAD_MODEL).map(|e| &e.observation) {
            None => row.skipped(WHOLE_SUITE, "the call was not made"),
            Some(o) if o.is_refused() => row.passed(WHOLE_SUITE, "refused"),
            Some(Observation::Answered(_)) => {
                row.failed(WHOLE_SUITE, "a model that does not exist was answered: any name gets some model")
            }
            Some(other) => row.failed(WHOLE_SUITE, format!("not refused as an error of its own: {}", other.trouble())),
        }
    }

    fn too_long(&self) -> CheckResult {
        let row = &check::TOO_LONG;
        let Some(exchange) = self.probe(probe::TOO_LONG) else {
            let why = match self.suite.tokenizer.window {
                None => "the suite states no window".to_owned(),
                Some(w) => format!("a window of {w} is too dear to overflow (limit {})", probe::CHEAP_WINDOW),
            };
            return row.skipped(WHOLE_SUITE, why);
        };
        match &exchange.observation {
            Observation::Failed(f) if f.proof == Proof::Rejected(Rejection::ContextLength) => {
                row.passed(WHOLE_SUITE, "refused as too long")
            }
            Observation::Failed(f) if matches!(f.proof, Proof::Rejected(_)) => {
                row.failed(WHOLE_SUITE, format!("refused, but not as too long: {}", exchange.observation.trouble()))
            }
            // The window that a suite states is what it needs; a model may have more, and then it reads the head too.
            Observation::Answered(_) if self.head_was_read(exchange) => {
                row.passed(WHOLE_SUITE, "answered with the head of the prompt intact: the window is larger")
            }
            Observation::Answered(_) => row.failed(WHOLE_SUITE, "answered without the prompt's head: cut silently"),
            other => row.failed(WHOLE_SUITE, other.trouble()),
        }
    }

    fn head_was_read(&self, exchange: &Exchange) -> bool {
        let marker = probe::marker(&self.suite.name, probe::TOO_LONG);
        exchange.observation.text().is_ok_and(|text| text.contains(&marker))
    }
}

fn text_of(choice: &Choice) -> &str {
    choice.text.as_deref().unwrap_or("")
}

fn untrue_finish(exchange: &Exchange, choice: &Choice) -> Option<String> {
    let limit = exchange.call.body.get("max_tokens").and_then(Json::as_u64)?;
    let output = exchange.observation.usage().map(|u| u.output_tokens);
    match choice.finish {
        Finish::Length if output.is_some_and(|n| n > 0 && n + 1 < limit) => {
            Some(format!("it says length after {} of {limit} tokens", output.unwrap_or_default()))
        }
        Finish::Stop if output.is_some_and(|n| n > limit) => {
            Some(format!("it says {} after {} tokens, limit {limit}", choice.native_finish, output.unwrap_or_default()))
        }
        Finish::Stop if !choice.tool_calls.is_empty() && exchange.call.key.probe != probe::TOOLS => {
            Some(format!("it calls a tool and says {}", choice.native_finish))
        }
        Finish::ToolCalls if choice.tool_calls.is_empty() => Some("it says tool_calls and calls none".to_owned()),
        _ => None,
    }
}
