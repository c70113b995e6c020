//! What Anthropic's complete answer other than 2xx proves: `{"type": "error", "error": {"type", "message"}}`, and the
//! statuses of the table in [`crate::refusal`]. `overloaded_error` comes as 529.

use crate::adapter::Head;
use crate::compatible::Row;
use crate::error_shapes::own_error;
use crate::failure::Failure;
use crate::refusal;

pub(crate) fn read(row: &Row, head: &Head, body: &[u8]) -> Failure {
    refusal::judge(row, head, own_error(row, head.status, body))
}
