//! What the tokenizer shows of itself, ours or the provider's: whether text survives it, and what its chat template
//! makes of a conversation.

use providers::tokens::Counter as LocalCounter;

use super::Judge;
use crate::check::{self, CheckResult, WHOLE_SUITE, excerpt};
use crate::probe;
use crate::suite::Suite;
use crate::upstream::{Shown, Upstream};

/// Texts that a sloppy tokenizer loses something of: the name in reports, the name in recordings, the text.
const SAMPLES: [(&str, &str, &str); 9] = [
    ("ASCII", "ascii", "The invoice was charged twice."),
    ("emoji", "emoji", "🎉👩‍👩‍👧‍👦🇳🇴"),
    ("CJK", "cjk", "日本語のテキスト、中文、한국어"),
    ("combining marks", "combining", "e\u{301} n\u{303} Z\u{351}\u{36b}a\u{343}"),
    ("zero-width", "zero_width", "a\u{200b}b\u{200d}c\u{feff}d"),
    ("NUL", "nul", "a\u{0}b"),
    ("right to left", "right_to_left", "שלום مرحبا"),
    ("a long run", "long_run", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
    ("control literals", "literals", "<|im_end|><|endoftext|>"),
];

/// What the provider showed when it was asked. Nothing is asked for that our own tokenizer shows.
#[derive(Debug)]
pub(crate) struct Inspected {
    rendered: Shown<String>,
    /// What became of each of [`SAMPLES`].
    coded: Vec<Shown<String>>,
    /// Requests made.
    pub calls: u64,
}

impl Inspected {
    /// Nothing was asked.
    pub(crate) fn nothing() -> Self {
        Inspected { rendered: Shown::NoEndpoint, coded: Vec::new(), calls: 0 }
    }
}

pub(crate) async fn inspect<U: Upstream>(suite: &Suite, model: &str, upstream: &U) -> Inspected {
    let mut seen = Inspected::nothing();
    if !suite.skip.contains_key(check::TEMPLATE.name) {
        seen.rendered = upstream.render(&probe::template_call(suite, model)).await;
        seen.calls += u64::from(!matches!(seen.rendered, Shown::NoEndpoint));
    }
    if !suite.skip.contains_key(check::TEXT_FIDELITY.name) {
        for (_, name, text) in SAMPLES {
            let coded = upstream.code(name, text).await;
            if matches!(coded, Shown::NoEndpoint) {
                break;
            }
            seen.calls += 2;
            seen.coded.push(coded);
        }
    }
    seen
}

impl Judge<'_> {
    /// Ours and the provider's, whichever there is: both have to keep every text.
    pub(super) fn text_fidelity(&self) -> CheckResult {
        let row = &check::TEXT_FIDELITY;
        let mut who = Vec::new();
        if let Some(local) = self.local {
            if let Some((name, ..)) = SAMPLES.iter().find(|(_, _, text)| !local.round_trips(text)) {
                return row
                    .failed(WHOLE_SUITE, format!("{name} does not survive encode and decode ({})", local.name()));
            }
            who.push(local.name());
        }
        for ((name, _, text), coded) in SAMPLES.iter().zip(&self.inspected.coded) {
            match coded {
                Shown::Seen(back) if back == text => {}
                Shown::Seen(back) => {
                    let why = format!("{name} does not survive the provider's encode and decode: {}", excerpt(back));
                    return row.failed(WHOLE_SUITE, why);
                }
                Shown::NoEndpoint => return row.skipped(WHOLE_SUITE, "the provider encodes some texts and not others"),
                Shown::Failed(why) => return row.failed(WHOLE_SUITE, format!("{name}: {why}")),
                Shown::Nothing(observation) => return row.failed(WHOLE_SUITE, observation.trouble()),
            }
        }
        if !self.inspected.coded.is_empty() {
            who.push("the provider's tokenizer");
        }
        match who.is_empty() {
            true => row.skipped(WHOLE_SUITE, "no tokenizer of this model can be asked to encode and decode"),
            false => row.passed(WHOLE_SUITE, format!("{} kinds of text: {}", SAMPLES.len(), who.join(", "))),
        }
    }

    pub(super) fn template(&self, model: &str) -> CheckResult {
        let row = &check::TEMPLATE;
        let mut who = Vec::new();
        if let Some(rendered) = self.local.and_then(|local| rendered_here(self.suite, model, local)) {
            match rendered {
                Err(why) => return row.failed(WHOLE_SUITE, format!("our template refuses the conversation: {why}")),
                Ok(prompt) => {
                    if let Err(why) = faithful(self.suite, &prompt) {
                        return row.failed(WHOLE_SUITE, format!("our template: {why}"));
                    }
                }
            }
            who.push("our template");
        }
        match &self.inspected.rendered {
            Shown::Seen(prompt) => {
                if let Err(why) = faithful(self.suite, prompt) {
                    return row.failed(WHOLE_SUITE, format!("the provider's template: {why}"));
                }
                who.push("the provider's template");
            }
            Shown::NoEndpoint => {}
            Shown::Failed(why) => return row.failed(WHOLE_SUITE, why),
            Shown::Nothing(observation) => return row.failed(WHOLE_SUITE, observation.trouble()),
        }
        match who.is_empty() {
            true => row.skipped(WHOLE_SUITE, "nobody shows the chat template; the markers in each role stand for it"),
            false => row.passed(WHOLE_SUITE, format!("system prompt, order and roles stand: {}", who.join(", "))),
        }
    }
}

fn rendered_here(suite: &Suite, model: &str, local: &dyn LocalCounter) -> Option<Result<String, String>> {
    let request = providers::openai::request::parse(probe::template_call(suite, model).body).ok()?;
    local.render(&request)
}

/// Every turn once and in order, and a user's turn introduced otherwise than an assistant's.
fn faithful(suite: &Suite, prompt: &str) -> Result<(), String> {
    let markers = probe::template_markers(suite);
    let mut introductions = Vec::new();
    let mut rest = prompt;
    for (role, marker) in probe::TEMPLATE_ROLES.into_iter().zip(&markers) {
        let times = prompt.matches(marker.as_str()).count();
        if times != 1 {
            return Err(format!("the {role} turn stands {times} times in the prompt"));
        }
        let Some((before, after)) = rest.split_once(marker.as_str()) else {
            return Err(format!("the {role} turn stands out of order"));
        };
        introductions.push(before);
        rest = after;
    }
    match (introductions.as_slice(), rest) {
        ([_, user, assistant, last], _) if user == assistant || assistant == last => {
            Err("a user's turn and an assistant's look the same".to_owned())
        }
        ([_, "", ..], _) => Err("the system prompt runs into the user's turn".to_owned()),
        _ => Ok(()),
    }
}
