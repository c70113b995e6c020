//! Bills and counts that are wrong, missing or contradict each other.

use serde_json::{Value, json};

use super::{ANTHROPIC, Act, BOTH, Bill, Expect, Memory, Misbehaviour, OPENAI, ROUND_TRIP, TOKENIZER};
use crate::local::sim::Wire;
use contracts::Kind;

const fn row(name: &'static str, does: &'static str, source: &'static str, acts: &'static [Act]) -> Misbehaviour {
    Misbehaviour::new(name, does, source, TOKENIZER, BOTH, acts)
}

const fn counts(name: &'static str, does: &'static str, source: &'static str, acts: &'static [Act]) -> Misbehaviour {
    Misbehaviour::new(name, does, source, TOKENIZER, ANTHROPIC, acts)
}

/// Changes the usage of a whole answer.
macro_rules! usage {
    ($change:expr) => {
        &[Act::Answer(|answer, _| {
            if let Some(usage) = answer.get_mut("usage") {
                let change: fn(&mut Value) = $change;
                change(usage);
            }
        })]
    };
}

pub(super) const ROWS: &[Misbehaviour] = &[
    row(
        "bills-a-fifth-more",
        "bills a fifth more than it counts",
        "resellers with another tokenizer",
        &[Act::Bill(|bill, _| bill.prompt += bill.prompt.div_ceil(5) + 3)],
    ),
    row("bills-an-estimate", "bills an estimate that is a third off", "gateways that estimate", &[Act::Bill(estimate)]),
    row(
        "bills-a-hidden-prompt",
        "bills a system prompt of its own",
        "assistants sold as models",
        &[Act::Bill(|bill, _| bill.prompt += 420)],
    ),
    // Anthropic's protocol says so: there it is sound, and the adapter adds them up.
    Misbehaviour::new(
        "bills-uncached-only",
        "leaves cached tokens out of the input",
        "B068",
        TOKENIZER,
        OPENAI,
        &[Act::Bill(|bill, _| {
            bill.cached = bill.prompt / 2;
            bill.prompt -= bill.cached;
        })],
    ),
    row(
        "bills-the-session",
        "bills all prompts so far",
        "stateful servers",
        &[Act::Bill(|bill, memory| {
            bill.prompt *= usize::try_from(memory.calls()).unwrap_or(1).clamp(1, 8);
        })],
    ),
    row(
        "bills-in-blocks",
        "rounds the prompt up to blocks of 64 tokens",
        "cache-block accounting",
        &[Act::Bill(|bill, _| bill.prompt = bill.prompt.next_multiple_of(64))],
    ),
    row("bills-less-than-sent", "bills half of the prompt", "B068", &[Act::Bill(|bill, _| bill.prompt /= 2)]),
    row(
        "bills-one-output-token",
        "bills one token for any answer",
        "streams counted by events",
        &[Act::Bill(|bill, _| {
            bill.output = 1;
        })],
    ),
    row(
        "bills-output-thrice",
        "bills three times the tokens of the answer",
        "hidden reasoning that is not shown",
        &[Act::Bill(|bill, _| bill.output *= 3)],
    ),
    row(
        "more-cached-than-sent",
        "states more cached tokens than there were",
        "B068",
        usage!(|usage| {
            match usage.get("prompt_tokens").is_some() {
                true => usage["prompt_tokens_details"]["cached_tokens"] = json!(1_000_000),
                false => usage["cache_read_input_tokens"] = json!(1_000_000),
            }
        }),
    ),
    row("usage-zero", "states zeros", "compatible servers that do not count", &[Act::Bill(zero)]),
    Misbehaviour::new(
        "usage-total-differs",
        "states a total that is not the sum",
        "B031",
        Expect::Unseen(Kind::Tokenizer, "nothing is billed by the stated total, and the adapters do not read it"),
        OPENAI,
        usage!(|usage| usage["total_tokens"] = json!(usage["total_tokens"].as_u64().unwrap_or(0) + 977)),
    ),
    Misbehaviour::new("usage-absent", "states no usage", "B031", ROUND_TRIP, BOTH, &[Act::Answer(no_usage)]),
    Misbehaviour::new(
        "usage-null",
        "states null for the usage",
        "B031",
        ROUND_TRIP,
        BOTH,
        &[Act::Answer(|answer, _| answer["usage"] = Value::Null)],
    ),
    Misbehaviour::new(
        "usage-as-strings",
        "states numbers of tokens as strings",
        "B031",
        ROUND_TRIP,
        BOTH,
        usage!(|usage| strings(usage)),
    ),
    Misbehaviour::new(
        "usage-negative",
        "states a negative number of tokens",
        "B031",
        ROUND_TRIP,
        BOTH,
        usage!(|usage| {
            for name in ["prompt_tokens", "input_tokens"] {
                if let Some(number) = usage.get_mut(name) {
                    *number = json!(-1);
                }
            }
        }),
    ),
    counts(
        "counts-an-estimate",
        "counts by an estimate that is half off",
        "gateways that estimate",
        &[Act::Count(|tokens| tokens * 3 / 2 + 5)],
    ),
    counts(
        "counts-without-system",
        "leaves the system prompt out of its count",
        "B070",
        &[Act::CountBody(|body| {
            super::rewrite::without(body, &["system"]);
        })],
    ),
    counts(
        "counts-a-stub",
        "counts a generation stub of another template",
        "B070",
        &[Act::Count(|tokens| tokens + 60)],
    ),
    counts("counts-zero", "counts nothing", "stub endpoints", &[Act::Count(|_| 0)]),
    counts("no-count-endpoint", "has no count endpoint", "B063", &[Act::NoCount]),
];

fn estimate(bill: &mut Bill, _: &Memory) {
    bill.prompt = bill.prompt * 4 / 3 + 6;
    bill.output = bill.output * 4 / 3 + 6;
}

fn zero(bill: &mut Bill, _: &Memory) {
    *bill = Bill { prompt: 0, output: 0, cached: 0 };
}

fn no_usage(answer: &mut Value, _: Wire) {
    super::rewrite::without(answer, &["usage"]);
}

fn strings(usage: &mut Value) {
    for value in usage.as_object_mut().into_iter().flat_map(|usage| usage.values_mut()) {
        if value.is_number() {
            *value = Value::String(value.to_string());
        }
    }
}
