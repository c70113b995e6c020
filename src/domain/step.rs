//! The failover rule, whole: what may be done next for a job. Pure and total; the engine only obeys.
//!
//! 1. A terminal job: nothing.
//! 2. An open attempt: wait, or release it where the route declares that it may be.
//! 3. The last failure allows a retry of the same target and budget is left: that.
//! 4. The next target whose permit is valid, each at most once a round.
//! 5. Otherwise the round is over.

mod reach;

use std::collections::HashMap;
use std::time::Duration;

use providers::failure::{Proof, Rejection};
use providers::windows::Overflow;

pub use self::reach::Reach;
use self::reach::untried;

use super::Timestamp;
use super::attempt::{Attempt, AttemptState, ClearedBy, Failed};
use super::backoff;
use super::ids::AttemptId;
use super::job::{JobError, JobErrorCode, Snapshot};
use super::permit::{Permit, PermitFlaw};
use super::route::{Candidate, OnUnknown, Route, Target};

/// The longest that a call waits for a target to become available before it goes on without it.
pub const MAX_INLINE_WAIT: Duration = Duration::from_secs(20);

/// Everything that the decision depends on.
#[derive(Debug)]
pub struct Situation<'a> {
    pub snapshot: &'a Snapshot,
    pub route: &'a Route,
    /// Every permit ever granted on this route, newest first.
    pub permits: &'a [Permit],
    /// The digest that the route's suite has now; `None` where the suite cannot be read or is not named.
    pub suite_digest: Option<&'a str>,
    /// Targets whose wire format cannot carry this request, and what of it.
    pub unable: &'a HashMap<Target, String>,
    /// Targets whose window certainly does not hold this prompt: nothing of it is sent there.
    pub too_long: &'a HashMap<Target, Overflow>,
    /// Targets that are to be left alone, and until when.
    pub cooling: &'a HashMap<Target, Timestamp>,
    /// Targets whose live answers broke the contract, and in what way: only a passed run lets them back.
    pub held: &'a HashMap<Target, String>,
    pub now: Timestamp,
    /// 0..1, drawn by the caller.
    pub jitter: f64,
    /// Somebody has just asked for this job again, so a round that is over may be followed by another.
    pub fresh_call: bool,
}

impl<'a> Situation<'a> {
    fn reach(&self) -> Reach<'a> {
        let Situation { route, permits, suite_digest, unable, too_long, now, .. } = *self;
        Reach { route, permits, suite_digest, unable, too_long, now }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum NextStep {
    /// The job is over.
    Finished,
    /// This attempt is open: wait for its outcome, or for somebody to clear it.
    Wait { attempt: AttemptId },
    /// The route's policy clears this unknown attempt, since another target may be tried.
    Release { attempt: AttemptId },
    /// Start this candidate in this round, no earlier than `at`.
    Start { candidate: Candidate, round: i32, at: Timestamp },
    /// Nothing more may be tried now; the same key may try again later.
    RoundOver(JobError),
    /// The job has failed for good.
    Fail(JobError),
}

/// The decision.
pub fn next_step(s: &Situation<'_>) -> NextStep {
    let job = &s.snapshot.job;
    if job.state.is_terminal() {
        return NextStep::Finished;
    }
    if let Some(open) = s.snapshot.open_attempt() {
        return on_open(s, open);
    }
    if s.now >= job.deadline_at {
        return NextStep::Fail(error(s, JobErrorCode::JobDeadline, None));
    }
    if s.snapshot.attempts.len() >= s.route.max_attempts as usize {
        return NextStep::Fail(error(s, JobErrorCode::MaxAttempts, None));
    }
    match in_round(s, job.round) {
        NextStep::RoundOver(_) if s.fresh_call && tried(s, job.round).next().is_some() => in_round(s, job.round + 1),
        step => step,
    }
}

/// An open attempt blocks, unless it is unknown, the policy says so and there is somewhere to go.
fn on_open(s: &Situation<'_>, open: &Attempt) -> NextStep {
    let wait = NextStep::Wait { attempt: open.id };
    let may_release = matches!(open.state, AttemptState::Unknown { .. })
        && s.route.on_unknown == OnUnknown::FailOver
        && s.snapshot.attempts.len() < s.route.max_attempts as usize;
    if may_release && matches!(next_target(s, s.snapshot.job.round), Pick::Now(_) | Pick::Later(..)) {
        return NextStep::Release { attempt: open.id };
    }
    wait
}

/// What may follow the last attempt of `round`.
fn in_round(s: &Situation<'_>, round: i32) -> NextStep {
    let Some(last) = tried(s, round).last() else {
        return match advance(s, round, None) {
            // Nothing has failed that a later round could find mended.
            NextStep::RoundOver(_) if s.reach().beyond_all().is_some() => {
                NextStep::Fail(error(s, JobErrorCode::ContextLengthExceeded, None))
            }
            step => step,
        };
    };
    match &last.state {
        AttemptState::Failed(failed) if failed.by.is_none() => after_failure(s, round, last, failed),
        state if state.cleared_by_operator() => match advance(s, round, None) {
            NextStep::RoundOver(_) => again(s, round, last).unwrap_or_else(|| advance(s, round, None)),
            step => step,
        },
        AttemptState::Failed(_)
        | AttemptState::Released { .. }
        | AttemptState::Cancelled { .. }
        | AttemptState::Superseded { .. }
        | AttemptState::Succeeded
        | AttemptState::Started
        | AttemptState::Unknown { .. } => advance(s, round, None),
    }
}

fn after_failure(s: &Situation<'_>, round: i32, last: &Attempt, failed: &Failed) -> NextStep {
    match failed.proof {
        Proof::Rejected(Rejection::BadRequest) => NextStep::Fail(error(s, JobErrorCode::RequestRefused, Some(failed))),
        Proof::Rejected(Rejection::ContentPolicy) => {
            NextStep::Fail(error(s, JobErrorCode::ContentPolicy, Some(failed)))
        }
        Proof::Rejected(Rejection::ContextLength) => match advance(s, round, Some(failed)) {
            NextStep::RoundOver(_) => NextStep::Fail(error(s, JobErrorCode::ContextLengthExceeded, Some(failed))),
            step => step,
        },
        Proof::Rejected(Rejection::Billing) if !s.route.fail_over_on_billing => {
            NextStep::RoundOver(error(s, JobErrorCode::AllTargetsFailed, Some(failed)))
        }
        Proof::Rejected(Rejection::Billing | Rejection::Setup | Rejection::QuotaExhausted) => {
            advance(s, round, Some(failed))
        }
        Proof::NotSent
        | Proof::Refused
        | Proof::EndedWithoutResult
        | Proof::Rejected(Rejection::RateLimited | Rejection::Overloaded) => {
            retry(s, round, last, failed).unwrap_or_else(|| advance(s, round, Some(failed)))
        }
        // A failure is never recorded under this proof; if a newer version did, it proves nothing.
        Proof::Unknown => advance(s, round, Some(failed)),
    }
}

/// The same target once more, if its budget for this round is not used up and the wait is bearable.
fn retry(s: &Situation<'_>, round: i32, last: &Attempt, failed: &Failed) -> Option<NextStep> {
    let tries = tried(s, round).filter(|a| a.target == last.target).count() as u32;
    if tries > s.route.retries || is_passed_over(s, &last.target, round) || s.too_long.contains_key(&last.target) {
        return None;
    }
    let ended = last.ended_at.unwrap_or(s.now);
    let mut at = ended + backoff::before_retry(tries, s.jitter, failed.retry_after);
    if let Some(until) = s.cooling.get(&last.target) {
        at = at.max(*until);
    }
    let bearable = at - s.now <= MAX_INLINE_WAIT && at < s.snapshot.job.deadline_at;
    let candidate = candidate_for(s, &last.target)?.ok()?;
    bearable.then_some(NextStep::Start { candidate, round, at })
}

/// The target that an operator cleared, when nothing else is left: clearing it by name is what allows it again.
fn again(s: &Situation<'_>, round: i32, last: &Attempt) -> Option<NextStep> {
    let candidate = candidate_for(s, &last.target)?.ok()?;
    (!s.too_long.contains_key(&last.target)).then_some(NextStep::Start { candidate, round, at: s.now })
}

/// The next target of the round, or its end.
fn advance(s: &Situation<'_>, round: i32, failed: Option<&Failed>) -> NextStep {
    match next_target(s, round) {
        Pick::Now(candidate) => NextStep::Start { candidate, round, at: s.now },
        Pick::Later(candidate, at) => NextStep::Start { candidate, round, at },
        Pick::None => {
            let last = failed.or_else(|| last_failure(s));
            NextStep::RoundOver(error(s, JobErrorCode::AllTargetsFailed, last))
        }
    }
}

enum Pick {
    Now(Candidate),
    Later(Candidate, Timestamp),
    None,
}

/// The first target in the route's order that this round has not tried, that may be tried, and that is not cooling;
/// else the one that cools off first, if that is soon.
fn next_target(s: &Situation<'_>, round: i32) -> Pick {
    let mut later: Option<(Candidate, Timestamp)> = None;
    for target in &s.route.targets {
        if tried(s, round).any(|a| a.target == target.target) || still_silent(s, &target.target) {
            continue;
        }
        let Some(Ok(candidate)) = candidate_for(s, &target.target) else { continue };
        if !s.reach().takes(&target.target) || is_passed_over(s, &target.target, round) {
            continue;
        }
        match s.cooling.get(&target.target) {
            None => return Pick::Now(candidate),
            Some(until) if *until <= s.now => return Pick::Now(candidate),
            Some(until) if *until - s.now <= MAX_INLINE_WAIT => {
                if later.as_ref().is_none_or(|(_, at)| until < at) {
                    later = Some((candidate, *until));
                }
            }
            Some(_) => {}
        }
    }
    later.map_or(Pick::None, |(candidate, at)| Pick::Later(candidate, at))
}

/// A target whose live answers broke the contract waits for a passed run. The primary only as long as there is a
/// fallback to go to: one that is permitted, able, in service and not tried yet. An answer that may be broken is worth
/// more than none, and people have been told.
fn is_passed_over(s: &Situation<'_>, target: &Target, round: i32) -> bool {
    if !s.held.contains_key(target) {
        return false;
    }
    let serves = |other: &Target| {
        matches!(candidate_for(s, other), Some(Ok(_)))
            && s.reach().takes(other)
            && !s.held.contains_key(other)
            && s.cooling.get(other).is_none_or(|until| *until <= s.now)
            && !tried(s, round).any(|a| a.target == *other)
    };
    let is_primary = s.route.targets.first().is_some_and(|primary| primary.target == *target);
    !is_primary || s.route.targets.iter().skip(1).any(|other| serves(&other.target))
}

/// A target whose attempt the policy released and which has not returned yet is not asked twice.
fn still_silent(s: &Situation<'_>, target: &Target) -> bool {
    s.snapshot
        .attempts
        .iter()
        .any(|a| a.target == *target && matches!(&a.state, AttemptState::Released { by: ClearedBy::Policy(_) }))
}

fn candidate_for(s: &Situation<'_>, target: &Target) -> Option<Result<Candidate, PermitFlaw>> {
    s.reach().candidate(target)
}

fn tried<'a>(s: &'a Situation<'_>, round: i32) -> impl DoubleEndedIterator<Item = &'a Attempt> {
    s.snapshot.attempts.iter().filter(move |a| a.round == round)
}

fn last_failure<'a>(s: &'a Situation<'_>) -> Option<&'a Failed> {
    s.snapshot.attempts.iter().rev().find_map(|a| match &a.state {
        AttemptState::Failed(failed) => Some(failed),
        AttemptState::Started
        | AttemptState::Unknown { .. }
        | AttemptState::Succeeded
        | AttemptState::Released { .. }
        | AttemptState::Cancelled { .. }
        | AttemptState::Superseded { .. } => None,
    })
}

/// The error with a line for each attempt and for each fallback that may not be tried.
fn error(s: &Situation<'_>, code: JobErrorCode, last: Option<&Failed>) -> JobError {
    let mut details: Vec<String> = s.snapshot.attempts.iter().map(describe).collect();
    // Without a provider's word on it, it is our own count that says so, as it would have before there was a job.
    let counted = code == JobErrorCode::ContextLengthExceeded && last.is_none();
    if let Some(refusal) = s.reach().refusal().filter(|_| counted) {
        details.extend(refusal.details);
        return JobError { details, ..refusal };
    }
    let (unpermitted, others) = not_tried(s);
    let words = last.and_then(|f| f.message.as_deref()).filter(|m| !m.is_empty());
    let mut message = words.map_or_else(|| headline(code).to_owned(), |words| format!("{}: {words}", headline(code)));
    // Clients show the message and little else: what is missing for a failover belongs in it.
    if code == JobErrorCode::AllTargetsFailed {
        for line in &unpermitted {
            message.push_str("; ");
            message.push_str(line);
        }
    }
    let has_unpermitted = !unpermitted.is_empty();
    details.extend(unpermitted.into_iter().chain(others));
    JobError {
        code,
        message,
        status: last.and_then(client_status),
        provider_code: last.and_then(|f| f.code.clone()),
        provider_type: last.and_then(|f| f.kind.clone()),
        param: last.and_then(|f| f.param.clone()),
        retry_after_ms: soonest(s, last),
        unpermitted: has_unpermitted,
        details,
    }
}

/// The targets that no attempt went to: those without a valid permit, and those that cannot or should not serve now.
fn not_tried(s: &Situation<'_>) -> (Vec<String>, Vec<String>) {
    let (mut unpermitted, mut others) = (Vec::new(), Vec::new());
    for target in s.route.targets.iter().map(|t| &t.target) {
        if s.snapshot.attempts.iter().any(|a| a.target == *target) {
            continue;
        }
        match (candidate_for(s, target), s.held.get(target), s.reach().obstacle(target), s.cooling.get(target)) {
            (Some(Err(flaw)), ..) => unpermitted.push(untried(target, &flaw.to_string())),
            (Some(Ok(_)), Some(why), ..) => others.push(untried(target, &format!("its circuit is open: {why}"))),
            (Some(Ok(_)), None, Some(why), _) => others.push(untried(target, &why)),
            (Some(Ok(_)), None, None, Some(until)) => {
                others.push(untried(target, &format!("it is being left alone until {until}")));
            }
            (Some(Ok(_)), None, None, None) | (None, ..) => {}
        }
    }
    (unpermitted, others)
}

/// A job whose deadline has passed with nobody to see it.
pub fn overdue() -> JobError {
    let code = JobErrorCode::JobDeadline;
    JobError::new(code, headline(code), Vec::new())
}

fn headline(code: JobErrorCode) -> &'static str {
    match code {
        JobErrorCode::RequestRefused => "the provider refused this request",
        JobErrorCode::ContentPolicy => "the provider's content policy refused this request",
        JobErrorCode::ContextLengthExceeded => "the prompt does not fit the window of any target that may be tried",
        JobErrorCode::AllTargetsFailed => "every target that may be tried has failed; the same key continues this job",
        JobErrorCode::MaxAttempts => "the job used up all its attempts (max_attempts)",
        JobErrorCode::JobDeadline => "the job's deadline has passed (job_deadline)",
    }
}

/// The refusal's own status, where it is the client's to see; our set-up's faults and outages are not.
fn client_status(failed: &Failed) -> Option<u16> {
    match failed.proof {
        Proof::Rejected(Rejection::BadRequest | Rejection::ContextLength | Rejection::ContentPolicy) => failed.status,
        Proof::Rejected(Rejection::RateLimited | Rejection::QuotaExhausted) => Some(429),
        Proof::Rejected(Rejection::Overloaded) => Some(503),
        Proof::Rejected(Rejection::Setup | Rejection::Billing)
        | Proof::NotSent
        | Proof::Refused
        | Proof::EndedWithoutResult
        | Proof::Unknown => None,
    }
}

/// When it makes sense to come back: what the last refusal asked for, or when the first target cools off.
fn soonest(s: &Situation<'_>, last: Option<&Failed>) -> Option<u64> {
    let cooled = s.route.targets.iter().filter_map(|t| s.cooling.get(&t.target)).min();
    let by_circuit = cooled.and_then(|until| u64::try_from((*until - s.now).whole_milliseconds()).ok());
    let by_provider = last.and_then(|f| f.retry_after).and_then(|d| u64::try_from(d.as_millis()).ok());
    by_provider.into_iter().chain(by_circuit).max()
}

/// One attempt in a line, for errors.
pub fn describe(attempt: &Attempt) -> String {
    let state = attempt.state.as_str();
    let why = attempt.state.reason().map(|reason| format!(" ({reason})")).unwrap_or_default();
    format!("attempt {} at {}: {state}{why}", attempt.ordinal, attempt.target)
}

#[cfg(test)]
mod tests;
