//! How a route's evidence is kept fresh: the scheduled re-run, and what live answers are held against.

use std::time::Duration;

use super::{Checker, raw};
use crate::domain::drift::{DriftRule, DriftWindow};

/// Counts older than this are cleaned away.
const LONGEST_WINDOW: Duration = Duration::from_secs(24 * 3600);
/// One judges with as many answers as one likes, but they are read again after each batch.
const MOST_ANSWERS: u32 = 10_000;

impl Checker {
    pub(super) fn recheck(&mut self, name: &str, raw: &raw::Route) -> Option<Duration> {
        let setting = format!("routes.{name}.recheck");
        let age = self.optional(&setting, raw.recheck.as_deref())?;
        let ttl = raw.permit_ttl.as_deref().unwrap_or("7d");
        if raw.contract.is_none() {
            self.problem(setting, format!("there is nothing to run again without `routes.{name}.contract`"));
        } else if humantime::parse_duration(ttl).is_ok_and(|ttl| age >= ttl) {
            let what = format!("must be shorter than permit_ttl ({ttl}), or permits expire before they are rechecked");
            self.problem(setting, what);
        } else if raw.targets.len() < 2 {
            self.problem(setting, "says nothing on a route without fallbacks: only permits are renewed");
        }
        Some(age)
    }

    pub(super) fn drift(&mut self, name: &str, route: &raw::Route) -> Option<DriftRule> {
        let raw = route.drift.as_ref()?;
        let setting = |field: &str| format!("routes.{name}.drift.{field}");
        if route.contract.is_none() {
            let what = format!("there is no schema to hold answers against without `routes.{name}.contract`");
            self.problem(format!("routes.{name}.drift"), what);
        }
        let mut share = |field: &str, value: Option<f64>, default: f64| {
            let value = value.unwrap_or(default);
            if !(0.0..=1.0).contains(&value) {
                self.problem(setting(field), format!("{value} is no share; write a number from 0 to 1"));
            }
            value
        };
        let sample = share("sample", raw.sample, 0.05);
        let fallback_sample = share("fallback_sample", raw.fallback_sample, 1.0);
        if let Some(rate) = raw.max_violation_rate.filter(|rate| !(*rate > 0.0 && *rate < 1.0)) {
            self.problem(setting("max_violation_rate"), format!("{rate} is out of range: above 0 and below 1"));
        }
        let min_answers = raw.min_answers.unwrap_or(20);
        let window = self.drift_window(&setting("window"), raw.window.as_ref());
        let holds = match window {
            DriftWindow::Answers(n) => min_answers >= 1 && min_answers <= n,
            DriftWindow::Time(_) => min_answers >= 1,
        };
        if !holds {
            self.problem(setting("min_answers"), "must be at least 1, and no more than the window holds");
        }
        Some(DriftRule { sample, fallback_sample, window, max_violation_rate: raw.max_violation_rate, min_answers })
    }

    fn drift_window(&mut self, setting: &str, raw: Option<&raw::DriftWindow>) -> DriftWindow {
        match raw {
            None => DriftWindow::Answers(200),
            Some(raw::DriftWindow::Answers(n)) => {
                if !(1..=MOST_ANSWERS).contains(n) {
                    self.problem(setting, format!("must be 1 to {MOST_ANSWERS} answers, or a time, as \"1h\""));
                }
                DriftWindow::Answers(*n)
            }
            Some(raw::DriftWindow::Time(text)) => {
                let window = self.duration(setting, Some(text), "1h");
                if window > LONGEST_WINDOW {
                    self.problem(setting, format!("`{text}` is too long; at most 24h"));
                }
                DriftWindow::Time(window)
            }
        }
    }
}
