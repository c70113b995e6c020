//! Which targets of a route a request may go to at all, whatever has been tried: the primary and what is permitted, as far
//! as they can carry it and hold it. The same before there is a job as after each attempt.

use std::collections::HashMap;

use providers::windows::Overflow;

use crate::domain::Timestamp;
use crate::domain::job::{JobError, JobErrorCode};
use crate::domain::permit::{Permit, PermitFlaw};
use crate::domain::route::{Candidate, Route, RouteTarget, Target};

#[derive(Debug, Clone, Copy)]
pub struct Reach<'a> {
    pub route: &'a Route,
    /// Every permit ever granted on this route, newest first.
    pub permits: &'a [Permit],
    /// The digest that the route's suite has now; `None` where the suite cannot be read or is not named.
    pub suite_digest: Option<&'a str>,
    /// Targets whose wire format cannot carry this request, and what of it.
    pub unable: &'a HashMap<Target, String>,
    /// Targets whose window certainly does not hold this prompt.
    pub too_long: &'a HashMap<Target, Overflow>,
    pub now: Timestamp,
}

impl Reach<'_> {
    /// The candidate for a target of the route, or what its permit lacks. `None`: not a target of this route.
    pub(super) fn candidate(&self, target: &Target) -> Option<Result<Candidate, PermitFlaw>> {
        let position = self.route.targets.iter().position(|t| t.target == *target)?;
        if position == 0 {
            return Candidate::primary(self.route).map(Ok);
        }
        Some(self.fallback(&self.route.targets[position]))
    }

    fn fallback(&self, target: &RouteTarget) -> Result<Candidate, PermitFlaw> {
        let Some(suite) = &self.route.contract else {
            return Err(PermitFlaw::NoContract { route: self.route.name.clone(), target: target.target.clone() });
        };
        let mut flaw = PermitFlaw::Missing { suite: suite.clone(), target: target.target.clone() };
        let mut newest = true;
        for permit in self.permits.iter().filter(|p| p.facts().target == target.target) {
            match Candidate::fallback(self.route, target, self.suite_digest, permit, self.now) {
                Ok(candidate) => return Ok(candidate),
                Err(why) if newest => {
                    flaw = why;
                    newest = false;
                }
                Err(_) => {}
            }
        }
        Err(flaw)
    }

    /// Whether this target can carry and hold the request, as far as that is known.
    pub(super) fn takes(&self, target: &Target) -> bool {
        !self.unable.contains_key(target) && !self.too_long.contains_key(target)
    }

    /// The targets that may be tried, but for what they hold.
    fn too_small(&self) -> impl Iterator<Item = &Overflow> {
        let may = |target: &&RouteTarget| {
            matches!(self.candidate(&target.target), Some(Ok(_))) && !self.unable.contains_key(&target.target)
        };
        self.route.targets.iter().filter(may).filter_map(|target| self.too_long.get(&target.target))
    }

    /// What every target that may be tried is too small for. `None`: one of them may hold it, or none may be tried.
    pub(super) fn beyond_all(&self) -> Option<&Overflow> {
        let holds =
            |target: &RouteTarget| matches!(self.candidate(&target.target), Some(Ok(_))) && self.takes(&target.target);
        if self.route.targets.iter().any(holds) {
            return None;
        }
        self.too_small().next()
    }

    /// Why this request makes no job: no target that may be tried holds its prompt. The targets are told in the words
    /// that a failed job has for them.
    pub fn refusal(&self) -> Option<JobError> {
        let overflow = self.beyond_all()?;
        let (mut unpermitted, mut others) = (Vec::new(), Vec::new());
        for target in self.route.targets.iter().map(|t| &t.target) {
            match (self.candidate(target), self.obstacle(target)) {
                (Some(Err(flaw)), _) => unpermitted.push(untried(target, &flaw.to_string())),
                (_, Some(why)) => others.push(untried(target, &why)),
                _ => {}
            }
        }
        let mut error = JobError::new(JobErrorCode::ContextLengthExceeded, "", Vec::new());
        error.message = too_long(overflow, &others, &unpermitted);
        error.param = Some(overflow.param.clone());
        error.unpermitted = !unpermitted.is_empty();
        error.details = others.into_iter().chain(unpermitted).collect();
        Some(error)
    }

    /// What keeps the request from a target that may be tried otherwise.
    pub(super) fn obstacle(&self, target: &Target) -> Option<String> {
        let unable = self.unable.get(target).map(|why| format!("it cannot carry {why}"));
        unable.or_else(|| self.too_long.get(target).map(Overflow::to_string))
    }
}

pub(super) fn untried(target: &Target, why: &str) -> String {
    format!("{target} was not tried: {why}")
}

/// Clients show the message and little else: counts, windows, what is missing for a failover and the cure belong in it.
fn too_long(overflow: &Overflow, others: &[String], unpermitted: &[String]) -> String {
    let mut message = super::headline(JobErrorCode::ContextLengthExceeded).to_owned();
    for line in others.iter().chain(unpermitted) {
        message.push_str("; ");
        message.push_str(line);
    }
    let lower = overflow.answer.map(|(name, _)| format!(" or lower `{name}`")).unwrap_or_default();
    message + &format!("; shorten `{}`{lower}, or use a route to a model with a larger window", overflow.param)
}
