//! Interlock: one durable job per intent, one winner, failover only on evidence.
pub mod cli;
pub mod config;
pub mod domain;
pub mod engine;
pub mod http;
pub mod local;
pub mod store;
pub mod telemetry;
