//! What Bedrock's complete answer other than 2xx proves: `{"message"}` with the name of the exception in the header
//! `x-amzn-errortype`, and the statuses of the table in [`crate::refusal`].
//!
//! A bare message is what any hop of Amazon's may say; it counts as Bedrock's own without the header only where it
//! refuses. A model that took too long (408) may still have been billed; one that failed (424) has ended.

use crate::adapter::Head;
use crate::compatible::Row;
use crate::failure::Failure;
use crate::json::Json;
use crate::refusal::{self, ErrorBody};

const ERROR_TYPE: &str = "x-amzn-errortype";

pub(crate) fn read(row: &Row, head: &Head, body: &[u8]) -> Failure {
    refusal::judge(row, head, own_error(head, body))
}

fn own_error(head: &Head, body: &[u8]) -> Option<ErrorBody> {
    let body = Json::parse(body).ok()?;
    // Errors of the front door write it with a capital.
    let message = body.get("message").or_else(|| body.get("Message"))?.as_str()?;
    // A signature that does not match is answered with all that was signed, the session's token among it.
    let message = message.split("The Canonical String").next().unwrap_or_default().trim_end().to_owned();
    // `ThrottlingException:http://internal.amazon.com/coral/…`
    let kind = head.headers.get(ERROR_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.and_then(|kind| kind.split([':', ',']).next()).filter(|kind| !kind.is_empty());
    let own = kind.is_some() || head.status.is_client_error();
    own.then(|| ErrorBody { message, kind: kind.map(str::to_owned), ..ErrorBody::default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compatible::row_named;
    use crate::failure::{Proof, Rejection};

    fn failure(status: u16, kind: Option<&'static str>, message: &str) -> Failure {
        let status = http::StatusCode::from_u16(status).unwrap();
        let mut headers = http::HeaderMap::new();
        if let Some(kind) = kind {
            headers.insert(ERROR_TYPE, http::HeaderValue::from_static(kind));
        }
        read(
            row_named("bedrock").unwrap(),
            &Head { status, headers },
            format!(r#"{{"message":"{message}"}}"#).as_bytes(),
        )
    }

    #[test]
    fn every_exception_proves_what_its_kind_says_and_keeps_its_words() {
        let rejected = Proof::Rejected;
        for (status, kind, message, proof) in [
            (400, "ValidationException", "The provided model identifier is invalid.", rejected(Rejection::Setup)),
            (400, "ValidationException", "messages: at least one", rejected(Rejection::BadRequest)),
            (400, "ValidationException", "Input is too long for requested model.", rejected(Rejection::ContextLength)),
            (400, "ServiceQuotaExceededException", "over the quota", rejected(Rejection::RateLimited)),
            (403, "AccessDeniedException", "no access", rejected(Rejection::Setup)),
            (
                403,
                "UnrecognizedClientException:http://a/b/",
                "The security token is invalid.",
                rejected(Rejection::Setup),
            ),
            (404, "ResourceNotFoundException", "no such thing", rejected(Rejection::Setup)),
            (408, "ModelTimeoutException", "took too long", Proof::Unknown),
            (424, "ModelErrorException", "the model failed", Proof::EndedWithoutResult),
            (429, "ThrottlingException", "Too many requests", rejected(Rejection::RateLimited)),
            (429, "ModelNotReadyException", "not ready", rejected(Rejection::RateLimited)),
            (500, "InternalServerException", "broken", Proof::EndedWithoutResult),
            (503, "ServiceUnavailableException", "busy", rejected(Rejection::Overloaded)),
        ] {
            let failure = failure(status, Some(kind), message);
            assert_eq!((failure.proof, failure.message.as_str()), (proof, message), "{kind}");
            assert_eq!(failure.kind.as_deref(), kind.split(':').next());
        }
    }

    #[test]
    fn a_signature_that_does_not_match_keeps_no_token() {
        let echoed = r"it does not match.\n\nThe Canonical String for this request should have been\n'POST\nx-amz-security-token:TOKEN'";
        let failure = failure(403, Some("InvalidSignatureException"), echoed);
        assert_eq!(
            (failure.proof, failure.message.as_str()),
            (Proof::Rejected(Rejection::Setup), "it does not match.")
        );
    }

    #[test]
    fn a_bare_message_counts_only_where_it_refuses() {
        assert_eq!(failure(400, None, "bad").proof, Proof::Rejected(Rejection::BadRequest));
        for status in [500, 502, 503, 504] {
            assert_eq!(failure(status, None, "Internal Server Error").proof, Proof::Unknown, "{status}");
        }
    }
}
