//! Interlock: one durable job per intent, one winner, failover only on evidence.
//!
//! The map, lowest layer first; each module may use those above it in this list, and the tests execute that rule
//! (`tests/it/tidy.rs`):
//!
//! - [`domain`]: jobs, attempts, permits, routes, and [`domain::step`], the failover rule whole. Pure: no I/O, no clock.
//! - [`config`]: every setting, parsed once into types. [`telemetry`]: logs and metrics, one list of names.
//! - [`store`]: all SQL, one guarded statement per transition.
//! - [`engine`]: runs jobs. The only place that holds a store and an adapter together; no SQL, no HTTP status.
//! - [`http`]: every route, and the only place that knows status codes.
//! - [`console`]: the same for people on call, as pages.
//! - [`local`]: the private Postgres, the simulated providers and the demo. [`cli`]: one file per subcommand.
//!
//! Two crates stand below: `providers` speaks to one upstream, `contracts` proves that a provider keeps a route's
//! contract. README.md walks through a job that fails over, function by function.

pub mod cli;
pub mod config;
pub mod console;
pub mod domain;
pub mod engine;
pub mod http;
pub mod local;
pub mod store;
pub mod telemetry;
