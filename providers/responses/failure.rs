//! What a complete answer other than 2xx proves: OpenAI's error shape, as for chat completions, and the statuses of the
//! table in [`crate::refusal`]. A response that failed comes as a 200 with `status: "failed"`, and is read as an answer.

use crate::adapter::Head;
use crate::compatible::Row;
use crate::error_shapes::own_error;
use crate::failure::Failure;
use crate::refusal;

pub(crate) fn read(row: &Row, head: &Head, body: &[u8]) -> Failure {
    refusal::judge(row, head, own_error(row, head.status, body))
}
