//! OpenAI responses as a client speaks them (OpenAPI 2.3.0: `createResponse`, `Response`, `ResponseStreamEvent`; read
//! 2026-11-30).

mod items;
pub(super) mod reply;
pub(super) mod request;
pub(super) mod stream;
#[cfg(test)]
mod tests;

pub use items::listed_items;
pub(crate) use reply::is_own_id;
pub use reply::{id, stem_of, unfinished};
pub use request::{continued, input_items, wants_background};
