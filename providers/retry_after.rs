//! How long a provider asks to be left alone: `retry-after` in seconds, fractions or as a date, and `retry-after-ms`.
//!
//! Pure: a date is measured against the same answer's own `Date`, so that neither clock skew nor our clock matters.
//! Junk is no wish at all; it must never become a long silence.

use std::time::Duration;

use http::HeaderMap;

/// No provider means more than this; larger wishes are cut to it.
pub const LONGEST: Duration = Duration::from_secs(366 * 24 * 3600);

/// The wish in these headers. Azure sends `retry-after: 1` together with `retry-after-ms: 0`: the longer one holds.
pub fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = text(headers, "retry-after").and_then(|value| {
        number(value).and_then(|seconds| duration(seconds, 1.0)).or_else(|| until(value, text(headers, "date")?))
    });
    let millis = text(headers, "retry-after-ms").and_then(number).and_then(|millis| duration(millis, 1_000.0));
    seconds.max(millis)
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

/// Only plain decimals: Rust would also read `inf`, `nan` and `1e9`.
fn number(text: &str) -> Option<f64> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if plain { text.parse().ok() } else { None }
}

fn duration(value: f64, per_second: f64) -> Option<Duration> {
    let seconds = (value / per_second).min(LONGEST.as_secs_f64());
    Duration::try_from_secs_f64(seconds).ok()
}

fn until(date: &str, now: &str) -> Option<Duration> {
    let date = httpdate::parse_http_date(date).ok()?;
    let now = httpdate::parse_http_date(now).ok()?;
    Some(date.duration_since(now).unwrap_or(Duration::ZERO).min(LONGEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(pairs: &[(&'static str, &'static str)]) -> Option<Duration> {
        let headers = pairs
            .iter()
            .map(|(name, value)| (http::HeaderName::from_static(name), http::HeaderValue::from_static(value)));
        retry_after(&headers.collect())
    }

    #[test]
    fn every_spelling_of_a_wish_is_read() {
        assert_eq!(wish(&[("retry-after", "3")]), Some(Duration::from_secs(3)));
        assert_eq!(wish(&[("retry-after", "1.5")]), Some(Duration::from_millis(1500)));
        assert_eq!(wish(&[("retry-after-ms", "3000")]), Some(Duration::from_secs(3)));
        assert_eq!(wish(&[("retry-after", "1"), ("retry-after-ms", "0")]), Some(Duration::from_secs(1)));
        let date = ("date", "Mon, 30 Nov 2026 20:00:00 GMT");
        assert_eq!(wish(&[("retry-after", "Mon, 30 Nov 2026 20:00:03 GMT"), date]), Some(Duration::from_secs(3)));
        assert_eq!(wish(&[("retry-after", "Mon, 30 Nov 2026 19:00:00 GMT"), date]), Some(Duration::ZERO));
    }

    #[test]
    fn junk_is_no_wish_and_a_huge_wish_is_cut() {
        for junk in ["-1", "abc", "", "inf", "NaN", "1e9", "..", "Mon, 30 Nov 2026 20:00:03 GMT"] {
            assert_eq!(wish(&[("retry-after", junk)]), None, "{junk}");
        }
        assert_eq!(wish(&[("retry-after", "99999999999999999999999999")]), Some(LONGEST));
    }
}
