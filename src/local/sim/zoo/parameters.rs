//! Parameters that are taken and not honoured, and finish reasons that are not true.

use serde_json::Value;

use super::rewrite::{finish, without};
use super::{Act, BOTH, Expect, Misbehaviour, OPENAI, ROUND_TRIP};
use crate::local::sim::model::{Ask, End, Format, Reply, ToolChoice};
use contracts::Kind;

const fn row(name: &'static str, does: &'static str, source: &'static str, acts: &'static [Act]) -> Misbehaviour {
    Misbehaviour::new(name, does, source, ROUND_TRIP, BOTH, acts)
}

pub(super) const ROWS: &[Misbehaviour] = &[
    Misbehaviour::new(
        "drops-temperature",
        "takes any temperature and does not look at it",
        "compatible servers with a fixed sampler",
        Expect::Unseen(Kind::RoundTrip, "at temperature 0 an answer looks the same whether it was honoured or dropped"),
        BOTH,
        &[Act::Body(|body| without(body, &["temperature", "top_p"]))],
    ),
    row("drops-stop", "does not stop at stop strings", "B040", &[Act::Ask(|ask, _| ask.stops.clear())]),
    row("keeps-the-stop-string", "stops, and leaves the stop string in the text", "B040", &[Act::Reply(keeps_stop)]),
    row(
        "stops-at-any-dot",
        "stops at a stop string of its own",
        "server-side default stop strings",
        &[Act::Reply(stops_at_blank)],
    ),
    row("drops-max-tokens", "answers at any length", "B026", &[Act::Ask(|ask, _| ask.limit = None)]),
    row(
        "halves-max-tokens",
        "cuts at half of the limit",
        "B027",
        &[Act::Ask(|ask, _| {
            ask.limit = ask.limit.map(|limit| limit.div_ceil(2));
        })],
    ),
    Misbehaviour::new(
        "drops-n",
        "makes one choice whatever n says",
        "B030",
        ROUND_TRIP,
        OPENAI,
        &[Act::Ask(|ask, _| {
            ask.choices = 1;
        })],
    ),
    Misbehaviour::new(
        "two-choices-for-one",
        "makes two choices where one is asked for",
        "B030",
        ROUND_TRIP,
        OPENAI,
        &[Act::Ask(|ask, _| ask.choices = ask.choices.max(2))],
    ),
    Misbehaviour::new(
        "drops-seed",
        "does not look at the seed",
        "best-effort determinism",
        ROUND_TRIP,
        OPENAI,
        &[Act::Ask(|ask, _| ask.seed = None), Act::Noisy],
    ),
    row(
        "drops-response-format",
        "does not look at response_format",
        "B049",
        &[Act::Ask(|ask, _| {
            ask.format = Format::Text;
        })],
    ),
    row("json-object-for-a-schema", "takes a schema for the wish to have any object", "B049", &[Act::Ask(any_object)]),
    row("drops-tools", "does not look at tools", "B053", &[Act::Ask(no_tools)]),
    row(
        "drops-tool-choice",
        "calls tools when it likes",
        "compatible servers without forced calls",
        &[Act::Ask(|ask, _| ask.choice = ToolChoice::Forbidden)],
    ),
    row(
        "finish-always-stop",
        "always says that the model came to its end",
        "B051",
        &[Act::Answer(|answer, wire| {
            finish(answer, wire, "stop", "end_turn");
        })],
    ),
    row(
        "finish-always-length",
        "always says that the limit was reached",
        "B025",
        &[Act::Answer(|answer, wire| {
            finish(answer, wire, "length", "max_tokens");
        })],
    ),
    row(
        "finish-unknown-word",
        "ends with a word that the protocol does not know",
        "B025",
        &[Act::Answer(|answer, wire| finish(answer, wire, "eos_token", "eos_token"))],
    ),
    row("finish-null", "says nothing about why it ended", "B021", &[Act::Answer(no_finish)]),
];

fn keeps_stop(reply: &mut Reply, _: &Ask, _: &super::Memory) {
    if let End::Stop(stop) = &reply.end {
        reply.text.push_str(stop);
    }
}

/// Ends before the third word.
fn stops_at_blank(reply: &mut Reply, _: &Ask, _: &super::Memory) {
    if !reply.structured && reply.calls.is_empty() {
        reply.text = reply.text.split_inclusive(' ').take(2).collect::<String>().trim_end().to_owned();
        reply.end = End::Natural;
    }
}

fn any_object(ask: &mut Ask, _: &super::Memory) {
    if let Format::Schema(_) = ask.format {
        ask.format = Format::AnyObject;
    }
}

fn no_tools(ask: &mut Ask, _: &super::Memory) {
    ask.tools.clear();
    ask.choice = ToolChoice::Auto;
}

fn no_finish(answer: &mut Value, wire: crate::local::sim::Wire) {
    finish(answer, wire, "", "");
    each_null(answer, wire);
}

fn each_null(answer: &mut Value, wire: crate::local::sim::Wire) {
    match wire {
        crate::local::sim::Wire::OpenAiChat => {
            for choice in answer.get_mut("choices").and_then(Value::as_array_mut).into_iter().flatten() {
                choice["finish_reason"] = Value::Null;
            }
        }
        crate::local::sim::Wire::AnthropicMessages => answer["stop_reason"] = Value::Null,
        crate::local::sim::Wire::Gemini => {
            for candidate in super::rewrite::candidates(answer) {
                candidate["finishReason"] = Value::Null;
            }
        }
    }
}
