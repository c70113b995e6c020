//! The way back, place by place: what each wire format answers, against each dialect, whole and streamed.
//!
//! Every sample says the same things. A cell is `yes` only where the value stands at its own place in what the client
//! makes of the answer (streams are put together by the clients' rules first). A dialect without a place for it says
//! why, below the tables' head; anything else is a drop.

use super::samples::{self, Sample};
use super::{Cell, Totals, formats, head};
use crate::compatible::adapter_named;
use crate::dialects::Dialect;
use crate::dialects::assembled::{self, rendering, told};
use crate::json::Json;
use crate::stream::sampling::decode_once;

#[derive(Debug, Clone, Copy)]
pub(super) enum Place {
    /// The value stands here. In paths `kind#1` is the second item of that type.
    Is(&'static str, &'static str),
    /// The text stands somewhere in here.
    Holds(&'static str, &'static str),
    /// These counts together are the value.
    Sum(&'static [&'static str], u64),
    /// Of these formats it stands at the first path; of the others it rides, sealed, in the texts at the second.
    Sealed(&'static [&'static str], &'static str, &'static str),
    /// The dialect has no place for it, for this reason.
    None(&'static str, &'static str),
}
use Place::{Holds, Is, None as NoPlace, Sealed, Sum};

struct Said {
    name: &'static str,
    /// What an answer that says it holds, by which a format that cannot say it is known. Empty: every answer says it.
    mark: &'static str,
    chat: Place,
    messages: Place,
    responses: Place,
}

const SIGNATURE: &str = "\"c2lnTk8x\"";
const URL: &str = "https://c.example/one";
const NO_LOGPROBS: Place = NoPlace("logprobs", "messages have no log probabilities, nor any way to ask for them");

const FULL: &[Said] = &[
    Said {
        name: "text",
        mark: "",
        chat: Is("choices.0.message.content", "\"T-ONE\""),
        messages: Is("content.text#0.text", "\"T-ONE\""),
        responses: Is("output.message#0.content.output_text#0.text", "\"T-ONE\""),
    },
    Said {
        name: "reasoning",
        mark: "R-ON",
        chat: Is("choices.0.message.reasoning_content", "\"R-ONE\""),
        messages: Is("content.thinking#0.thinking", "\"R-ONE\""),
        responses: Is("output.reasoning#0.summary.0.text", "\"R-ONE\""),
    },
    Said {
        name: "its signature",
        mark: SIGNATURE,
        chat: Holds("choices.0.message", SIGNATURE),
        messages: Sealed(&["anthropic", "bedrock"], "content.thinking#0.signature", "content.redacted_thinking#0.data"),
        responses: Sealed(
            &["openai-responses"],
            "output.reasoning#0.encrypted_content",
            "output.reasoning#1.encrypted_content",
        ),
    },
    Said {
        name: "a call, every digit",
        mark: "",
        chat: Is("choices.0.message.tool_calls.0.function.arguments", r#""{\"n\":7300000000000000001}""#),
        messages: Is("content.tool_use#0.input", r#"{"n":7300000000000000001}"#),
        responses: Is("output.function_call#0.arguments", r#""{\"n\":7300000000000000001}""#),
    },
    Said {
        name: "its id",
        mark: "call_A",
        chat: Is("choices.0.message.tool_calls.0.id", "\"call_A\""),
        messages: Is("content.tool_use#0.id", "\"call_A\""),
        responses: Is("output.function_call#0.call_id", "\"call_A\""),
    },
    Said {
        name: "the same tool again, in parallel",
        mark: "",
        chat: Is("choices.0.message.tool_calls.1.function.arguments", r#""{\"x\":1.50}""#),
        messages: Is("content.tool_use#1.input", r#"{"x":1.50}"#),
        responses: Is("output.function_call#1.arguments", r#""{\"x\":1.50}""#),
    },
    Said {
        name: "a citation's address",
        mark: URL,
        chat: Holds("choices.0", URL),
        messages: Holds("content", URL),
        responses: Holds("output", URL),
    },
    Said {
        name: "a citation's title",
        mark: "C-ONE",
        chat: Holds("choices.0", "C-ONE"),
        messages: Holds("content", "C-ONE"),
        responses: Holds("output", "C-ONE"),
    },
    Said {
        name: "log probabilities",
        mark: "-0.731",
        chat: Is("choices.0.logprobs.content.0.logprob", "-0.731"),
        messages: NO_LOGPROBS,
        responses: Holds("output", r#""logprob":-0.731"#),
    },
    Said {
        name: "the model's name",
        mark: "M-ONE",
        chat: Is("model", "\"M-ONE\""),
        messages: Is("model", "\"M-ONE\""),
        responses: Is("model", "\"M-ONE\""),
    },
    Said {
        name: "input tokens",
        mark: "",
        chat: Is("usage.prompt_tokens", "7311"),
        messages: Sum(
            &["usage.input_tokens", "usage.cache_read_input_tokens", "usage.cache_creation_input_tokens"],
            7311,
        ),
        responses: Is("usage.input_tokens", "7311"),
    },
    Said {
        name: "output tokens",
        mark: "",
        chat: Is("usage.completion_tokens", "1733"),
        messages: Is("usage.output_tokens", "1733"),
        responses: Is("usage.output_tokens", "1733"),
    },
    Said {
        name: "tokens read from a cache",
        mark: ":731",
        chat: Is("usage.prompt_tokens_details.cached_tokens", "731"),
        messages: Is("usage.cache_read_input_tokens", "731"),
        responses: Is("usage.input_tokens_details.cached_tokens", "731"),
    },
    Said {
        name: "tokens written to a cache",
        mark: ":73",
        chat: Is("usage.prompt_tokens_details.cache_write_tokens", "73"),
        messages: Is("usage.cache_creation_input_tokens", "73"),
        responses: Is("usage.input_tokens_details.cache_write_tokens", "73"),
    },
    Said {
        name: "reasoning tokens",
        mark: ":173",
        chat: Is("usage.completion_tokens_details.reasoning_tokens", "173"),
        messages: Is("usage.output_tokens_details.thinking_tokens", "173"),
        responses: Is("usage.output_tokens_details.reasoning_tokens", "173"),
    },
    Said {
        name: "service tier",
        mark: "\"priority\"",
        chat: Is("service_tier", "\"priority\""),
        messages: Is("usage.service_tier", "\"priority\""),
        responses: Is("service_tier", "\"priority\""),
    },
    Said {
        name: "end: calls",
        mark: "",
        chat: Is("choices.0.finish_reason", "\"tool_calls\""),
        messages: Is("stop_reason", "\"tool_use\""),
        responses: Is("status", "\"completed\""),
    },
];

/// The reasons to end, by their name in [`samples::word`]; and the provider's words of a refusal.
const ENDS: &[Said] = &[
    Said {
        name: "stop",
        mark: "",
        chat: Is("choices.0.finish_reason", "\"stop\""),
        messages: Is("stop_reason", "\"end_turn\""),
        responses: Is("status", "\"completed\""),
    },
    Said {
        name: "length",
        mark: "",
        chat: Is("choices.0.finish_reason", "\"length\""),
        messages: Is("stop_reason", "\"max_tokens\""),
        responses: Is("incomplete_details.reason", "\"max_output_tokens\""),
    },
    Said {
        name: "filter",
        mark: "",
        chat: Is("choices.0.finish_reason", "\"content_filter\""),
        messages: Is("stop_reason", "\"refusal\""),
        responses: Is("incomplete_details.reason", "\"content_filter\""),
    },
    Said {
        name: "stop string",
        mark: "",
        chat: Is("choices.0.stop_reason", "\"STOP-ONE\""),
        messages: Is("stop_sequence", "\"STOP-ONE\""),
        responses: NoPlace("stop", "responses know no stop strings, nor any way to ask for them"),
    },
    Said {
        name: "refusal",
        mark: "R-NO",
        chat: Is("choices.0.message.refusal", "\"R-NO\""),
        messages: Holds("", "R-NO"),
        responses: Is("output.message#0.content.refusal#0.refusal", "\"R-NO\""),
    },
];

const DIALECTS: [(Dialect, &str, &str); 3] = [
    (
        Dialect::Chat,
        "OpenAI chat completions",
        r#"{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":S}"#,
    ),
    (
        Dialect::Messages,
        "Anthropic messages",
        r#"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}],"stream":S}"#,
    ),
    (Dialect::Responses, "OpenAI responses", r#"{"model":"m","input":"hi","stream":S}"#),
];

/// What a client of the dialect gets, as bytes; `Err`: there is no answer.
pub(crate) fn sent(dialect: Dialect, format: &str, sample: &Sample, streamed: bool) -> Result<String, String> {
    let text = DIALECTS.iter().find(|(known, ..)| *known == dialect).unwrap().2;
    let text = text.replace('S', if streamed { "true" } else { "false" });
    let asked = dialect.parse(Json::parse(text.as_bytes()).unwrap().into_object().unwrap()).unwrap();
    let rendering = rendering(&text);
    if !streamed {
        let answer = adapter_named(format).unwrap().from_upstream(&asked, &sample.head, &sample.body);
        let answer = answer.map_err(|failure| format!("{failure:?}"))?;
        let whole = dialect.whole(&rendering, &answer.body).ok_or("not rendered")?;
        return Ok(String::from_utf8(whole.to_vec()).unwrap());
    }
    let outcome = decode_once(format, &asked, &sample.head, &sample.body);
    if let Err(failure) = &outcome.answer {
        return Err(format!("{failure:?}"));
    }
    Ok(told(dialect, &rendering, &outcome))
}

/// What a client of the dialect has in the end; `Err`: there is no answer.
pub(crate) fn client(dialect: Dialect, format: &str, sample: &Sample, streamed: bool) -> Result<Json, String> {
    let stream = sent(dialect, format, sample, streamed)?;
    if !streamed {
        return Ok(Json::parse(stream.as_bytes()).unwrap());
    }
    Ok(match dialect {
        Dialect::Messages => assembled::message(&stream),
        Dialect::Responses => assembled::response(&stream),
        Dialect::Chat | Dialect::Embeddings => {
            let any = crate::stream::sampling::request("");
            let head = crate::stream::sampling::head("text/event-stream");
            decode_once("openai", &any, &head, stream.as_bytes()).answer().1
        }
    })
}

/// The value at a path.
fn at<'a>(json: &'a Json, path: &str) -> Option<&'a Json> {
    path.split('.').filter(|step| !step.is_empty()).try_fold(json, |json, step| match (json, step.split_once('#')) {
        (Json::Array(items), Some((kind, nth))) => {
            let of_kind = |item: &&Json| item.get("type").and_then(Json::as_str) == Some(kind);
            items.iter().filter(of_kind).nth(nth.parse().unwrap())
        }
        (Json::Array(items), None) => items.get(step.parse::<usize>().unwrap()),
        (object, _) => object.get_some(step),
    })
}

/// Whether the mark stands in the text; a number's digits end where it ends.
fn says(text: &str, mark: &str) -> bool {
    let digits = mark.starts_with(':');
    text.match_indices(mark)
        .any(|(at, _)| !digits || !text[at + mark.len()..].starts_with(|c: char| c.is_ascii_digit()))
}

fn text(json: &Json) -> String {
    String::from_utf8(json.to_bytes().to_vec()).unwrap()
}

fn found(place: Place, format: &str, seen: &Json) -> Cell {
    let is = |path: &str, value: &str| match at(seen, path).map(text) {
        Some(found) if found == value => Cell::Yes,
        found => Cell::Dropped(format!("{path} is {found:?}, not {value}, in {}", text(seen))),
    };
    match place {
        Is(path, value) => is(path, value),
        Holds(path, mark) => match at(seen, path).map(text) {
            Some(found) if found.contains(mark) => Cell::Yes,
            _ => Cell::Dropped(format!("{mark} is not in {path} of {}", text(seen))),
        },
        Sum(paths, value) => {
            let sum: u64 = paths.iter().filter_map(|path| at(seen, path)?.as_u64()).sum();
            if sum == value { Cell::Yes } else { Cell::Dropped(format!("{paths:?} are {sum} in {}", text(seen))) }
        }
        Sealed(formats, path, _) if formats.contains(&format) => is(path, SIGNATURE),
        Sealed(_, _, path) => match at(seen, path).and_then(Json::as_str) {
            Some(sealed) if sealed.starts_with("interlock:") && sealed.contains(SIGNATURE) => Cell::Yes,
            found => Cell::Dropped(format!("{path} is {found:?} in {}", text(seen))),
        },
        NoPlace(name, _) => Cell::Refused(name.to_owned()),
    }
}

impl Said {
    fn place(&self, dialect: Dialect) -> Place {
        match dialect {
            Dialect::Messages => self.messages,
            Dialect::Responses => self.responses,
            Dialect::Chat | Dialect::Embeddings => self.chat,
        }
    }

    fn cell(&self, dialect: Dialect, format: &str, sample: Option<Sample>, streamed: bool) -> Cell {
        let Some(sample) = sample.filter(|sample| says(&String::from_utf8_lossy(&sample.body), self.mark)) else {
            return Cell::NotApplicable;
        };
        match client(dialect, format, &sample, streamed) {
            Ok(seen) => found(self.place(dialect), format, &seen),
            Err(why) => Cell::Dropped(why),
        }
    }
}

/// Title, table and totals of each dialect, whole and streamed.
pub(super) fn tables() -> Vec<(String, String, Totals)> {
    let formats = formats();
    let mut tables = Vec::new();
    for (dialect, title, _) in DIALECTS {
        for (streamed, delivery) in [(false, "whole"), (true, "streamed")] {
            let (mut totals, mut table) = (Totals::default(), head(&formats));
            let mut row = |name: &str, cell: &dyn Fn(&str) -> Cell| {
                let cells = formats
                    .iter()
                    .map(|format| totals.add(&format!("{format}, {name}, as {title}, {delivery}"), cell(format)));
                table.push_str(&format!("| {name} | {} |\n", cells.collect::<Vec<_>>().join(" | ")));
            };
            for said in FULL {
                let sample = |format: &str| Some(samples::full(format, streamed));
                row(said.name, &|format| said.cell(dialect, format, sample(format), streamed));
            }
            for said in ENDS {
                let sample = |format: &str| samples::ending(format, said.name, streamed);
                row(&format!("end: {}", said.name), &|format| said.cell(dialect, format, sample(format), streamed));
            }
            tables.push((format!("{title}, answers {delivery}"), table, totals));
        }
    }
    tables
}

/// Why a dialect has no place for something.
pub(super) fn reasons() -> String {
    let mut reasons: Vec<String> = Vec::new();
    for said in FULL.iter().chain(ENDS) {
        for (dialect, title, _) in DIALECTS {
            let reason = match said.place(dialect) {
                NoPlace(name, reason) => format!("- {title}, `{name}`: {reason}.\n"),
                _ => continue,
            };
            reasons.push(reason);
        }
    }
    format!("Without a place:\n\n{}", reasons.concat())
}
