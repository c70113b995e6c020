//! What Cohere's complete answer other than 2xx proves: `{"id", "message"[, "error_type"]}`, and the statuses of the
//! table in [`crate::refusal`].

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

    fn failure(status: u16, body: &str) -> Failure {
        let status = http::StatusCode::from_u16(status).unwrap();
        read(row_named("cohere").unwrap(), &Head { status, headers: http::HeaderMap::new() }, body.as_bytes())
    }

    #[test]
    fn every_class_of_error_keeps_its_words() {
        let rejected = Proof::Rejected;
        for (status, message, proof) in [
            (400, "invalid request: message must be at least 1 token long", rejected(Rejection::BadRequest)),
            (401, "Incorrect API key provided", rejected(Rejection::Setup)),
            (404, "model 'x' not found", rejected(Rejection::Setup)),
            (
                429,
                "You are past the per minute request limit, please wait and try again later.",
                rejected(Rejection::RateLimited),
            ),
            (500, "internal server error", Proof::EndedWithoutResult),
            (503, "service unavailable", rejected(Rejection::Overloaded)),
            (504, "timed out", Proof::Unknown),
            (499, "request cancelled", Proof::Unknown),
        ] {
            let failure = failure(status, &format!(r#"{{"id":"x","message":"{message}"}}"#));
            assert_eq!((failure.proof, failure.message.as_str()), (proof, message));
        }
        let long =
            failure(400, r#"{"error_type":"TOO_MANY_TOKENS","message":"too many tokens: size limit exceeded by 7"}"#);
        assert_eq!(long.proof, rejected(Rejection::ContextLength));
    }

    #[test]
    fn a_bare_message_is_nobodys_word() {
        assert_eq!(failure(500, r#"{"message":"Internal Server Error"}"#).proof, Proof::Unknown);
    }
}
