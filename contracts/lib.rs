//! Prove that a provider keeps a route's contract.
//!
//! A [`suite`] states what a route's consumer relies on; a [`runner`] asks a provider through an [`upstream`] (live,
//! recording, or replaying what was recorded) and judges the answers by three kinds of [`check`]s: [`schema`],
//! [`tokenizer`] and [`round_trip`]. What comes out is a [`report`], and only a report whose three kinds all passed
//! yields [`report::Evidence`], the one thing a permit can be made from.
//!
//! This crate knows providers; it never sees a job, a database or an HTTP server. It never repairs an answer: what the
//! consumer could not read has failed.

pub mod assertion;
pub mod budget;
pub mod check;
pub mod estimate;
mod expression;
pub mod live;
pub mod observation;
mod probe;
mod program;
pub mod recording;
pub mod report;
pub mod round_trip;
pub mod runner;
pub mod sampling;
pub mod scaffold;
pub mod schema;
pub mod suite;
mod template;
pub mod tokenizer;
pub mod upstream;

#[cfg(test)]
mod refused;
#[cfg(test)]
mod sound;

pub use check::{CheckResult, Kind, Verdict};
pub use report::{Evidence, NotPassed, Report};
pub use runner::{Options, Progress, TargetInfo, run, run_with};
pub use suite::{Suite, SuiteError};
pub use upstream::{LiveUpstream, Mode, RecordingUpstream, ReplayUpstream, Upstream};
