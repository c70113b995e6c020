//! Anthropic messages as a client speaks them (platform.claude.com/docs/en/api/messages and …/streaming, version
//! 2023-06-01; read 2026-11-30).

pub(super) mod reply;
pub(super) mod request;
pub(super) mod stream;
#[cfg(test)]
mod tests;

pub(crate) use reply::input;
