//! What Ollama's complete answer other than 2xx proves: `{"error": "text"}`, and the statuses of the table in
//! [`crate::refusal`]. There are no codes, and a 500 in that shape does not say whether the model had begun: its row
//! leaves it unknown.

use crate::adapter::Head;
use crate::compatible::Row;
use crate::error_shapes::own_error;
use crate::failure::Failure;
use crate::refusal;

pub(crate) fn read(row: &Row, head: &Head, body: &[u8]) -> Failure {
    refusal::judge(row, head, own_error(row, head.status, body))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compatible::row_named;
    use crate::failure::{Proof, Rejection};

    #[test]
    fn every_class_of_error_keeps_its_words() {
        let rejected = Proof::Rejected;
        for (status, message, proof) in [
            (400, "invalid options: temperature", rejected(Rejection::BadRequest)),
            (400, "prompt too long; exceeded max context length by 7 tokens", rejected(Rejection::ContextLength)),
            (401, "unauthorized", rejected(Rejection::Setup)),
            (404, "model \"m\" not found, try pulling it first", rejected(Rejection::Setup)),
            (429, "too many requests", rejected(Rejection::RateLimited)),
            (500, "model runner has unexpectedly stopped", Proof::Unknown),
            (503, "server busy, please try again.  maximum pending requests exceeded", rejected(Rejection::Overloaded)),
            (503, "Service Unavailable", Proof::Unknown),
            (502, "Bad Gateway", Proof::Unknown),
        ] {
            let body = crate::leftover::object([("error", message.into())]).to_bytes();
            let status = http::StatusCode::from_u16(status).unwrap();
            let head = Head { status, headers: http::HeaderMap::new() };
            let failure = read(row_named("ollama").unwrap(), &head, &body);
            assert_eq!(failure.proof, proof, "{message}");
            assert_eq!(failure.message == message, message != "Service Unavailable", "{message}");
        }
    }
}
