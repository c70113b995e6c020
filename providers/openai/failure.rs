//! What an OpenAI-like provider's complete answer other than 2xx proves: its shapes are those of its row, its statuses
//! those of the table in [`crate::refusal`].

use crate::adapter::Head;
use crate::compatible::Row;
use crate::error_shapes::own_error;
use crate::failure::Failure;
use crate::refusal;

pub(crate) fn read(row: &Row, head: &Head, body: &[u8]) -> Failure {
    refusal::judge(row, head, own_error(row, head.status, body))
}

#[cfg(test)]
mod tests;
