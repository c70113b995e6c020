//! The calls that a run makes: which body under which name, and what each is for.
//!
//! Deterministic: the same suite and target always plan the same calls, so that recordings have stable names. Nothing
//! is judged here.

mod body;
mod conversation;
mod texts;

use providers::json::{Json, Number, Object};

use crate::check::{self, CheckInfo, WHOLE_SUITE};
use crate::schema;
use crate::suite::{ResponseFormat, Suite};
use crate::upstream::{Call, CallKey};

pub(crate) use conversation::arguments;
use texts::Place;
pub(crate) use texts::{ALTERATIONS, EXACT, EXACT_TOO, echoed, exact_text, exactly, halves, marker, numerals, unicode};

/// The suite's own call: what the consumer will send.
pub(crate) const OUTPUT: &str = "output";
/// A case's messages without schema and tools, which no local counter can count.
pub(crate) const PLAIN: &str = "plain";
pub(crate) const SYSTEM_MARKER: &str = "system_marker";
pub(crate) const LATE_SYSTEM: &str = "late_system";
pub(crate) const ASSISTANT_ECHO: &str = "assistant_echo";
pub(crate) const UNICODE: &str = "unicode";
/// A text in which each word shows another alteration.
pub(crate) const EXACT_TEXT: &str = "exact_text";
/// A text with a NUL in its middle.
pub(crate) const NUL: &str = "nul";
/// The unicode probe, streamed.
pub(crate) const STREAM: &str = "stream";
/// Two tool calls at once, streamed.
pub(crate) const STREAM_TOOLS: &str = "stream_tools";
/// The first case's own call, streamed.
pub(crate) const STREAM_OUTPUT: &str = "stream_output";
pub(crate) const MAX_TOKENS: &str = "max_tokens";
pub(crate) const STOP: &str = "stop";
pub(crate) const RESPONSE_FORMAT: &str = "response_format";
pub(crate) const TOOLS: &str = "tools";
/// Tools are there, and must not be called.
pub(crate) const TOOLS_NONE: &str = "tools_none";
pub(crate) const PARALLEL_TOOLS: &str = "parallel_tools";
pub(crate) const TOOLS_EMPTY: &str = "tools_empty";
pub(crate) const TOOLS_EXACT: &str = "tools_exact";
pub(crate) const TOOL_HISTORY: &str = "tool_history";
pub(crate) const BAD_TOOL: &str = "bad_tool_schema";
pub(crate) const BAD_TEMPERATURE: &str = "bad_temperature";
pub(crate) const BAD_TOP_P: &str = "bad_top_p";
/// Twice the same seed, then another.
pub(crate) const SEEDS: [&str; 3] = ["seed_a", "seed_b", "seed_other"];
pub(crate) const CHOICES: &str = "n";
pub(crate) const BAD_MODEL: &str = "bad_model";
/// What is asked for stands at the head, in the middle or at the end of the padding.
pub(crate) const TOO_LONG: &str = "too_long";
pub(crate) const TOO_LONG_MIDDLE: &str = "too_long_middle";
pub(crate) const TOO_LONG_END: &str = "too_long_end";
pub(crate) const LONG_INPUT: &str = "long_input";
pub(crate) const LONG_INPUT_END: &str = "long_input_end";
/// Control-token literals of four families, each with a harmless text of the same shape.
pub(crate) const LITERALS: [(&str, &str); 4] = [
    ("literals_chatml", "harmless_chatml"),
    ("literals_llama", "harmless_llama"),
    ("literals_bracket", "harmless_bracket"),
    ("literals_wide", "harmless_wide"),
];

/// A forged turn that asks for something else, and the same text with broken marks.
pub(crate) const FORGED: (&str, &str) = ("literals_forged", "harmless_forged");
/// What the forged turn asks for.
pub(crate) const FORGED_ANSWER: &str = "literals_forged_answer";
/// A literal that is to be repeated, and the same with broken marks.
pub(crate) const ECHOED: (&str, &str) = ("literals_echo", "harmless_echo");

/// The output limit of the cut-off probe.
pub(crate) const SMALL_LIMIT: u64 = 16;
/// Room for a marker to come back.
const MARKER_LIMIT: u64 = 64;
/// A window above this is too dear to overflow on purpose.
pub(crate) const CHEAP_WINDOW: u64 = 16_384;
const LONG_INPUT_BYTES: usize = 100_000;
const BAD_MODEL_NAME: &str = "interlock-no-such-model-7q";
/// The tool that takes nothing.
pub(crate) const PING: &str = "interlock_ping";

/// One planned call.
#[derive(Debug, Clone)]
pub(crate) struct Probe {
    pub call: Call,
    /// Whether the provider's own count of the prompt is wanted too.
    pub count: bool,
}

/// Every call of a run, the suite's own first: a provider that cannot be reached is found at once.
pub(crate) fn plan(suite: &Suite, model: &str) -> Vec<Probe> {
    let planner = Planner { suite, model };
    let mut probes = Vec::new();
    for case in &suite.cases {
        for repeat in 1..=suite.repeats {
            let body = planner.output(case);
            probes.push(planner.probe(&case.name, OUTPUT, repeat, body, repeat == 1));
        }
    }
    let structured = suite.parameters.response_format != ResponseFormat::None || !suite.parameters.tools.is_empty();
    if structured {
        for case in suite.cases.iter().take(3) {
            let body = planner.case_body(case, SMALL_LIMIT);
            probes.push(planner.probe(&case.name, PLAIN, 1, body, true));
        }
    }
    let groups = [
        planner.of_roles(),
        planner.of_streams(),
        planner.of_parameters(),
        planner.of_schema(),
        planner.of_tools(),
        planner.of_tokens(),
        planner.of_errors(),
    ];
    for (check, name, body, count) in groups.into_iter().flatten() {
        if !suite.skip.contains_key(check.name) {
            let mut probe = planner.probe(WHOLE_SUITE, name, 1, body, count);
            probe.call.model = (name == BAD_MODEL).then(|| BAD_MODEL_NAME.to_owned());
            probes.push(probe);
        }
    }
    probes
}

/// Calls that a run makes, counts included, at most.
pub(crate) fn estimated_calls(suite: &Suite) -> usize {
    plan(suite, "").iter().map(|p| 1 + usize::from(p.count)).sum()
}

/// The prompt that shows what a chat template keeps: a marker in each of four turns.
pub(crate) fn template_call(suite: &Suite, model: &str) -> Call {
    let turns = TEMPLATE_ROLES.iter().zip(template_markers(suite));
    let messages = turns.map(|(role, marker)| body::message(role, &marker)).collect();
    let body = Planner { suite, model }.conversation(messages, SMALL_LIMIT);
    Call { key: CallKey { case: WHOLE_SUITE.to_owned(), probe: "template", repeat: 1 }, body, model: None }
}

pub(crate) const TEMPLATE_ROLES: [&str; 4] = ["system", "user", "assistant", "user"];

pub(crate) fn template_markers(suite: &Suite) -> [String; 4] {
    ["template_system", "template_user", "template_assistant", "template_last"].map(|turn| marker(&suite.name, turn))
}

/// A call that a check wants: for which check, its name, its body, and whether its prompt is to be counted.
type Wanted = (&'static CheckInfo, &'static str, Object, bool);

struct Planner<'a> {
    suite: &'a Suite,
    model: &'a str,
}

impl Planner<'_> {
    fn probe(&self, case: &str, probe: &'static str, repeat: u32, body: Object, count: bool) -> Probe {
        Probe { call: Call { key: CallKey { case: case.to_owned(), probe, repeat }, body, model: None }, count }
    }

    /// A body that asks for one text, word for word.
    fn told(&self, what: &str, limit: u64) -> Object {
        self.body(None, &exactly(what), limit)
    }

    fn of_roles(&self) -> Vec<Wanted> {
        let told = exactly(&marker(&self.suite.name, SYSTEM_MARKER));
        vec![
            (&check::SYSTEM_MARKER, SYSTEM_MARKER, self.body(Some(&told), "Go ahead.", MARKER_LIMIT), false),
            (&check::LATE_SYSTEM, LATE_SYSTEM, self.late_system(), false),
            (&check::ASSISTANT_ECHO, ASSISTANT_ECHO, self.assistant_echo(), false),
            (&check::UNICODE, UNICODE, self.told(&unicode(&self.suite.name), MARKER_LIMIT), false),
            (&check::EXACT_TEXT, EXACT_TEXT, self.told(&exact_text(&self.suite.name), MARKER_LIMIT), false),
            (&check::EXACT_TEXT, NUL, self.told(&halves(&self.suite.name).join("\0"), MARKER_LIMIT), false),
        ]
    }

    fn of_streams(&self) -> Vec<Wanted> {
        let streamed = |mut body: Object| {
            body.insert("stream", true);
            body
        };
        let echo = self.told(&unicode(&self.suite.name), MARKER_LIMIT);
        let mut wanted = vec![(&check::STREAM, STREAM, streamed(echo), false)];
        if let Some(case) = self.suite.cases.first() {
            wanted.push((&check::STREAM, STREAM_OUTPUT, streamed(self.output(case)), false));
        }
        let tool = self.suite.parameters.tools.first();
        if let Some(body) = tool.and_then(|tool| self.exact_calls(tool, &[EXACT, EXACT_TOO])) {
            wanted.push((&check::STREAM, STREAM_TOOLS, streamed(body), false));
        }
        wanted
    }

    fn of_parameters(&self) -> Vec<Wanted> {
        let p = &self.suite.parameters;
        let impossible = |name: &str, value: u64| {
            let mut body = self.body(None, "Hello.", SMALL_LIMIT);
            body.insert(name, Number::from_u64(value));
            body
        };
        let mut wanted: Vec<Wanted> = vec![
            (&check::MAX_TOKENS, MAX_TOKENS, self.told(&numerals(), SMALL_LIMIT), false),
            (&check::TEMPERATURE, BAD_TEMPERATURE, impossible("temperature", 9), false),
        ];
        if p.top_p.is_some() {
            wanted.push((&check::TOP_P, BAD_TOP_P, impossible("top_p", 7), false));
        }
        if let Some(stop) = p.stop.first() {
            let mut body = self.told(&format!("alpha beta {stop} gamma"), MARKER_LIMIT);
            body.insert("stop", body::stops(p));
            wanted.push((&check::STOP, STOP, body, false));
        }
        if let Some(seed) = p.seed {
            for (name, seed) in SEEDS.into_iter().zip([seed, seed, seed ^ 1]) {
                let mut body = self.body(None, "Write twelve random words.", MARKER_LIMIT);
                body.insert("temperature", Number::from_u64(1));
                body.insert("seed", Number::from_u64(seed));
                wanted.push((&check::SEED, name, body, false));
            }
        }
        if let Some(n) = p.n {
            let mut body = self.body(None, "Say hello to Ada.", SMALL_LIMIT);
            body.insert("n", Number::from_u64(n));
            wanted.push((&check::CHOICES, CHOICES, body, false));
        }
        wanted
    }

    fn of_schema(&self) -> Vec<Wanted> {
        let p = &self.suite.parameters;
        if p.response_format == ResponseFormat::None {
            return Vec::new();
        }
        let bound = |user: &str| {
            let mut body = self.body(None, user, p.max_tokens);
            body.insert("response_format", self.response_format());
            body
        };
        // JSON is not asked for in words: only the parameter can make it come back. (json_object needs the word.)
        let mut wanted: Vec<Wanted> =
            vec![(&check::RESPONSE_FORMAT, RESPONSE_FORMAT, bound(&self.neutral_prompt()), false)];
        for (name, answer) in schema::asked_for(self.suite) {
            wanted.push((&check::KEYWORDS, name, bound(&exactly(&answer)), false));
        }
        wanted
    }

    fn of_tools(&self) -> Vec<Wanted> {
        let p = &self.suite.parameters;
        let Some(first) = p.tools.first() else { return Vec::new() };
        let mut body = self.body(None, "Use the tool once, with any fitting values.", p.max_tokens);
        let mut forbidden = body.clone();
        self.put_tools(&mut body, true);
        self.put_tools(&mut forbidden, false);
        forbidden.insert("tool_choice", "none");
        let mut wanted: Vec<Wanted> = vec![
            (&check::TOOLS, TOOLS, body, false),
            (&check::TOOLS, TOOLS_NONE, forbidden, false),
            (&check::TOOLS_EMPTY, TOOLS_EMPTY, self.ping(), false),
            (&check::TOOL_HISTORY, TOOL_HISTORY, self.tool_history(first), false),
            (&check::BAD_TOOL, BAD_TOOL, self.bad_tool(first), false),
        ];
        if let Some(body) = self.exact_calls(first, &[EXACT]) {
            wanted.push((&check::TOOLS_EXACT, TOOLS_EXACT, body, false));
        }
        if let Some(body) = self.exact_calls(first, &[EXACT, EXACT_TOO]) {
            wanted.push((&check::PARALLEL_TOOLS, PARALLEL_TOOLS, body, false));
        }
        wanted
    }

    fn of_tokens(&self) -> Vec<Wanted> {
        let name = &self.suite.name;
        let mut wanted: Vec<Wanted> = Vec::new();
        for (hostile, harmless) in LITERALS.into_iter().chain([FORGED, ECHOED]) {
            let (attack, same) = (texts::literals(name, hostile), texts::defused(name, hostile));
            // An echo is too short for its tokens to say something.
            let count = hostile != ECHOED.0;
            wanted.push((&check::CONTROL_LITERALS, hostile, self.body(None, &attack, MARKER_LIMIT), count));
            wanted.push((&check::CONTROL_LITERALS, harmless, self.body(None, &same, MARKER_LIMIT), count));
        }
        wanted
    }

    fn of_errors(&self) -> Vec<Wanted> {
        let name = &self.suite.name;
        let window = self.suite.tokenizer.window;
        let room = window.map_or(LONG_INPUT_BYTES, |w| {
            usize::try_from(w.saturating_sub(MARKER_LIMIT + 64)).unwrap_or(usize::MAX).saturating_mul(3)
        });
        let bytes = room.min(LONG_INPUT_BYTES);
        let long =
            |probe: &str, place| self.body(None, &texts::padded(&marker(name, probe), bytes, place), MARKER_LIMIT);
        let mut wanted: Vec<Wanted> = vec![
            (&check::LONG_INPUT, LONG_INPUT, long(LONG_INPUT, Place::Head), true),
            (&check::LONG_INPUT, LONG_INPUT_END, long(LONG_INPUT_END, Place::End), false),
        ];
        if let Some(window) = window.filter(|w| *w <= CHEAP_WINDOW) {
            // The first is needed by either of two checks.
            let first = match self.suite.skip.contains_key(check::TOO_LONG.name) {
                true => &check::SILENT_CUT,
                false => &check::TOO_LONG,
            };
            let places = [
                (first, TOO_LONG, Place::Head),
                (&check::SILENT_CUT, TOO_LONG_MIDDLE, Place::Middle),
                (&check::SILENT_CUT, TOO_LONG_END, Place::End),
            ];
            for (check, probe, place) in places {
                let text = texts::too_long(&marker(name, probe), window, place);
                wanted.push((check, probe, self.body(None, &text, MARKER_LIMIT), false));
            }
        }
        wanted.push((&check::BAD_MODEL, BAD_MODEL, self.body(None, "Hello.", SMALL_LIMIT), false));
        wanted
    }
}

/// The `max_tokens` of a body.
pub(crate) fn limit_of(body: &Object) -> Option<u64> {
    body.get("max_tokens").and_then(Json::as_u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_is_the_same_in_every_run_and_differs_between_probes() {
        assert_eq!(marker("s", "a"), marker("s", "a"));
        assert_ne!(marker("s", "a"), marker("s", "b"));
    }

    #[test]
    fn the_harmless_text_is_as_long_as_the_hostile_one_and_holds_no_control_literal() {
        for (hostile, _) in LITERALS.into_iter().chain([FORGED, ECHOED]) {
            let (attack, same) = (texts::literals("s", hostile), texts::defused("s", hostile));
            assert_eq!(attack.chars().count(), same.chars().count());
            for mark in ["<|", "<｜", "[INST]", "[/INST]", "</s>", "<s>", "_of_turn>", "<eos>", "<bos>"] {
                assert!(!same.contains(mark), "{mark} in {same}");
            }
        }
    }

    #[test]
    fn the_plan_of_a_suite_is_the_same_each_time_and_its_names_are_unique() {
        let suite = Suite::embedded("support-triage").unwrap();
        let names: Vec<_> = plan(&suite, "m").iter().map(|p| p.call.key.to_string()).collect();
        assert_eq!(names, plan(&suite, "m").iter().map(|p| p.call.key.to_string()).collect::<Vec<_>>());
        let unique: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(unique.len(), names.len());
    }
}
