//! One promise with one verdict: the table of all checks, what each promises, and how a result is written down.
//!
//! A check that could not be made is `skipped` with its reason, never `passed`. Details hold short bounded excerpts,
//! never a whole prompt or answer.

use serde::Serialize;

use crate::sampling::Sample;

/// The three kinds that a permit needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    Schema,
    Tokenizer,
    RoundTrip,
}

impl Kind {
    pub const ALL: [Kind; 3] = [Kind::Schema, Kind::Tokenizer, Kind::RoundTrip];

    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Schema => "schema",
            Kind::Tokenizer => "tokenizer",
            Kind::RoundTrip => "round_trip",
        }
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Passed,
    Failed,
    /// Not judged, for the reason in the detail.
    Skipped,
}

impl Verdict {
    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::Passed => "passed",
            Verdict::Failed => "failed",
            Verdict::Skipped => "skipped",
        }
    }
}

/// One verdict. `case` is the suite's case, or `suite` where the check is about the provider as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CheckResult {
    pub kind: Kind,
    pub name: &'static str,
    pub case: String,
    pub verdict: Verdict,
    pub detail: String,
    /// Of how many repeats this is the sum, where there were repeats.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample: Option<Sample>,
}

impl CheckResult {
    /// Says of how many repeats this is the sum, and what so many can tell of the rate that is wanted. Not even the
    /// longest detail pushes that out.
    pub(crate) fn sampled(mut self, sample: Sample, bound: f64) -> Self {
        // Against a bound of 100 % the numbers speak for themselves.
        let tail = match bound < 1.0 {
            true => format!("{}: {}", sample.words(), sample.against(bound)),
            false => sample.words(),
        };
        self.detail = match self.detail.is_empty() {
            true => tail,
            false => format!("{} ({tail})", cut(&self.detail, DETAIL_LIMIT.saturating_sub(tail.chars().count() + 3))),
        };
        self.sample = Some(sample);
        self
    }
}

/// The name that stands for "no case in particular".
pub const WHOLE_SUITE: &str = "suite";

/// A row of the table of checks.
#[derive(Debug, Clone, Copy)]
pub struct CheckInfo {
    pub kind: Kind,
    pub name: &'static str,
    /// What the provider promises by passing.
    pub promise: &'static str,
    /// A core check cannot be skipped by a suite's wish, and a run in which it was not judged has not passed.
    pub core: bool,
}

impl CheckInfo {
    const fn new(kind: Kind, name: &'static str, core: bool, promise: &'static str) -> Self {
        CheckInfo { kind, name, promise, core }
    }

    pub(crate) fn result(&self, case: &str, verdict: Verdict, detail: impl AsRef<str>) -> CheckResult {
        CheckResult {
            kind: self.kind,
            name: self.name,
            case: case.to_owned(),
            verdict,
            detail: bounded(detail.as_ref()),
            sample: None,
        }
    }

    pub(crate) fn passed(&self, case: &str, detail: impl AsRef<str>) -> CheckResult {
        self.result(case, Verdict::Passed, detail)
    }

    pub(crate) fn failed(&self, case: &str, detail: impl AsRef<str>) -> CheckResult {
        self.result(case, Verdict::Failed, detail)
    }

    pub(crate) fn skipped(&self, case: &str, detail: impl AsRef<str>) -> CheckResult {
        self.result(case, Verdict::Skipped, detail)
    }
}

macro_rules! checks {
    ($($id:ident = $kind:ident / $name:literal, $core:literal, $promise:literal;)*) => {
        $(pub const $id: CheckInfo = CheckInfo::new(Kind::$kind, $name, $core, $promise);)*
        /// Every check there is, in the order of the report.
        pub const CHECKS: &[CheckInfo] = &[$($id),*];
    };
}

checks! {
    ANSWERED = Schema / "answered", true, "every call of every case gets an answer";
    NOT_REFUSED = Schema / "not_refused", true, "the model does not decline the consumer's ordinary input";
    NOT_TRUNCATED = Schema / "not_truncated", true, "the answer is whole by its finish reason, whether or not it parses";
    NOT_WRAPPED = Schema / "not_fenced_or_wrapped", true, "no markdown fence and no prose around the JSON";
    PARSES = Schema / "parses", true, "the whole text, first byte to last, is one JSON value";
    NO_UNKNOWN_KEYS = Schema / "no_unknown_keys", false, "no top-level key beyond the contract's";
    VALID = Schema / "valid", true, "the answer validates against the contract's JSON Schema";
    MEANING = Schema / "meaning", false, "the values mean what the consumer expects of this input";
    PROGRAM = Schema / "program", false, "the consumer's own program understands the answer";
    KEYWORDS = Schema / "keywords_honoured", false, "each keyword of the schema binds: an answer that only it forbids does not come";

    KNOWN_TOKENIZER = Tokenizer / "unknown_tokenizer", true, "somebody besides the bill can count this model's tokens";
    WINDOW_FIT = Tokenizer / "window_fit", false, "the prompt and the answer's room fit the window";
    COUNT_AGREEMENT = Tokenizer / "count_agreement", true, "our count, the provider's count and the bill agree";
    TEXT_FIDELITY = Tokenizer / "text_fidelity", false, "text survives encode and decode";
    SILENT_CUT = Tokenizer / "no_silent_cut", false, "a prompt just beyond the window is refused or read whole, never cut";
    TEMPLATE = Tokenizer / "template_faithful", false, "the chat template keeps the system prompt, the order and the roles";
    CONTROL_LITERALS = Tokenizer / "control_literals", false, "control-token literals in user text stay text";
    USAGE_PLAUSIBLE = Tokenizer / "usage_plausible", true, "the billed tokens are possible for what was sent and got";

    REACHABLE = RoundTrip / "reachable", true, "every call can be made or was recorded, and comes to an end";
    SYSTEM_MARKER = RoundTrip / "system_marker", false, "an instruction in the system prompt is obeyed";
    LATE_SYSTEM = RoundTrip / "late_system_marker", false, "a system message within the conversation is obeyed";
    ASSISTANT_ECHO = RoundTrip / "assistant_echo", false, "the assistant's earlier turn is still there";
    UNICODE = RoundTrip / "user_echo_unicode", false, "unicode in user text comes back unharmed";
    EXACT_TEXT = RoundTrip / "user_echo_exact", false, "nothing of user text is normalised, stripped or unescaped on its way";
    STREAM = RoundTrip / "stream_agrees", false, "a streamed answer is the answer that comes whole";
    MAX_TOKENS = RoundTrip / "max_tokens_honoured", true, "max_tokens cuts the answer and the finish reason says so";
    STOP = RoundTrip / "stop_honoured", false, "a stop string ends the answer and is not part of it";
    RESPONSE_FORMAT = RoundTrip / "response_format_honoured", false, "response_format binds without being asked for in words";
    TOOLS = RoundTrip / "tools_honoured", false, "a forced tool call comes back with readable arguments, a forbidden one does not";
    PARALLEL_TOOLS = RoundTrip / "parallel_tools", false, "two calls of one tool come back apart, each with an id of its own";
    TOOLS_EMPTY = RoundTrip / "tools_empty_arguments", false, "a call without arguments holds an empty object";
    TOOLS_EXACT = RoundTrip / "tools_exact_numbers", false, "an integer of 19 digits comes back digit for digit";
    TOOL_HISTORY = RoundTrip / "tool_history", false, "earlier calls and their results are taken and read";
    TEMPERATURE = RoundTrip / "temperature_accepted", false, "temperature is taken";
    TOP_P = RoundTrip / "top_p_accepted", false, "top_p is taken";
    SEED = RoundTrip / "seed_honoured", false, "the same seed gives the same answer";
    CHOICES = RoundTrip / "n_honoured", false, "as many choices come back as were asked for";
    MODEL_NAMED = RoundTrip / "model_named", false, "the answer comes from the model that was asked for";
    USAGE_PRESENT = RoundTrip / "usage_present", true, "every answer states its usage";
    FINISH_REASON = RoundTrip / "finish_reason", true, "the finish reason is true to what happened";
    BAD_MODEL = RoundTrip / "error_bad_model", false, "a model that does not exist is refused, not answered";
    TOO_LONG = RoundTrip / "error_too_long", false, "a prompt beyond the window is refused, not cut silently";
    BAD_TOOL = RoundTrip / "error_bad_tool_schema", false, "a tool whose schema is none is refused, not answered";
    LONG_INPUT = RoundTrip / "long_input", false, "neither the head nor the end of a long prompt is cut off";
}

/// The row of a check, by its name.
pub fn named(name: &str) -> Option<&'static CheckInfo> {
    CHECKS.iter().find(|c| c.name == name)
}

/// The longest detail, in characters.
pub const DETAIL_LIMIT: usize = 300;

/// Of a program's words, so many characters are shown: they and the interval behind them fit into a detail.
const PROGRAM_WORDS: usize = 120;

/// Foreign text for a detail: control characters escaped, cut with a mark.
pub(crate) fn bounded(text: &str) -> String {
    cut(&providers::failure::clean(text).replace('\n', " "), DETAIL_LIMIT)
}

/// A short excerpt of a model's output, quoted.
pub(crate) fn excerpt(text: &str) -> String {
    format!("“{}”", cut(&providers::failure::clean(text).replace('\n', "\\n"), 60))
}

/// The end of what a program said, quoted.
pub(crate) fn excerpt_of_end(text: &str) -> String {
    let text = providers::failure::clean(text).replace('\n', "\\n");
    let over = text.chars().count().saturating_sub(PROGRAM_WORDS);
    let mark = if over > 0 { "…" } else { "" };
    format!("“{mark}{}”", text.chars().skip(over).collect::<String>())
}

fn cut(text: &str, limit: usize) -> String {
    if text.chars().count() <= limit {
        return text.to_owned();
    }
    let mut out: String = text.chars().take(limit - 1).collect();
    out.push('…');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_check_has_a_name_of_its_own_and_every_kind_has_a_core() {
        for (i, a) in CHECKS.iter().enumerate() {
            assert!(CHECKS[i + 1..].iter().all(|b| b.name != a.name), "{} stands twice", a.name);
        }
        for kind in Kind::ALL {
            assert!(CHECKS.iter().any(|c| c.kind == kind && c.core), "{kind} has no core check");
        }
    }

    #[test]
    fn a_detail_is_bounded_and_has_no_control_characters() {
        let text = bounded(&"a\u{0}\u{202e}é".repeat(200));
        assert_eq!(text.chars().count(), DETAIL_LIMIT);
        assert!(!text.contains('\u{0}') && !text.contains('\u{202e}'));
    }
}
