//! The failover rule as a table: what stands, what may come next.

use super::*;
use crate::domain::ids::{InstanceId, JobId, OwnerId, PermitId, RunId};
use crate::domain::job::{Delivery, Job, JobState, KeyOrigin};
use crate::domain::permit::{EndCause, PermitFacts, Revoked};
use crate::domain::route::{Evidence, KeyPolicy, RouteTarget, StreamDelivery};

mod windows;

const T0: Timestamp = Timestamp::UNIX_EPOCH;
const DIGEST: &str = "digest-1";

fn at(seconds: u64) -> Timestamp {
    T0 + Duration::from_secs(seconds)
}

fn target(provider: &str) -> RouteTarget {
    RouteTarget {
        target: Target { provider: provider.to_owned(), model: "m".to_owned() },
        adapter_version: "openai/1".to_owned(),
        settings_digest: "settings-1".to_owned(),
        window: None,
    }
}

fn route(providers: &[&str]) -> Route {
    Route {
        name: "support".to_owned(),
        contract: Some("triage".to_owned()),
        targets: providers.iter().map(|p| target(p)).collect(),
        attempt_timeout: Duration::from_secs(30),
        first_byte_timeout: None,
        idle_timeout: None,
        settle_timeout: Duration::from_secs(600),
        retries: 2,
        on_unknown: OnUnknown::Hold,
        stream: StreamDelivery::Live,
        idempotency: KeyPolicy::Required,
        max_attempts: 10,
        job_deadline: Duration::from_secs(86_400),
        evidence: Evidence::Live,
        permit_ttl: Duration::from_secs(86_400),
        recheck: None,
        drift: None,
        fail_over_on_billing: false,
        drop_unsupported: Vec::new(),
    }
}

fn permit_facts(provider: &str) -> PermitFacts {
    PermitFacts {
        route: "support".to_owned(),
        run: RunId::fresh(),
        mode: Evidence::Live,
        suite: "triage".to_owned(),
        suite_digest: DIGEST.to_owned(),
        target: target(provider).target,
        adapter_version: "openai/1".to_owned(),
        settings_digest: "settings-1".to_owned(),
        granted_by: "ann".to_owned(),
        reason: "tested".to_owned(),
        granted_at: T0,
        expires_at: at(1_000_000),
        revoked: None,
    }
}

fn permit(provider: &str) -> Permit {
    Permit::from_row(PermitId::fresh(), permit_facts(provider))
}

fn attempt(ordinal: i32, round: i32, provider: &str, state: AttemptState) -> Attempt {
    Attempt {
        id: AttemptId::fresh(),
        ordinal,
        round,
        target: target(provider).target,
        adapter_version: "openai/1".to_owned(),
        permit: None,
        instance: InstanceId::fresh(),
        job_version: 0,
        ended_at: (!state.is_open()).then_some(T0),
        state,
        usage: None,
        cost: None,
        dropped: Vec::new(),
        started_at: T0,
        deadline_at: at(30),
        settle_until: at(600),
    }
}

fn failed(proof: Proof) -> AttemptState {
    AttemptState::Failed(Failed {
        proof,
        reason: "x".to_owned(),
        message: Some("words".to_owned()),
        retry_after: None,
        status: Some(400),
        code: None,
        kind: None,
        param: None,
        by: None,
    })
}

fn rejected(rejection: Rejection) -> AttemptState {
    failed(Proof::Rejected(rejection))
}

fn unknown() -> AttemptState {
    AttemptState::Unknown { reason: "attempt_timeout".to_owned(), message: None }
}

fn released(by: ClearedBy) -> AttemptState {
    AttemptState::Released { by }
}

fn operator() -> ClearedBy {
    ClearedBy::Operator("ann".to_owned())
}

/// A situation that tests change in one respect.
struct World {
    route: Route,
    permits: Vec<Permit>,
    attempts: Vec<Attempt>,
    state: JobState,
    unable: HashMap<Target, String>,
    too_long: HashMap<Target, Overflow>,
    cooling: HashMap<Target, Timestamp>,
    held: HashMap<Target, String>,
    suite_digest: Option<&'static str>,
    now: Timestamp,
    fresh_call: bool,
}

impl World {
    fn new(providers: &[&str], attempts: Vec<Attempt>) -> Self {
        World {
            route: route(providers),
            permits: Vec::new(),
            attempts,
            state: JobState::Queued,
            unable: HashMap::new(),
            too_long: HashMap::new(),
            cooling: HashMap::new(),
            held: HashMap::new(),
            suite_digest: Some(DIGEST),
            now: at(1),
            fresh_call: false,
        }
    }

    fn permit(mut self, provider: &str) -> Self {
        self.permits.push(permit(provider));
        self
    }

    fn next(&self) -> NextStep {
        let round = self.attempts.last().map_or(1, |a| a.round);
        let job = Job {
            owner: OwnerId::fresh(),
            id: JobId::fresh(),
            idempotency_key: "k".to_owned(),
            key_origin: KeyOrigin::Client,
            fingerprint: [0; 32],
            fingerprint_version: 1,
            url: "/v1/chat/completions".to_owned(),
            route: "support".to_owned(),
            delivery: Delivery::Sync,
            state: self.state,
            version: 0,
            round,
            error: None,
            resume_at: None,
            created_at: T0,
            updated_at: T0,
            deadline_at: at(86_400),
            reserved_tokens: None,
        };
        let snapshot = Snapshot { job, attempts: self.attempts.clone(), read_at: self.now };
        next_step(&Situation {
            snapshot: &snapshot,
            route: &self.route,
            permits: &self.permits,
            suite_digest: self.suite_digest,
            unable: &self.unable,
            too_long: &self.too_long,
            cooling: &self.cooling,
            held: &self.held,
            now: self.now,
            jitter: 0.0,
            fresh_call: self.fresh_call,
        })
    }
}

/// `provider@round+wait` of a start, or the step's name.
fn told(step: &NextStep, now: Timestamp) -> String {
    match step {
        NextStep::Finished => "finished".to_owned(),
        NextStep::Wait { .. } => "wait".to_owned(),
        NextStep::Release { .. } => "release".to_owned(),
        NextStep::Start { candidate, round, at } => {
            format!("{}@{round}+{}", candidate.target().provider, (*at - now).whole_milliseconds())
        }
        NextStep::RoundOver(error) => format!("over: {}", error.code.as_str()),
        NextStep::Fail(error) => format!("fail: {}", error.code.as_str()),
    }
}

fn next_of(world: &World) -> String {
    told(&world.next(), world.now)
}

#[test]
fn a_terminal_job_is_left_alone() {
    for state in [JobState::Failed, JobState::Cancelled, JobState::Succeeded { completed_by: AttemptId::fresh() }] {
        let world = World { state, fresh_call: true, ..World::new(&["a"], vec![]) };
        assert_eq!(next_of(&world), "finished");
    }
}

#[test]
fn the_first_attempt_goes_to_the_primary_without_a_permit() {
    assert_eq!(next_of(&World::new(&["a", "b"], vec![])), "a@1+0");
}

#[test]
fn an_open_attempt_blocks_whatever_the_permits_say() {
    for state in [AttemptState::Started, unknown()] {
        let world = World::new(&["a", "b"], vec![attempt(1, 1, "a", state)]).permit("b");
        assert_eq!(next_of(&world), "wait");
    }
}

#[test]
fn only_the_policy_releases_and_only_where_a_permitted_target_is_left() {
    let mut world = World::new(&["a", "b"], vec![attempt(1, 1, "a", unknown())]);
    world.route.on_unknown = OnUnknown::FailOver;
    assert_eq!(next_of(&world), "wait", "b holds no permit");
    world.permits.push(permit("b"));
    assert_eq!(next_of(&world), "release");
    world.attempts[0].state = AttemptState::Started;
    assert_eq!(next_of(&world), "wait", "started is not unknown");
    world.attempts[0].state = unknown();
    world.route.max_attempts = 1;
    assert_eq!(next_of(&world), "wait", "no attempt is left");
}

#[test]
fn after_a_release_the_next_permitted_target_is_tried_and_the_silent_one_is_not_asked_twice() {
    let silent = attempt(1, 1, "a", released(ClearedBy::Policy("support".to_owned())));
    let mut world = World::new(&["a", "b"], vec![silent]).permit("b");
    assert_eq!(next_of(&world), "b@1+0");
    world.attempts.push(attempt(2, 1, "b", rejected(Rejection::QuotaExhausted)));
    assert_eq!(next_of(&world), "over: all_targets_failed");
    world.fresh_call = true;
    assert_eq!(next_of(&world), "b@2+0", "a is still silent, so the new round begins at b");
}

#[test]
fn what_an_operator_clears_opens_the_way_to_the_next_target_or_else_to_the_same() {
    for state in [
        released(operator()),
        AttemptState::Cancelled { by: operator() },
        AttemptState::Failed(Failed {
            by: Some(operator()),
            ..match failed(Proof::EndedWithoutResult) {
                AttemptState::Failed(failed) => failed,
                other => panic!("{other:?}"),
            }
        }),
    ] {
        let world = World::new(&["a", "b"], vec![attempt(1, 1, "a", state.clone())]);
        assert_eq!(next_of(&world), "a@1+0", "nothing else is permitted: {state:?}");
        assert_eq!(next_of(&world.permit("b")), "b@1+0", "{state:?}");
    }
}

#[test]
fn each_proof_allows_what_it_allows() {
    let table = [
        (Proof::NotSent, "a@1+0", "b@1+0"),
        (Proof::Refused, "a@1+0", "b@1+0"),
        (Proof::EndedWithoutResult, "a@1+0", "b@1+0"),
        (Proof::Rejected(Rejection::RateLimited), "a@1+0", "b@1+0"),
        (Proof::Rejected(Rejection::Overloaded), "a@1+0", "b@1+0"),
        (Proof::Rejected(Rejection::QuotaExhausted), "b@1+0", "b@1+0"),
        (Proof::Rejected(Rejection::Setup), "b@1+0", "b@1+0"),
        (Proof::Rejected(Rejection::ContextLength), "b@1+0", "b@1+0"),
        (Proof::Rejected(Rejection::Billing), "over: all_targets_failed", "over: all_targets_failed"),
        (Proof::Rejected(Rejection::BadRequest), "fail: request_refused", "fail: request_refused"),
        (Proof::Rejected(Rejection::ContentPolicy), "fail: content_policy", "fail: content_policy"),
    ];
    for (proof, with_budget, without) in table {
        let mut world = World::new(&["a", "b"], vec![attempt(1, 1, "a", failed(proof))]).permit("b");
        world.now = at(10);
        let fallen: String = next_of(&world).split('+').next().map(|head| head.to_owned() + "+0").unwrap_or_default();
        let wanted = if with_budget.contains('+') { with_budget.to_owned() } else { with_budget.to_owned() + "+0" };
        assert_eq!(fallen, wanted, "{proof:?} with retries left");
        world.route.retries = 0;
        assert_eq!(next_of(&world), without, "{proof:?} without retries");
    }
}

#[test]
fn billing_fails_over_only_where_the_route_says_so() {
    let mut world = World::new(&["a", "b"], vec![attempt(1, 1, "a", rejected(Rejection::Billing))]).permit("b");
    world.route.fail_over_on_billing = true;
    assert_eq!(next_of(&world), "b@1+0");
}

#[test]
fn retries_wait_longer_each_time_and_never_less_than_asked() {
    let overloaded = || attempt(1, 1, "a", rejected(Rejection::Overloaded));
    let mut world = World::new(&["a"], vec![overloaded()]);
    world.now = T0;
    assert_eq!(next_of(&world), "a@1+500");
    world.attempts.push(attempt(2, 1, "a", rejected(Rejection::Overloaded)));
    assert_eq!(next_of(&world), "a@1+1000");
    world.attempts.push(attempt(3, 1, "a", rejected(Rejection::Overloaded)));
    assert_eq!(next_of(&world), "over: all_targets_failed", "two retries are all");
}

#[test]
fn a_wait_that_nobody_would_bear_fails_over_at_once() {
    let mut asked = attempt(1, 1, "a", rejected(Rejection::RateLimited));
    if let AttemptState::Failed(failed) = &mut asked.state {
        failed.retry_after = Some(Duration::from_secs(1_382_400));
    }
    let mut world = World::new(&["a", "b"], vec![asked]).permit("b");
    assert_eq!(next_of(&world), "b@1+0");
    world.permits.clear();
    match world.next() {
        NextStep::RoundOver(error) => {
            assert_eq!(error.status, Some(429));
            assert_eq!(error.retry_after_ms, Some(1_382_400_000));
            assert!(error.unpermitted);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn cooling_targets_are_skipped_and_waited_for_only_if_soon() {
    let mut world = World::new(&["a", "b"], vec![]).permit("b");
    world.cooling.insert(target("a").target, at(5));
    assert_eq!(next_of(&world), "b@1+0");
    world.permits.clear();
    assert_eq!(next_of(&world), "a@1+4000");
    world.cooling.insert(target("a").target, at(500));
    assert_eq!(next_of(&world), "over: all_targets_failed");
}

#[test]
fn a_round_that_is_over_is_followed_by_another_only_when_somebody_asks() {
    let mut world = World::new(&["a"], vec![attempt(1, 1, "a", rejected(Rejection::Setup))]);
    assert_eq!(next_of(&world), "over: all_targets_failed");
    world.fresh_call = true;
    assert_eq!(next_of(&world), "a@2+0");
}

#[test]
fn attempts_and_time_are_bounded() {
    let mut world = World::new(&["a"], (1..=10).map(|n| attempt(n, n, "a", rejected(Rejection::Setup))).collect());
    world.fresh_call = true;
    assert_eq!(next_of(&world), "fail: max_attempts");
    world.attempts.truncate(1);
    world.now = at(86_400);
    assert_eq!(next_of(&world), "fail: job_deadline");
    world.attempts[0].state = unknown();
    assert_eq!(next_of(&world), "wait", "an unknown attempt blocks even then");
}

/// A change to a permit's facts, or to the route or the suite.
type Flaw = Box<dyn Fn(&mut World, &mut PermitFacts)>;

#[test]
fn every_flaw_of_a_permit_is_named_and_closes_the_fallback() {
    let revoked = |cause| Some(Revoked { at: T0, by: "bob".to_owned(), reason: "too slow".to_owned(), cause });
    let flaws: [(&str, Flaw); 12] = [
        ("expired", Box::new(|_, facts| facts.expires_at = at(1))),
        ("was revoked by bob: too slow", Box::new(move |_, facts| facts.revoked = revoked(EndCause::Operator))),
        ("was revoked by bob: too slow", Box::new(move |_, facts| facts.revoked = revoked(EndCause::Drift))),
        ("ended: too slow", Box::new(move |_, facts| facts.revoked = revoked(EndCause::Changed))),
        ("is for b/other", Box::new(|_, facts| facts.target.model = "other".to_owned())),
        ("is for", Box::new(|_, facts| facts.route = "elsewhere".to_owned())),
        ("ended: the suite changed since run", Box::new(|world, _| world.suite_digest = Some("digest-2"))),
        ("suite `triage` cannot be read", Box::new(|world, _| world.suite_digest = None)),
        ("ended: the adapter changed since run", Box::new(|_, facts| facts.adapter_version = "openai/0".to_owned())),
        ("the settings of provider `b` changed", Box::new(|_, facts| facts.settings_digest = "settings-0".to_owned())),
        ("replayed run", Box::new(|_, facts| facts.mode = Evidence::Replay)),
        ("names no contract", Box::new(|world, _| world.route.contract = None)),
    ];
    for (words, change) in flaws {
        let mut world = World::new(&["a", "b"], vec![attempt(1, 1, "a", rejected(Rejection::Setup))]);
        let mut facts = permit_facts("b");
        change(&mut world, &mut facts);
        world.permits.push(Permit::from_row(PermitId::fresh(), facts));
        let NextStep::RoundOver(error) = world.next() else { panic!("{words}: the fallback was tried") };
        let told = error.details.join("\n");
        // A permit for another model is no permit for this one.
        let wanted =
            if words.starts_with("is for b/other") { "no permit: run the suite `triage` against b/m" } else { words };
        assert!(told.contains(wanted), "{words}: {told}");
        assert!(error.unpermitted);
    }
}

#[test]
fn a_target_that_cannot_carry_the_request_is_not_tried_and_the_error_says_why() {
    let first = attempt(1, 1, "a", rejected(Rejection::Setup));
    let mut world = World::new(&["a", "b", "c"], vec![first]).permit("b").permit("c");
    world.unable.insert(target("b").target, "logprobs: it has none".to_owned());
    assert_eq!(next_of(&world), "c@1+0");
    world.permits.truncate(1);
    let NextStep::RoundOver(error) = world.next() else { panic!("b was tried") };
    assert!(error.details.contains(&"b/m was not tried: it cannot carry logprobs: it has none".to_owned()));
}

#[test]
fn a_held_target_is_passed_over_and_not_retried_and_a_held_primary_is_the_last_resort() {
    let mut world = World::new(&["a", "b", "c"], vec![]).permit("b").permit("c");
    world.held.insert(target("a").target, "9 of 20 answers broke it".to_owned());
    assert_eq!(next_of(&world), "b@1+0", "the primary too");
    world.held.insert(target("b").target, "all of them broke it".to_owned());
    assert_eq!(next_of(&world), "c@1+0");
    world.attempts = vec![attempt(1, 1, "a", rejected(Rejection::Overloaded))];
    assert_eq!(next_of(&world), "c@1+0", "a failure that would be retried is not");
    world.permits.truncate(1);
    world.attempts = vec![attempt(1, 1, "a", rejected(Rejection::Setup))];
    let NextStep::RoundOver(error) = world.next() else { panic!("a held target was tried") };
    let told = "b/m was not tried: its circuit is open: all of them broke it";
    assert!(error.details.iter().any(|line| line == told), "{:?}", error.details);
    world.attempts.clear();
    assert_eq!(next_of(&world), "a@1+0", "no fallback may be tried: the primary still answers");
    world.held.remove(&target("b").target);
    world.attempts = vec![attempt(1, 1, "b", rejected(Rejection::Setup))];
    assert_eq!(next_of(&world), "a@1+0", "the fallback has been tried, and failed");
    world.attempts.clear();
    world.cooling.insert(target("b").target, at(5));
    assert_eq!(next_of(&world), "a@1+0", "the fallback is out of service");
}

#[test]
fn without_any_permit_the_error_says_what_to_run() {
    let world = World::new(&["a", "b"], vec![attempt(1, 1, "a", rejected(Rejection::Setup))]);
    let NextStep::RoundOver(error) = world.next() else { panic!("a fallback without a permit") };
    assert_eq!(error.details[0], "attempt 1 at a/m: failed (x)");
    assert_eq!(error.details[1], "b/m was not tried: no permit: run the suite `triage` against b/m and grant one");
    assert_eq!(error.status, None, "our set-up's fault is not the client's");
}

#[test]
fn a_valid_permit_among_flawed_ones_is_enough() {
    let mut world = World::new(&["a", "b"], vec![attempt(1, 1, "a", rejected(Rejection::Setup))]).permit("b");
    let mut old = permit_facts("b");
    old.expires_at = T0;
    world.permits.insert(0, Permit::from_row(PermitId::fresh(), old));
    assert_eq!(next_of(&world), "b@1+0");
}

#[test]
fn the_rule_is_total_over_every_pair_of_attempts() {
    let states = || {
        let mut all: Vec<AttemptState> = vec![
            AttemptState::Started,
            unknown(),
            AttemptState::Succeeded,
            released(operator()),
            released(ClearedBy::Policy("support".to_owned())),
            AttemptState::Cancelled { by: ClearedBy::Owner },
            AttemptState::Superseded { by: operator() },
        ];
        all.extend([Proof::NotSent, Proof::Unknown, Proof::Rejected(Rejection::BadRequest)].map(failed));
        all
    };
    for first in states() {
        for second in states() {
            for fresh_call in [false, true] {
                let attempts = vec![attempt(1, 1, "a", first.clone()), attempt(2, 1, "b", second.clone())];
                let open = attempts.iter().filter(|a| a.state.is_open()).count();
                let world = World { fresh_call, ..World::new(&["a", "b"], attempts) }.permit("b");
                let step = world.next();
                let starts = matches!(step, NextStep::Start { .. });
                assert!(!(starts && open > 0), "{first:?}, {second:?}: started beside an open attempt");
            }
        }
    }
}
