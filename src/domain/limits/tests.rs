//! The limits as tables: what is let in, what is refused, when to come back.

use providers::json::{Json, Object};

use super::*;

/// A minute's begin, and a slot's.
const T0: i64 = 1_800_000_000;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_unix_timestamp(T0 + seconds).expect("a time")
}

fn limit(requests: Option<u64>, tokens: Option<u64>, jobs: Option<u64>) -> Limit {
    Limit { requests_per_minute: requests, tokens_per_minute: tokens, concurrent_jobs: jobs }
}

fn spent(window: &mut Window, second: i64, requests: u64, tokens: u64) {
    window.spend(slot_of(at(second)), Spent { requests, tokens });
}

#[test]
fn an_owner_without_limits_is_never_refused() {
    let mut ledger = Ledger::default();
    spent(&mut ledger.here, 0, u64::MAX, u64::MAX);
    ledger.running = Held { jobs: u64::MAX / 4, tokens: u64::MAX, requests: 0 };
    assert_eq!(ledger.judge(&Limit::default(), u64::MAX, at(0)), Ok(()));
    assert_eq!(ledger.standing(&Limit::default(), at(0)), Standing::default());
    assert!(Limit::default().is_unlimited() && !limit(None, None, Some(1)).is_unlimited());
}

#[test]
fn no_minute_holds_more_requests_than_the_limit_whoever_let_them_in() {
    let two = limit(Some(2), None, None);
    let mut ledger = Ledger::default();
    spent(&mut ledger.here, 0, 1, 0);
    assert_eq!(ledger.judge(&two, 0, at(2)), Ok(()));
    spent(&mut ledger.elsewhere, 7, 1, 0);
    let refused = |second, retry| {
        let refusal = Refusal { measure: Measure::Requests, limit: 2, used: 2, asked: 1, retry_after: Some(retry) };
        assert_eq!(ledger.judge(&two, 0, at(second)), Err(refusal), "at {second}");
    };
    // The slot of second 0 ends at 5 and counts for a minute after.
    refused(7, Duration::from_secs(58));
    refused(64, Duration::from_secs(1));
    assert_eq!(ledger.judge(&two, 0, at(65)), Ok(()));
}

#[test]
fn a_request_that_is_being_admitted_counts_already() {
    let ledger = Ledger { running: Held { requests: 2, ..Held::default() }, ..Ledger::default() };
    let refusal = ledger.judge(&limit(Some(2), None, None), 0, at(0)).expect_err("full");
    assert_eq!((refusal.used, refusal.retry_after), (2, Some(LOOK_AGAIN)));
}

#[test]
fn tokens_count_whether_spent_or_held_and_held_ones_do_not_expire() {
    let thousand = limit(None, Some(1_000), None);
    let mut ledger = Ledger::default();
    spent(&mut ledger.here, 0, 1, 300);
    ledger.running.add(200);
    ledger.unknown.add(100);
    ledger.held_elsewhere.add(100);
    assert_eq!(ledger.judge(&thousand, 300, at(0)), Ok(()));
    let refusal = ledger.judge(&thousand, 301, at(0)).expect_err("one too many");
    assert_eq!((refusal.measure, refusal.used, refusal.asked), (Measure::Tokens, 700, 301));
    assert_eq!(refusal.retry_after, Some(Duration::from_secs(65)), "when what was spent has left the minute");
    let held = ledger.judge(&thousand, 601, at(1_000)).expect_err("held for ever");
    assert_eq!((held.used, held.retry_after), (400, Some(LOOK_AGAIN)));
    ledger.unknown.remove(100);
    assert_eq!(ledger.judge(&thousand, 601, at(1_000)), Ok(()));
}

#[test]
fn a_request_larger_than_the_whole_limit_never_fits() {
    let refusal = Ledger::default().judge(&limit(Some(9), Some(1_000), None), 1_001, at(0)).expect_err("too large");
    assert_eq!((refusal.measure, refusal.used, refusal.retry_after), (Measure::Tokens, 0, None));
}

#[test]
fn jobs_at_once_are_counted_through_all_processes() {
    let three = limit(None, None, Some(3));
    let mut ledger = Ledger::default();
    ledger.running.add(0);
    ledger.unknown.add(0);
    assert_eq!(ledger.judge(&three, 0, at(0)), Ok(()));
    ledger.held_elsewhere.add(0);
    let refusal = ledger.judge(&three, 0, at(0)).expect_err("three run");
    assert_eq!((refusal.measure, refusal.used, refusal.retry_after), (Measure::Jobs, 3, Some(LOOK_AGAIN)));
}

#[test]
fn of_several_limits_the_one_that_lasts_longest_is_told() {
    let mut ledger = Ledger::default();
    ledger.running.add(10);
    spent(&mut ledger.here, 0, 1, 0);
    let refusal = ledger.judge(&limit(Some(1), Some(10), Some(1)), 1, at(0)).expect_err("all three");
    assert_eq!((refusal.measure, refusal.retry_after), (Measure::Requests, Some(Duration::from_secs(65))));
}

#[test]
fn a_standing_tells_what_remains_and_when_all_is_free_again() {
    let both = limit(Some(10), Some(1_000), None);
    let mut ledger = Ledger::default();
    let free = |limit| Gauge { limit, remaining: limit, reset: Duration::ZERO };
    assert_eq!(ledger.standing(&both, at(0)), Standing { requests: Some(free(10)), tokens: Some(free(1_000)) });
    spent(&mut ledger.here, 0, 3, 400);
    spent(&mut ledger.elsewhere, 12, 1, 0);
    let standing = ledger.standing(&both, at(14));
    assert_eq!(standing.requests, Some(Gauge { limit: 10, remaining: 6, reset: Duration::from_secs(61) }));
    assert_eq!(standing.tokens, Some(Gauge { limit: 1_000, remaining: 600, reset: Duration::from_secs(51) }));
    ledger.running.add(700);
    let standing = ledger.standing(&both, at(14));
    assert_eq!(standing.tokens, Some(Gauge { limit: 1_000, remaining: 0, reset: MINUTE }));
}

#[test]
fn what_counts_no_more_is_forgotten() {
    let mut ledger = Ledger::default();
    spent(&mut ledger.here, 0, 1, 1);
    spent(&mut ledger.elsewhere, 0, 1, 1);
    ledger.hear(&[], Held::default(), at(64));
    assert!(!ledger.is_blank());
    ledger.hear(&[], Held::default(), at(65));
    assert!(ledger.is_blank());
}

/// Two processes that share a limit, one after the other under the lock.
struct Two {
    ledgers: [Ledger; 2],
    limit: Limit,
}

impl Two {
    fn new(limit: Limit) -> Two {
        Two { ledgers: [Ledger::default(), Ledger::default()], limit }
    }

    /// What one of them does under the lock.
    fn exchange(&mut self, one: usize, now: Timestamp) {
        let other = self.ledgers[1 - one].claim();
        self.ledgers[one].hear(&[other], Held::default(), now);
        self.ledgers[one].claim_ahead(&self.limit, 100, now);
    }

    /// A request comes to one of them, which asks the other only if it must.
    fn ask(&mut self, one: usize, tokens: u64, now: Timestamp) -> Result<bool, Refusal> {
        let limit = self.limit;
        if self.ledgers[one].take(&limit, tokens) {
            return Ok(false);
        }
        let other = self.ledgers[1 - one].claim();
        let ledger = &mut self.ledgers[one];
        ledger.hear(&[other], Held::default(), now);
        ledger.judge(&limit, tokens, now)?;
        ledger.begin(tokens);
        ledger.claim_ahead(&limit, tokens, now);
        Ok(true)
    }
}

#[test]
fn two_processes_together_let_in_the_limit_and_no_more() {
    for limit in [1, 2, 17, 100, 1_000] {
        let mut two = Two::new(self::limit(Some(limit), None, None));
        let (mut let_in, mut asked) = (0, 0);
        for n in 0..4 * limit {
            // Uneven, as no balancer is perfect.
            let one = usize::from(n % 3 == 0);
            if let Ok(had_to_ask) = two.ask(one, 0, at(0)) {
                two.ledgers[one].admitted(at(0));
                let_in += 1;
                asked += u64::from(had_to_ask);
            }
        }
        assert_eq!(let_in, limit, "no room is lost, none is given twice");
        assert!(asked <= limit && (limit < 1_000 || asked < limit / 4), "{asked} of {limit} had to ask");
    }
}

#[test]
fn what_a_job_left_over_serves_the_next_without_asking() {
    let mut two = Two::new(limit(None, Some(10_000), Some(1)));
    assert_eq!(two.ask(0, 9_000, at(0)), Ok(true));
    two.ledgers[0].admitted(at(0));
    assert!(two.ask(0, 500, at(1)).is_err() && two.ask(1, 500, at(1)).is_err(), "one job at once");
    two.ledgers[0].end(9_000, 1_000, at(2));
    assert_eq!(two.ask(0, 8_000, at(3)), Ok(false), "its room and its place are still claimed");
    two.ledgers[0].end(8_000, 20_000, at(4));
    let refusal = two.ask(0, 1, at(5)).expect_err("it used more than was set aside, and that counts");
    assert_eq!((refusal.measure, refusal.used), (Measure::Tokens, 21_000));
}

#[test]
fn a_request_that_was_no_new_job_costs_nothing() {
    let mut two = Two::new(limit(Some(1), Some(100), Some(1)));
    assert_eq!(two.ask(0, 100, at(0)), Ok(true));
    two.ledgers[0].not_admitted();
    two.ledgers[0].end(100, 0, at(0));
    assert!(two.ask(1, 100, at(0)).is_err(), "until the claim is taken back");
    two.exchange(0, at(1));
    assert_eq!(two.ask(1, 100, at(1)), Ok(true));
    assert!(two.ledgers[0].is_blank());
}

#[test]
fn an_unknown_job_keeps_what_was_set_aside_for_it() {
    let mut two = Two::new(limit(None, Some(100), Some(1)));
    assert_eq!(two.ask(0, 100, at(0)), Ok(true));
    two.ledgers[0].admitted(at(0));
    two.ledgers[0].park(100);
    let unknown = Held { requests: 0, jobs: 1, tokens: 100 };
    for seconds in [1, 1_000] {
        two.ledgers[0].hear(&[], unknown, at(seconds));
        let refusal = two.ledgers[0].judge(&two.limit, 1, at(seconds)).expect_err("kept");
        assert_eq!(
            (refusal.used, two.ledgers[0].claim().held),
            (if refusal.limit == 1 { 1 } else { 100 }, Held::default())
        );
    }
    two.ledgers[0].hear(&[], Held::default(), at(1_001));
    two.ledgers[0].spend_tokens(60, at(1_001));
    assert_eq!(two.ledgers[0].judge(&two.limit, 40, at(1_001)), Ok(()));
    assert!(two.ledgers[0].judge(&two.limit, 41, at(1_001)).is_err(), "the late answer's cost counts when it comes");
}

fn request(body: &str) -> providers::canonical::Request {
    let Ok(Json::Object(object)) = Json::parse(body.as_bytes()) else { panic!("{body}") };
    let object: Object = object;
    providers::openai::request::parse(object).unwrap_or_else(|error| panic!("{body}: {error:?}"))
}

#[test]
fn a_guess_counts_text_tools_pictures_and_every_choice() {
    let text = "x".repeat(400);
    let body = |rest: &str| {
        let content = format!("{{\"role\":\"user\",\"content\":\"{text}\"}}");
        request(&format!("{{\"model\":\"m\",\"messages\":[{content}]{rest}}}"))
    };
    assert_eq!(estimate(&body("")), 100 + 4 + 1_024);
    assert_eq!(estimate(&body(",\"max_tokens\":50")), 100 + 4 + 50);
    assert_eq!(estimate(&body(",\"max_completion_tokens\":50,\"n\":3")), 100 + 4 + 150);
    let tool =
        ",\"max_tokens\":1,\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"look\",\"parameters\":{}}}]";
    assert_eq!(estimate(&body(tool)), 102 + 4 + 1);
    let picture = "{\"type\":\"image_url\",\"image_url\":{\"url\":\"data:image/png;base64,AAAA\"}}";
    let asked = format!(
        "{{\"model\":\"m\",\"max_tokens\":1,\"messages\":[{{\"role\":\"user\",\"content\":[{picture},{picture}]}}]}}"
    );
    assert_eq!(estimate(&request(&asked)), 2_000 + 4 + 1, "not the length of the picture's bytes");
    assert_eq!(estimate(&body(",\"max_tokens\":18446744073709551615,\"n\":9")), u64::from(u32::MAX));
}
