//! How many calls are under way at once, and from when on. A provider that says "later" is obeyed by all of them, and
//! halves their number; each full round that went well adds one again.

use std::time::Duration;

use tokio::time::Instant;

#[derive(Debug)]
pub(super) struct Pace {
    most: usize,
    width: usize,
    not_before: Option<Instant>,
    /// Calls that came back since the width last changed.
    good: usize,
}

impl Pace {
    pub(super) fn new(most: usize) -> Pace {
        Pace { most: most.max(1), width: most.max(1), not_before: None, good: 0 }
    }

    pub(super) fn width(&self) -> usize {
        self.width
    }

    /// How long a call that is about to be made has to wait.
    pub(super) fn pause(&self, now: Instant) -> Duration {
        self.not_before.map(|until| until.saturating_duration_since(now)).unwrap_or_default()
    }

    pub(super) fn later(&mut self, now: Instant, pause: Duration) {
        self.not_before = self.not_before.max(Some(now + pause));
        self.width = (self.width / 2).max(1);
        self.good = 0;
    }

    pub(super) fn came_back(&mut self) {
        self.good += 1;
        if self.good >= self.width && self.width < self.most {
            self.width += 1;
            self.good = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_halves_the_width_and_holds_everybody_back_and_success_widens_again() {
        let now = Instant::now();
        let mut pace = Pace::new(8);
        pace.later(now, Duration::from_secs(4));
        pace.later(now, Duration::from_secs(1));
        assert_eq!((pace.width(), pace.pause(now)), (2, Duration::from_secs(4)), "the longest pause holds");
        assert_eq!(pace.pause(now + Duration::from_secs(5)), Duration::ZERO);
        for _ in 0..5 {
            pace.came_back();
        }
        assert_eq!(pace.width(), 4);
        for _ in 0..100 {
            pace.came_back();
        }
        assert_eq!(pace.width(), 8);
        pace.later(now, Duration::ZERO);
        pace.later(now, Duration::ZERO);
        pace.later(now, Duration::ZERO);
        pace.later(now, Duration::ZERO);
        assert_eq!(pace.width(), 1);
    }
}
