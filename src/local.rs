//! What a laptop needs and a data centre does not: a private Postgres, and providers that cost nothing.
//!
//! `interlock demo`, `serve` without a database URL and the tests stand on these. Nothing here is on the path of a
//! request to a real provider, and nothing here may be needed by it.

pub mod demo;
pub mod kill_table;
pub mod postgres;
pub mod sim;
