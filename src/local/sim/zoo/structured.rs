//! Structured output whose values are wrong: it may parse, and it does not fit or does not mean what it should.

use serde_json::{Map, Value, json};

use super::rewrite::{each, enums, objects, without_keywords, written};
use super::{Act, BOTH, Expect, Misbehaviour, SCHEMA};
use crate::local::sim::model::{Ask, Reply};
use contracts::Kind;

const fn row(name: &'static str, does: &'static str, source: &'static str, acts: &'static [Act]) -> Misbehaviour {
    Misbehaviour::new(name, does, source, SCHEMA, BOTH, acts)
}

pub(super) const ROWS: &[Misbehaviour] = &[
    row("adds-top-level-key", "adds a member that the schema does not name", "issue 4", &[Act::Reply(adds_key)]),
    row("wraps-in-properties", "wraps the object in a member `properties`", "B059", &[Act::Reply(wraps)]),
    row(
        "leaves-out-a-member",
        "leaves a required member out",
        "structured output without constraints",
        &[Act::Reply(leaves_out)],
    ),
    row("null-for-a-value", "writes null where a value is required", "B055", &[Act::Reply(null)]),
    row("numbers-as-strings", "writes numbers as strings", "D7", &[Act::Reply(numbers_as_strings)]),
    row("booleans-as-strings", "writes true and false as strings", "D7", &[Act::Reply(booleans_as_strings)]),
    row("big-integers-rounded", "sends whole numbers through a double", "B060", &[Act::Reply(rounds)]),
    row("enum-in-upper-case", "writes values of an enum in upper case", "B049", &[Act::Reply(upper_case)]),
    row("enum-outside-schema", "invents values beside the enum's", "B049", &[Act::Reply(outside)]),
    row(
        "enum-translated",
        "translates the values of an enum",
        "multilingual models without constraints",
        &[Act::Reply(translated)],
    ),
    row(
        "first-enum-value",
        "always picks the enum's first value",
        "valid JSON with the wrong meaning",
        &[Act::Reply(first_value)],
    ),
    row("swaps-members", "swaps the values of two members", "valid JSON with the wrong meaning", &[Act::Reply(swaps)]),
    row(
        "camel-case-names",
        "writes order_id as orderId",
        "gateways that convert naming conventions",
        &[Act::Reply(camel_case)],
    ),
    row("json-in-a-string", "encodes the answer twice", "double-encoded tool arguments", &[Act::Reply(twice_encoded)]),
    row(
        "list-around-object",
        "puts the object into a list",
        "structured output without constraints",
        &[Act::Reply(in_a_list)],
    ),
    row(
        "ignores-minimum",
        "ignores minimum, maximum and multipleOf",
        "OpenAI's list of unsupported keywords",
        &[Act::Ask(|ask, _| {
            without_keywords(ask, &["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"]);
        })],
    ),
    row(
        "ignores-pattern",
        "ignores pattern and format",
        "OpenAI's list of unsupported keywords",
        &[Act::Ask(|ask, _| without_keywords(ask, &["pattern", "format"]))],
    ),
    row(
        "ignores-max-items",
        "ignores minItems, maxItems and uniqueItems",
        "OpenAI's list of unsupported keywords",
        &[Act::Ask(|ask, _| without_keywords(ask, &["minItems", "maxItems", "uniqueItems"]))],
    ),
    row(
        "ignores-max-length",
        "ignores minLength and maxLength",
        "OpenAI's list of unsupported keywords",
        &[Act::Ask(|ask, _| without_keywords(ask, &["minLength", "maxLength"]))],
    ),
    row(
        "ignores-enum",
        "ignores enum and const",
        "B053",
        &[Act::Ask(|ask, _| {
            without_keywords(ask, &["enum", "const"]);
        })],
    ),
    row("stale-cached-answer", "answers every prompt with its first answer", "semantic caches", &[Act::Reply(stale)]),
    row(
        "previous-answer",
        "answers with the previous request's answer",
        "crossed streams of two sessions",
        &[Act::Reply(previous)],
    ),
    row(
        "one-in-four-is-prose",
        "writes prose instead of JSON every fourth time",
        "B044",
        &[Act::Reply(|reply, ask, memory| prose_every(reply, ask, memory.calls(), 4))],
    ),
    Misbehaviour::new(
        "one-in-fifty-is-prose",
        "writes prose instead of JSON every fiftieth time",
        "B044",
        Expect::Unseen(Kind::Schema, "a run of a dozen answers cannot show a rate of 2 %; watch live answers for it"),
        BOTH,
        &[Act::Reply(|reply, ask, memory| prose_every(reply, ask, memory.calls() + 1, 50))],
    ),
    Misbehaviour::new(
        "free-text-translated",
        "writes free text in another language",
        "multilingual models without constraints",
        Expect::Unseen(
            Kind::Schema,
            "no shipped suite says in which language free text must be: assert it, or a program",
        ),
        BOTH,
        &[Act::Reply(french)],
    ),
];

type Object = Map<String, Value>;

fn adds_key(reply: &mut Reply, ask: &Ask, _: &super::Memory) {
    objects(reply, ask, |object, _| drop(object.insert("confidence_note".to_owned(), json!("fairly sure"))));
}

fn wraps(reply: &mut Reply, ask: &Ask, _: &super::Memory) {
    objects(reply, ask, |object, _| {
        let inner = std::mem::take(object);
        object.insert("properties".to_owned(), Value::Object(inner));
    });
}

fn leaves_out(reply: &mut Reply, ask: &Ask, _: &super::Memory) {
    objects(reply, ask, |object, schema| {
        let last = schema["required"].as_array().and_then(|names| names.last()?.as_str());
        object.remove(last.unwrap_or_default());
    });
}

fn null(reply: &mut Reply, ask: &Ask, _: &super::Memory) {
    objects(reply, ask, |object, _| {
        if let Some(value) = object.values_mut().next_back() {
            *value = Value::Null;
        }
    });
}

fn numbers_as_strings(reply: &mut Reply, ask: &Ask, _: &super::Memory) {
    values(reply, ask, |value| {
        if value.is_number() {
            *value = Value::String(value.to_string());
        }
    });
}

fn booleans_as_strings(reply: &mut Reply, ask: &Ask, _: &super::Memory) {
    values(reply, ask, |value| {
        if value.is_boolean() {
            *value = Value::String(value.to_string());
        }
    });
}

fn rounds(reply: &mut Reply, ask: &Ask, _: &super::Memory) {
    values(reply, ask, |value| {
        if let Some(number) = value.as_u64() {
            *value = json!(number as f64 as u64);
        }
    });
}

fn values(reply: &mut Reply, ask: &Ask, change: impl Fn(&mut Value)) {
    objects(reply, ask, |object, _| object.values_mut().for_each(|value| each(value, &change)));
}

/// Changes each member that has an enum.
fn choices(reply: &mut Reply, ask: &Ask, change: impl Fn(&str, &[&str]) -> String) {
    objects(reply, ask, |object, schema| {
        for (name, values) in enums(schema) {
            if let Some(Value::String(value)) = object.get_mut(name) {
                *value = change(value, &values);
            }
        }
    });
}

fn upper_case(reply: &mut Reply, ask: &Ask, _: &super::Memory) {
    choices(reply, ask, |value, _| value.to_uppercase());
}

fn outside(reply: &mut Reply, ask: &Ask, _: &super::Memory) {
    choices(reply, ask, |value, _| format!("{value} matter"));
}

fn translated(reply: &mut Reply, ask: &Ask, _: &super::Memory) {
    choices(reply, ask, |value, _| format!("le {value}é"));
}

fn first_value(reply: &mut Reply, ask: &Ask, _: &super::Memory) {
    choices(reply, ask, |value, values| values.first().copied().unwrap_or(value).to_owned());
}

fn swaps(reply: &mut Reply, ask: &Ask, _: &super::Memory) {
    objects(reply, ask, |object: &mut Object, _| {
        let names: Vec<String> = object.iter().filter(|(_, v)| v.is_string()).map(|(name, _)| name.clone()).collect();
        if let [first, .., last] = names.as_slice() {
            let (a, b) = (object[first].clone(), object[last].clone());
            object.insert(first.clone(), b);
            object.insert(last.clone(), a);
        }
    });
}

fn camel_case(reply: &mut Reply, ask: &Ask, _: &super::Memory) {
    objects(reply, ask, |object, _| {
        let old = std::mem::take(object);
        object.extend(old.into_iter().map(|(name, value)| (camel(&name), value)));
    });
}

fn camel(name: &str) -> String {
    let mut parts = name.split('_');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |name, part| {
        let mut letters = part.chars();
        let head: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
        name + &head + letters.as_str()
    })
}

fn twice_encoded(reply: &mut Reply, ask: &Ask, _: &super::Memory) {
    written(reply, ask, |text| Value::String(text.to_owned()).to_string());
}

fn in_a_list(reply: &mut Reply, ask: &Ask, _: &super::Memory) {
    written(reply, ask, |text| format!("[{text}]"));
}

fn stale(reply: &mut Reply, _: &Ask, memory: &super::Memory) {
    if let Some(first) = memory.first().filter(|_| reply.structured || !reply.calls.is_empty()) {
        put(reply, first);
    }
}

fn previous(reply: &mut Reply, _: &Ask, memory: &super::Memory) {
    let own = reply.text.clone();
    let own = reply.calls.first().map_or(own, |call| call.arguments.clone());
    if let Some(previous) = memory.previous() {
        put(reply, previous);
    }
    memory.note(&own);
}

fn put(reply: &mut Reply, text: String) {
    match reply.calls.first_mut() {
        Some(call) => call.arguments = text,
        None => reply.text = text,
    }
}

fn prose_every(reply: &mut Reply, ask: &Ask, calls: u64, period: u64) {
    if calls.is_multiple_of(period) {
        written(reply, ask, |text| format!("Of course! The answer is {}.", text.replace(['{', '}', '"'], "")));
    }
}

fn french(reply: &mut Reply, ask: &Ask, _: &super::Memory) {
    objects(reply, ask, |object, schema| {
        let free = |name: &str| {
            let part = &schema["properties"][name];
            ["enum", "const", "pattern", "format"].iter().all(|key| part.get(key).is_none())
        };
        for (_, value) in object.iter_mut().filter(|(name, value)| value.is_string() && free(name)) {
            *value = json!("Le client a écrit au sujet de sa demande.");
        }
    });
}
