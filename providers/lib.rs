//! Speak to one upstream: pure translation over one shared transport.
//!
//! This crate knows no job, no SQL and no HTTP server. It answers three questions: how does a canonical request look
//! on this provider's wire, what does the provider's answer mean, and **what does a failure prove**.
//!
//! Modules, lowest first: [`json`] (exact JSON: digits kept, duplicate names refused), [`canonical`] (request, reply,
//! usage, stop reason), [`failure`] (the proof table), [`adapter`] (the trait: pure translation), [`compatible`] (the
//! providers as data rows), [`refusal`] with [`retry_after`] (from a complete refusal to its proof), [`sse`] and
//! `stream` (event streams, and what the decoders of all protocols share), [`openai`], [`responses`] and [`anthropic`]
//! (one folder a wire format: `request`, `reply`, `stream`, `failure`), [`lookup`] (asking what became of a lost
//! answer), [`transport`] (the only user of the HTTP client), [`tokens`] (local counters).
//!
//! # How to add a provider
//!
//! 1. Does it speak a protocol that stands here already? Then it is a row in [`compatible`], and you are done after
//!    step 5: state its deviations there, with the page and the date you read them.
//! 2. Otherwise make a folder with the names that every provider's folder has (`request`, `reply`, `stream`, `failure`)
//!    and a struct that holds its row and implements [`adapter::Adapter`]. Its error shape becomes an
//!    [`compatible::ErrorShape`], its protocol a [`compatible::Protocol`].
//! 3. `to_upstream` names every parameter that it cannot carry ([`adapter::Unsupported`]); nothing is dropped.
//! 4. `from_failure` reduces each answer to what it proves ([`failure::Proof`]); when in doubt: unknown.
//!    A stream is an answer only when the protocol's own terminal event was seen; no finish reason goes out before.
//! 5. Add fixtures under `fixtures/<provider>/` with the case names of the other folders.
//! 6. Register it in [`compatible::adapter_named`].

#![allow(clippy::result_large_err, reason = "a Failure is made once per failed call: its size costs nothing there")]

pub mod adapter;
pub mod anthropic;
mod call_id;
pub mod canonical;
pub mod compatible;
mod error_shapes;
pub mod failure;
#[cfg(test)]
mod fixtures;
pub mod json;
pub mod lookup;
pub mod openai;
pub mod refusal;
pub mod responses;
pub mod retry_after;
pub mod sse;
mod stream;
pub mod tokens;
#[cfg(test)]
mod totality;
pub mod transport;
mod wording;
