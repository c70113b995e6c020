//! Markers in each role, unicode and long inputs: what was sent must have been read.

use super::{Judge, text_of};
use crate::check::{self, CheckInfo, CheckResult, Verdict, WHOLE_SUITE, excerpt};
use crate::probe;

impl Judge<'_> {
    pub(super) fn marker(&self, row: &CheckInfo, name: &'static str) -> CheckResult {
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

    /// The marker at the head, then the one at the end.
    pub(super) fn long_input(&self) -> CheckResult {
        let row = &check::LONG_INPUT;
        match self.marker(row, probe::LONG_INPUT) {
            head if head.verdict == Verdict::Passed => self.marker(row, probe::LONG_INPUT_END),
            head => head,
        }
    }

    /// Only an alteration that is known for what it is fails: a model may slip, and that is not the way's fault.
    pub(super) fn exact_text(&self) -> CheckResult {
        let row = &check::EXACT_TEXT;
        if let Some(why) = self.cut_at_nul() {
            return row.failed(WHOLE_SUITE, why);
        }
        let text = match self.answered(row, probe::EXACT_TEXT) {
            Ok(choice) => text_of(choice),
            Err(result) => return result,
        };
        let wanted = probe::exact_text(&self.suite.name);
        if text.contains(&wanted) {
            return row.passed(WHOLE_SUITE, "every character came back, white space and zero-width ones too");
        }
        match probe::ALTERATIONS.iter().find(|(_, alter)| text.contains(&alter(&wanted))) {
            Some((what, _)) => row.failed(WHOLE_SUITE, format!("{what}: {}", excerpt(text))),
            None => row.skipped(WHOLE_SUITE, format!("the model does not repeat word for word: {}", excerpt(text))),
        }
    }

    /// Who cannot carry a NUL may refuse it; to answer without what stands behind it is a silent cut.
    fn cut_at_nul(&self) -> Option<String> {
        let text = self.probe(probe::NUL)?.observation.text().ok()?;
        let [before, behind] = probe::halves(&self.suite.name);
        (text.contains(&before) && !text.contains(&behind))
            .then(|| format!("what stands behind a NUL is not read: {}", excerpt(text)))
    }

    pub(super) fn unicode(&self) -> CheckResult {
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
}
