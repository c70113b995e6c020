//! Errors that are provoked on purpose: each must come as the proof that failover relies on.

use providers::failure::{Proof, Rejection};

use super::Judge;
use crate::check::{self, CheckResult, WHOLE_SUITE};
use crate::observation::Observation;
use crate::probe;

impl Judge<'_> {
    pub(super) fn bad_model(&self) -> CheckResult {
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

    pub(super) fn bad_tool(&self) -> CheckResult {
        let row = &check::BAD_TOOL;
        match self.probe(probe::BAD_TOOL).map(|e| &e.observation) {
            None => row.skipped(WHOLE_SUITE, "the suite uses no tools"),
            Some(o) if o.is_refused_parameter() => row.passed(WHOLE_SUITE, "refused"),
            Some(Observation::Answered(_)) => {
                row.failed(WHOLE_SUITE, "a tool whose schema is none was taken: nobody reads the schema")
            }
            Some(other) => row.failed(WHOLE_SUITE, format!("not refused as a bad request: {}", other.trouble())),
        }
    }

    pub(super) fn too_long(&self) -> CheckResult {
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
            // The window that a suite states is what it needs; a model may have more. `no_silent_cut` looks at the head.
            Observation::Answered(_) => row.skipped(WHOLE_SUITE, "answered, not refused: no_silent_cut judges that"),
            other => row.failed(WHOLE_SUITE, other.trouble()),
        }
    }
}
