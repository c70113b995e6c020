//! What so many repeats can tell: a rate with its Wilson interval, and in words whether the sample is large enough.
//!
//! Pure. Bounds are rounded outwards, so that nothing looks surer than it is.

use serde::ser::{Serialize, SerializeStruct, Serializer};

/// So many of so many were good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    pub passes: usize,
    pub total: usize,
}

/// The quantile of the normal distribution for 95 %, two-sided.
const Z: f64 = 1.959_963_984_540_054;

impl Sample {
    pub fn new(passes: usize, total: usize) -> Sample {
        Sample { passes, total }
    }

    /// The Wilson score interval for 95 %: the true rates that this sample does not speak against. Of nothing: all.
    pub fn interval(self) -> (f64, f64) {
        if self.total == 0 {
            return (0.0, 1.0);
        }
        let n = self.total as f64;
        let rate = self.passes as f64 / n;
        let centre = rate + Z * Z / (2.0 * n);
        let spread = Z * (rate * (1.0 - rate) / n + Z * Z / (4.0 * n * n)).sqrt();
        let scale = 1.0 + Z * Z / n;
        // At the ends the formula is exact but for the last digit of a double.
        let low = if self.passes == 0 { 0.0 } else { ((centre - spread) / scale).max(0.0) };
        let high = if self.passes == self.total { 1.0 } else { ((centre + spread) / scale).min(1.0) };
        (low, high)
    }

    /// `4 of 5 passed, 95 % interval 37–97 %`.
    pub fn words(self) -> String {
        let (low, high) = self.interval();
        let (low, high) = ((low * 100.0).floor(), (high * 100.0).ceil());
        format!("{} of {} passed, 95 % interval {low}–{high} %", self.passes, self.total)
    }

    /// Where the sample leaves the true rate, seen from the bound.
    pub fn against(self, bound: f64) -> String {
        let (low, high) = self.interval();
        let share = percent(bound);
        if self.passes == self.total && bound >= 1.0 {
            let hidden = ((1.0 - low) * 100.0).ceil();
            return format!("no failure was seen; one in up to {hidden} % of the answers is not excluded");
        }
        if low > bound {
            format!("above the bound of {share}")
        } else if high < bound {
            format!("below the bound of {share}")
        } else {
            format!("too few repeats to tell the rate from the bound of {share}")
        }
    }
}

/// `90 %`, `99.5 %`.
fn percent(share: f64) -> String {
    format!("{} %", (share * 1000.0).round() / 10.0)
}

/// `{"passes", "total", "low", "high"}`: the interval unrounded.
impl Serialize for Sample {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (low, high) = self.interval();
        let mut out = serializer.serialize_struct("Sample", 4)?;
        out.serialize_field("passes", &self.passes)?;
        out.serialize_field("total", &self.total)?;
        out.serialize_field("low", &low)?;
        out.serialize_field("high", &high)?;
        out.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of the published formula (Wilson 1927; as in Newcombe 1998, table I: 81 of 263 gives 0.2553–0.3662).
    #[test]
    fn the_interval_is_wilsons() {
        for (passes, total, low, high) in
            [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)]
        {
            let got = Sample::new(passes, total).interval();
            assert!((got.0 - low).abs() < 5e-5 && (got.1 - high).abs() < 5e-5, "{passes}/{total}: {got:?}");
        }
        assert_eq!(Sample::new(0, 0).interval(), (0.0, 1.0));
        assert_eq!(Sample::new(5, 5).interval().1, 1.0);
    }

    #[test]
    fn the_words_never_round_the_doubt_away() {
        assert_eq!(Sample::new(2, 2).words(), "2 of 2 passed, 95 % interval 34–100 %");
        assert_eq!(Sample::new(20, 20).words(), "20 of 20 passed, 95 % interval 83–100 %");
        assert_eq!(Sample::new(19, 20).words(), "19 of 20 passed, 95 % interval 76–100 %");
    }

    #[test]
    fn a_sample_that_is_too_small_is_said_to_be() {
        assert_eq!(Sample::new(4, 5).against(0.9), "too few repeats to tell the rate from the bound of 90 %");
        assert_eq!(Sample::new(20, 20).against(0.8), "above the bound of 80 %");
        assert_eq!(Sample::new(5, 20).against(0.995), "below the bound of 99.5 %");
        assert_eq!(
            Sample::new(2, 2).against(1.0),
            "no failure was seen; one in up to 66 % of the answers is not excluded"
        );
    }
}
