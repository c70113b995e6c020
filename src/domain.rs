//! What Interlock is about, as pure types: no I/O, no clock, no randomness. `now` is always an argument.
//!
//! Read [`step`] first: it is the failover rule, whole. [`route`] and [`permit`] hold the types that make a fallback
//! without evidence unbuildable.

pub mod absence;
pub mod api_key;
pub mod attempt;
pub mod backoff;
pub mod circuit;
pub mod cost;
pub mod drift;
pub mod fingerprint;
pub mod hex;
pub mod ids;
pub mod job;
pub mod key;
pub mod limits;
pub mod notice;
pub mod overload;
pub mod permit;
pub mod route;
pub mod step;

/// A point in time, always in UTC, from the database's clock unless a name says otherwise.
pub type Timestamp = time::OffsetDateTime;
