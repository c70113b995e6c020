//! The notice that tells an owner's own server that a job is over: what it says, how it is signed, when it is sent again.
//!
//! It says which job and how it ended, and nothing of what was asked or answered: the receiver fetches that by id. Signed
//! as Standard Webhooks says (<https://github.com/standard-webhooks/standard-webhooks>, read 2026-11-30). Id and body are
//! the same at every try, so that a receiver can tell a repeat: what is promised is at least once, not once.

use std::fmt;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::json;
use sha2::Sha256;
use time::format_description::well_known::Rfc3339;

use super::Timestamp;
use super::backoff::before_notice;
use super::ids::JobId;
use super::job::JobState;

/// How long a receiver is tried, from the job's end.
pub const TRIED_FOR: Duration = Duration::from_secs(24 * 3600);
const PREFIX: &str = "whsec_";
/// Bytes of a key: the standard's own bounds.
const KEY_LENGTH: std::ops::RangeInclusive<usize> = 24..=64;

/// What notices are signed with; shared with every receiver.
#[derive(Clone)]
pub struct SigningKey(Vec<u8>);

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey(…)")
    }
}

impl SigningKey {
    /// `whsec_` and 24 to 64 bytes in base64; otherwise none.
    pub fn parse(text: &str) -> Option<SigningKey> {
        let key = STANDARD.decode(text.strip_prefix(PREFIX)?).ok()?;
        KEY_LENGTH.contains(&key.len()).then_some(SigningKey(key))
    }

    /// `v1,` and the HMAC-SHA256 of id, time and body, as the header carries it.
    fn sign(&self, id: &str, timestamp: i64, body: &str) -> String {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes a key of any length");
        mac.update(format!("{id}.{timestamp}.{body}").as_bytes());
        format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
    }
}

/// A job that is over, as far as its notice tells of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Notice {
    pub job: JobId,
    pub state: JobState,
    pub url: String,
    pub route: String,
    pub closed_at: Timestamp,
}

impl Notice {
    /// The same at every try.
    pub fn id(&self) -> String {
        format!("job_{}", self.job)
    }

    /// The same at every try, byte for byte.
    pub fn body(&self) -> String {
        let state = self.state.as_str();
        let data = json!({ "id": self.job, "object": "job", "state": state, "url": self.url, "route": self.route });
        let at = self.closed_at.format(&Rfc3339).unwrap_or_else(|_| self.closed_at.to_string());
        json!({ "type": format!("job.{state}"), "timestamp": at, "data": data }).to_string()
    }

    /// The headers of a try at this time.
    pub fn headers(&self, key: &SigningKey, body: &str, now: Timestamp) -> Vec<(&'static str, String)> {
        let (id, timestamp) = (self.id(), now.unix_timestamp());
        let signature = key.sign(&id, timestamp, body);
        vec![("webhook-id", id), ("webhook-timestamp", timestamp.to_string()), ("webhook-signature", signature)]
    }

    /// How long to wait after try `n`, which was not taken. `None`: the receiver has had its day. The last try comes at
    /// the end of that day, however long the receiver asked to be left alone.
    pub fn next_try(&self, n: u32, jitter: f64, retry_after: Option<Duration>, now: Timestamp) -> Option<Duration> {
        let left = Duration::try_from(self.closed_at + TRIED_FOR - now).ok().filter(|left| !left.is_zero())?;
        Some(before_notice(n, jitter, retry_after).min(left))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notice() -> Notice {
        Notice {
            job: "01890000-0000-7000-8000-0000000000aa".parse().unwrap(),
            state: JobState::Cancelled,
            url: "/v1/chat/completions".to_owned(),
            route: "support".to_owned(),
            closed_at: Timestamp::from_unix_timestamp(1_700_000_000).unwrap(),
        }
    }

    /// The standard's own example.
    #[test]
    fn the_signature_is_that_of_standard_webhooks() {
        let key = SigningKey::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let signature = key.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, "{\"test\": 2432232314}");
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn a_key_is_long_enough_and_never_shown() {
        for wrong in
            ["", "whsec_", "whsec_c2hvcnQ=", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_no base64 at all, no, no"]
        {
            assert!(SigningKey::parse(wrong).is_none(), "{wrong}");
        }
        let key = SigningKey::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        assert_eq!(format!("{key:?}"), "SigningKey(…)");
    }

    #[test]
    fn a_notice_says_which_job_and_how_it_ended() {
        let body: serde_json::Value = serde_json::from_str(&notice().body()).unwrap();
        assert_eq!(
            body,
            json!({
                "type": "job.cancelled",
                "timestamp": "2023-11-14T22:13:20Z",
                "data": {
                    "id": "01890000-0000-7000-8000-0000000000aa", "object": "job", "state": "cancelled",
                    "url": "/v1/chat/completions", "route": "support",
                },
            })
        );
    }

    #[test]
    fn a_receiver_is_tried_for_a_day_and_once_more_at_its_end() {
        let notice = notice();
        let after = |hours: u64| notice.closed_at + Duration::from_secs(hours * 3600);
        let day = Some(Duration::from_secs(48 * 3600));
        assert_eq!(notice.next_try(1, 0.0, None, after(0)), Some(Duration::from_secs(5)));
        assert_eq!(notice.next_try(1, 0.0, day, after(1)), Some(Duration::from_secs(23 * 3600)));
        assert_eq!(notice.next_try(40, 0.0, None, after(24)), None);
        assert_eq!(notice.next_try(1, 0.0, day, after(30)), None);
    }
}
