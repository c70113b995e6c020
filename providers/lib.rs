//! Speak to one upstream: pure translation over one shared transport.
//!
//! This crate knows no job, no SQL and no HTTP server. It answers three questions: how does a canonical request look
//! on this provider's wire, what does the provider's answer mean, and **what does a failure prove**.
//!
//! Modules, lowest first: [`json`] (exact JSON: digits kept, duplicate names refused), [`canonical`] (request, reply,
//! usage, stop reason), [`failure`] (the proof table), [`adapter`] (the trait: pure translation), [`compatible`] (the
//! providers as data rows), [`refusal`] with [`retry_after`] (from a complete refusal to its proof), [`sse`] and
//! [`ndjson`] and `eventstream` with `stream` (streams, and what the decoders of all protocols share), `draft` and
//! `leftover` (what all formats that are translated share: an answer as it is put together, and what of a request has
//! no place), [`openai`], [`responses`], [`anthropic`], [`gemini`], [`ollama`], [`cohere`] and [`bedrock`] (one folder
//! a wire format: `request`, `reply`, `stream`, `failure`), [`lookup`] (asking what became of a lost answer),
//! [`transport`] (the only user of the HTTP client), [`tokens`] (local counters), [`dialects`] (what clients speak: into the
//! canonical form and back).
//!
//! # How to add a provider
//!
//! A provider that speaks a protocol that stands here is one [`compatible::Row`] in `compatible/rows.rs`, and nothing
//! else: its name, what it does otherwise (the parameters that it refuses or ignores, where its key goes, the shapes
//! and statuses of its errors, its own finish words), and the page with the date you read it. `scaleway` took 19 lines
//! in that one file, 13 of them the parameters that it does not take. Then steps 5 and 6.
//!
//! A protocol of its own:
//!
//! 1. Make a folder with the names that every provider's folder has (`request`, `reply`, `stream`, `failure`) and a
//!    struct that holds its row and implements [`adapter::Adapter`]; `cohere` is the shortest to begin from. Name it
//!    here, and in `compatible.rs` its [`compatible::Protocol`], the struct that speaks it, and its row.
//! 2. `to_upstream` translates, with `leftover` refusing by name what has no place ([`adapter::Unsupported`]): nothing
//!    is dropped.
//! 3. `from_upstream` and the stream's decoder tell a `draft` what was said, so that whole and streamed answers mean
//!    the same. An answer has ended only when the protocol's own terminal event was seen; no finish reason goes out
//!    before.
//! 4. `from_failure` reduces each answer to what it proves ([`failure::Proof`]): write the provider's error shape into
//!    `error_shapes.rs`; a body in any other proves nothing. When in doubt: unknown.
//! 5. Put `request` and `response` of every case into `fixtures/<provider>/` and the folder's name into `fixtures.rs`
//!    (for a row: only if its bodies differ). With `INTERLOCK_WRITE_FIXTURES=1` the tests write the rest and the
//!    matrix: read every line of it before it counts. From there on the fixtures, the cuts, the spoilers of `totality`
//!    and the matrix hold the new adapter too.
//! 6. Run a contract suite against the real provider (`interlock contract run`): without a pass no fallback goes there.

#![allow(clippy::result_large_err, reason = "a Failure is made once per failed call: its size costs nothing there")]

pub mod adapter;
pub mod anthropic;
mod auth;
pub mod bedrock;
mod call_id;
pub mod canonical;
pub mod cohere;
pub mod compatible;
pub mod dialects;
mod draft;
pub mod dropping;
mod error_shapes;
mod eventstream;
pub mod failure;
#[cfg(test)]
mod fixtures;
pub mod gemini;
pub mod json;
mod leftover;
pub mod lookup;
#[cfg(test)]
mod matrix;
pub mod ndjson;
mod numbered;
pub mod ollama;
pub mod openai;
mod pages;
pub mod prices;
#[cfg(test)]
mod recordings;
pub mod refusal;
pub mod responses;
pub mod retry_after;
pub mod sse;
mod stream;
pub mod tokens;
#[cfg(test)]
mod totality;
#[cfg(test)]
mod translated;
pub mod transport;
pub mod windows;
mod wording;
