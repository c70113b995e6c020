//! How many jobs may be on their way into the database at once, learned from how long the database takes. Pure: times
//! are durations since some start.
//!
//! As CoDel does with packets, it looks at the *shortest* time within a while: a burst makes some wait, only a standing
//! queue makes all wait. Then fewer are let in (less a fifth each time), otherwise more (by an eighth, as long as the
//! room is used). What is not let in is refused at once, so that those let in wait about as long as ever.

use std::time::Duration;

/// How long is looked before each judgement, and how many writes must have been seen.
const WHILE: Duration = Duration::from_millis(100);
const ENOUGH: usize = 8;
/// A database that answers within this time is never taken for overloaded; nor one within four times its best.
const ALWAYS_FINE: Duration = Duration::from_millis(40);
const TIMES_BEST: f64 = 4.0;
/// How fast the best time is forgotten, each while: twice as long after about a minute.
const FORGETTING: f64 = 1.001;
/// Bounds of what may be on its way. The least still fills a batch; the first is two batches.
const LEAST: f64 = 64.0;
const FIRST: f64 = 256.0;
const MOST: f64 = 4_096.0;
const LESS: f64 = 0.8;
const MORE: f64 = 0.125;

/// What was asked of the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Write {
    /// A caller's key, read.
    LookUp,
    Admission,
    Completion,
}

/// The times of one kind of write.
#[derive(Debug, Clone, Default)]
struct Times {
    /// The best ever, slowly forgotten, in seconds.
    best: Option<f64>,
    /// The shortest of this while.
    shortest: Option<f64>,
    seen: usize,
}

impl Times {
    fn heard(&mut self, took: f64) {
        self.seen += 1;
        self.shortest = Some(self.shortest.map_or(took, |shortest| shortest.min(took)));
    }

    /// Whether even the shortest time of the while was long. `None`: too little was seen.
    fn judge(&mut self) -> Option<bool> {
        let shortest = self.shortest.filter(|_| self.seen >= ENOUGH)?;
        let best = self.best.map_or(shortest, |best| (best * FORGETTING).min(shortest));
        *self = Times { best: Some(best), shortest: None, seen: 0 };
        Some(shortest > ALWAYS_FINE.as_secs_f64().max(best * TIMES_BEST))
    }
}

/// The controller.
#[derive(Debug, Clone)]
pub struct Controller {
    limit: f64,
    judged_at: Duration,
    most_entering: usize,
    look_ups: Times,
    admissions: Times,
    completions: Times,
}

impl Controller {
    pub fn new(now: Duration) -> Self {
        Controller {
            limit: FIRST,
            judged_at: now,
            most_entering: 0,
            look_ups: Times::default(),
            admissions: Times::default(),
            completions: Times::default(),
        }
    }

    /// How many may be on their way at once.
    pub fn limit(&self) -> usize {
        self.limit as usize
    }

    /// A write took this long, from the moment it was asked for; `entering` jobs were on their way in.
    pub fn heard(&mut self, write: Write, took: Duration, entering: usize, now: Duration) {
        self.most_entering = self.most_entering.max(entering);
        match write {
            Write::LookUp => self.look_ups.heard(took.as_secs_f64()),
            Write::Admission => self.admissions.heard(took.as_secs_f64()),
            Write::Completion => self.completions.heard(took.as_secs_f64()),
        }
        if now.saturating_sub(self.judged_at) < WHILE {
            return;
        }
        let judged = [self.look_ups.judge(), self.admissions.judge(), self.completions.judge()];
        if judged.iter().all(Option::is_none) {
            return;
        }
        let overloaded = judged.contains(&Some(true));
        if overloaded {
            self.limit = (self.limit * LESS).max(LEAST);
        } else if self.most_entering as f64 * 2.0 >= self.limit {
            self.limit = (self.limit * (1.0 + MORE)).min(MOST);
        }
        self.judged_at = now;
        self.most_entering = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A database that serves `rate` jobs a second and takes `floor` at least, asked by `offered` jobs a second for
    /// `seconds`: who is let in joins a queue. Returns how long the last ten seconds' jobs waited at most and what came
    /// through, in jobs a second.
    fn play(controller: &mut Controller, rate: f64, offered: f64, seconds: u64) -> (f64, f64) {
        const STEP: f64 = 0.001;
        let floor = 0.002;
        let (mut queue, mut credit, mut arrivals) = (std::collections::VecDeque::new(), 0.0, 0.0);
        let (mut longest, mut served) = (0.0_f64, 0);
        let from = seconds.saturating_sub(10) as f64;
        for step in 0..seconds * 1_000 {
            let now = step as f64 * STEP;
            arrivals += offered * STEP;
            while arrivals >= 1.0 {
                arrivals -= 1.0;
                if queue.len() < controller.limit() {
                    queue.push_back(now);
                }
            }
            credit = (credit + rate * STEP).min((rate * STEP * 2.0).max(1.0));
            while credit >= 1.0 && queue.front().is_some_and(|came| now - came >= floor) {
                credit -= 1.0;
                let took = now - queue.pop_front().expect("somebody waits");
                let entering = queue.len() + 1;
                let took_for = Duration::from_secs_f64(took);
                controller.heard(Write::Admission, took_for, entering, Duration::from_secs_f64(now));
                if now >= from {
                    longest = longest.max(took);
                    served += 1;
                }
            }
        }
        (longest, f64::from(served) / 10.0)
    }

    #[test]
    fn at_twice_the_capacity_the_wait_stays_short_and_the_capacity_is_used() {
        for rate in [1_000.0, 2_000.0, 5_000.0] {
            let mut controller = Controller::new(Duration::ZERO);
            let (longest, served) = play(&mut controller, rate, rate * 2.0, 40);
            let bound = (LEAST / rate).max(ALWAYS_FINE.as_secs_f64()) * 1.6 + 0.01;
            assert!(longest < bound, "{rate}/s: {longest} s waited, {bound} s at most, limit {}", controller.limit());
            assert!(served > rate * 0.95, "{rate}/s: only {served} served");
        }
    }

    #[test]
    fn below_the_capacity_nobody_is_refused_and_the_limit_does_not_wander() {
        let mut controller = Controller::new(Duration::ZERO);
        let (longest, served) = play(&mut controller, 5_000.0, 4_000.0, 20);
        assert!(longest < 0.02 && served > 3_990.0, "{longest} s, {served} served");
        assert_eq!(controller.limit(), FIRST as usize);
    }

    #[test]
    fn after_an_overload_the_room_comes_back() {
        let mut controller = Controller::new(Duration::ZERO);
        play(&mut controller, 200.0, 4_000.0, 20);
        assert_eq!(controller.limit(), LEAST as usize, "the database had become slow");
        for n in 0..400 {
            let now = Duration::from_secs(20) + Duration::from_millis(n * 13);
            controller.heard(Write::Admission, Duration::from_millis(3), controller.limit(), now);
        }
        assert!(controller.limit() > FIRST as usize, "{}", controller.limit());
    }

    #[test]
    fn a_slow_write_among_quick_ones_and_a_quiet_time_change_nothing() {
        let mut controller = Controller::new(Duration::ZERO);
        for n in 0..1_000_u64 {
            let took = if n % 10 == 0 { Duration::from_millis(2) } else { Duration::from_secs(1) };
            controller.heard(Write::Admission, took, 20, Duration::from_millis(n * 5));
        }
        assert_eq!(controller.limit(), FIRST as usize, "a burst, not a standing queue");
        for n in 0..ENOUGH as u64 - 1 {
            controller.heard(Write::Admission, Duration::from_secs(5), 1, Duration::from_secs(60 + n));
        }
        assert_eq!(controller.limit(), FIRST as usize, "too little to judge by");
    }

    #[test]
    fn slow_completions_alone_let_fewer_in() {
        let mut controller = Controller::new(Duration::ZERO);
        for n in 0..200_u64 {
            let now = Duration::from_millis(n * 10);
            controller.heard(Write::Admission, Duration::from_millis(2), 20, now);
            let took = if n < 50 { Duration::from_millis(2) } else { Duration::from_millis(400) };
            controller.heard(Write::Completion, took, 20, now);
        }
        assert_eq!(controller.limit(), LEAST as usize);
    }
}
