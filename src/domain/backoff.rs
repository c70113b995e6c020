//! How long to wait before the same target is tried again.

use std::time::Duration;

const BASE: Duration = Duration::from_millis(500);
const CAP: Duration = Duration::from_secs(8);

/// Full wait before retry `n` (from 1): 0.5 s doubling up to 8 s, less up to a quarter by `jitter` (0..1), and never
/// less than what the provider asked for.
pub fn before_retry(n: u32, jitter: f64, retry_after: Option<Duration>) -> Duration {
    let doubled = BASE.saturating_mul(1u32.checked_shl(n.saturating_sub(1)).unwrap_or(u32::MAX)).min(CAP);
    let jittered = doubled.mul_f64(1.0 - 0.25 * jitter.clamp(0.0, 1.0));
    jittered.max(retry_after.unwrap_or(Duration::ZERO))
}

/// Wait before an instance carries on an async job whose round has ended: 2 s doubling up to 5 min.
pub fn before_round(round: u32, retry_after: Option<Duration>) -> Duration {
    let doubled = Duration::from_secs(2)
        .saturating_mul(1u32.checked_shl(round.saturating_sub(1)).unwrap_or(u32::MAX))
        .min(Duration::from_secs(300));
    doubled.max(retry_after.unwrap_or(Duration::ZERO))
}

/// Wait before a notice that was not taken is sent again, `n` times tried: 5 s doubling up to 1 h, less up to a quarter by
/// `jitter` (0..1), and never less than what the receiver asked for.
pub fn before_notice(n: u32, jitter: f64, retry_after: Option<Duration>) -> Duration {
    let doubled = Duration::from_secs(5)
        .saturating_mul(1u32.checked_shl(n.saturating_sub(1)).unwrap_or(u32::MAX))
        .min(Duration::from_secs(3600));
    let jittered = doubled.mul_f64(1.0 - 0.25 * jitter.clamp(0.0, 1.0));
    jittered.max(retry_after.unwrap_or(Duration::ZERO))
}

/// Wait before a recheck that could not be made is tried again, `n` times tried: 30 s doubling up to 1 h, less up to a
/// quarter by `jitter` (0..1).
pub fn before_recheck(n: u32, jitter: f64) -> Duration {
    let doubled = Duration::from_secs(30)
        .saturating_mul(1u32.checked_shl(n.saturating_sub(1)).unwrap_or(u32::MAX))
        .min(Duration::from_secs(3600));
    doubled.mul_f64(1.0 - 0.25 * jitter.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_cap_and_jitter_only_shortens_them() {
        assert_eq!(before_retry(1, 0.0, None), Duration::from_millis(500));
        assert_eq!(before_retry(3, 0.0, None), Duration::from_secs(2));
        assert_eq!(before_retry(60, 0.0, None), CAP);
        assert_eq!(before_retry(1, 1.0, None), Duration::from_millis(375));
        assert_eq!(before_notice(1, 0.0, None), Duration::from_secs(5));
        assert_eq!(before_notice(3, 1.0, None), Duration::from_secs(15));
        assert_eq!(before_notice(90, 0.0, None), Duration::from_secs(3600));
        assert_eq!(before_recheck(1, 0.0), Duration::from_secs(30));
        assert_eq!(before_recheck(2, 1.0), Duration::from_secs(45));
        assert_eq!(before_recheck(90, 0.0), Duration::from_secs(3600));
    }

    #[test]
    fn retry_after_is_a_floor() {
        assert_eq!(before_retry(1, 1.0, Some(Duration::from_secs(3))), Duration::from_secs(3));
        assert_eq!(before_notice(1, 1.0, Some(Duration::from_secs(90))), Duration::from_secs(90));
        assert_eq!(before_round(1, Some(Duration::from_secs(90))), Duration::from_secs(90));
    }
}
