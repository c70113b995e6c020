//! When live answers have broken the contract often enough to say that the target has drifted. Pure.
//!
//! A rate seen in a sample is no rate: what counts is the lower end of its Wilson interval, so that noise revokes
//! nothing. The bound is three standard deviations, since the count is looked at again after every few answers.

use std::time::Duration;

/// One-sided, 99.87 %: looking often must not find something just by looking often.
const Z: f64 = 3.0;
/// The bound where neither the route nor the suite allows more: one answer in twenty.
pub const MAX_VIOLATION_RATE: f64 = 0.05;

/// `[routes.x] drift`: which answers are judged, and what is too much.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DriftRule {
    /// The share of the primary's answers that is judged, 0 to 1.
    pub sample: f64,
    /// The share of the fallbacks' answers.
    pub fallback_sample: f64,
    pub window: DriftWindow,
    /// The share of broken answers that is borne; `None`: what the suite's pass rate leaves, at least
    /// [`MAX_VIOLATION_RATE`].
    pub max_violation_rate: Option<f64>,
    /// Fewer judged answers than this decide nothing.
    pub min_answers: u32,
}

/// The answers that count: the newest so many, or those of the last while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DriftWindow {
    Answers(u32),
    Time(Duration),
}

impl DriftWindow {
    /// Answers are counted in buckets this wide.
    pub fn bucket(self) -> Duration {
        match self {
            DriftWindow::Answers(_) => Duration::from_secs(1),
            DriftWindow::Time(window) => (window / 200).clamp(Duration::from_secs(1), Duration::from_secs(300)),
        }
    }
}

impl DriftRule {
    /// The share of broken answers that is borne, given the pass rate that the suite itself is content with.
    pub fn bound(&self, pass_rate: f64) -> f64 {
        self.max_violation_rate.unwrap_or_else(|| MAX_VIOLATION_RATE.max(1.0 - pass_rate))
    }

    /// Whether `broken` of `answers` are surely more than `bound`.
    pub fn is_broken(&self, broken: u64, answers: u64, bound: f64) -> bool {
        answers >= u64::from(self.min_answers) && lower_bound(broken, answers) > bound
    }
}

/// The lower end of the Wilson score interval of `hits` in `n`.
pub fn lower_bound(hits: u64, n: u64) -> f64 {
    if n == 0 {
        return 0.0;
    }
    let (n, p) = (n as f64, hits as f64 / n as f64);
    let z2 = Z * Z;
    let centre = p + z2 / (2.0 * n);
    let spread = Z * (p * (1.0 - p) / n + z2 / (4.0 * n * n)).sqrt();
    ((centre - spread) / (1.0 + z2 / n)).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: DriftRule = DriftRule {
        sample: 0.05,
        fallback_sample: 1.0,
        window: DriftWindow::Answers(200),
        max_violation_rate: None,
        min_answers: 20,
    };

    /// A small generator of its own: the same numbers in every run.
    fn draws(seed: u64) -> impl FnMut() -> f64 {
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) as f64 / (1u64 << 53) as f64
        }
    }

    /// Judges the window after every answer; the answers until the rule said so.
    fn first_verdict(rate: f64, seed: u64, answers: usize) -> Option<usize> {
        let mut draw = draws(seed);
        let mut window = std::collections::VecDeque::new();
        (1..=answers).find(|_| {
            window.push_back(draw() < rate);
            if window.len() > 200 {
                window.pop_front();
            }
            let broken = window.iter().filter(|broken| **broken).count() as u64;
            RULE.is_broken(broken, window.len() as u64, RULE.bound(1.0))
        })
    }

    #[test]
    fn the_lower_bound_is_that_of_wilson() {
        assert_eq!(lower_bound(0, 0), 0.0);
        assert_eq!(lower_bound(0, 50), 0.0);
        // 10 of 100 at z = 3: (0.1 + 0.045 - 3 * sqrt(0.0009 + 0.000225)) / 1.09.
        assert!((lower_bound(10, 100) - 0.0407).abs() < 0.001, "{}", lower_bound(10, 100));
        assert!(lower_bound(100, 100) < 1.0);
    }

    #[test]
    fn noise_below_the_bound_never_revokes_and_a_broken_target_soon_does() {
        let false_alarms = (0..200).filter(|seed| first_verdict(0.02, *seed, 2_000).is_some()).count();
        assert_eq!(false_alarms, 0, "2 % broken, 5 % borne, looked at after each of 2000 answers");
        for seed in 0..200 {
            let found = first_verdict(0.5, seed, 2_000).expect("half of all answers broken");
            assert!(found <= 60, "seed {seed}: only after {found}");
        }
    }

    #[test]
    fn a_few_answers_decide_nothing_and_the_suite_may_bear_more() {
        assert!(!RULE.is_broken(19, 19, RULE.bound(1.0)));
        assert!(RULE.is_broken(20, 20, RULE.bound(1.0)));
        assert!((RULE.bound(0.8) - 0.2).abs() < 1e-9);
        assert!((DriftRule { max_violation_rate: Some(0.01), ..RULE }.bound(0.8) - 0.01).abs() < 1e-9);
    }
}
