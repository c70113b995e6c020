//! The shapes in which providers write their errors. Only those that a provider's row lists count as its own; anything
//! else was written by some hop, and proves nothing ([`crate::refusal`]).
//!
//! So each shape is read narrowly: `{"error": "Internal Server Error"}` is what many a framework between us and a
//! provider says, and must not pass for the provider's own word.

use http::StatusCode;

use crate::compatible::{ErrorShape, Row};
use crate::json::Json;
use crate::refusal::ErrorBody;

/// The error in the body, where it has one of the provider's own shapes.
pub(crate) fn own_error(row: &Row, status: StatusCode, body: &[u8]) -> Option<ErrorBody> {
    let body = Json::parse(body).ok()?;
    row.error_shapes.iter().find_map(|shape| in_shape(*shape, status, &body))
}

fn in_shape(shape: ErrorShape, status: StatusCode, body: &Json) -> Option<ErrorBody> {
    match shape {
        ErrorShape::OpenAi => described(body.get("error")?),
        ErrorShape::Anthropic => described(body.get("error")?).filter(|_| is_word(body.get("type"), "error")),
        ErrorShape::TopLevel => described(body).filter(|_| is_word(body.get("object"), "error")),
        // The provider's own where it refuses; when something broke, any hop that is built on FastAPI says it.
        ErrorShape::Detail if status.is_client_error() => detail(body.get("detail")?),
        ErrorShape::Detail => None,
        ErrorShape::Google => google(body),
        ErrorShape::Text => {
            let message = body.get("error")?.as_str()?.to_owned();
            let busy = status != StatusCode::SERVICE_UNAVAILABLE || message.contains("server busy");
            busy.then(|| ErrorBody { message, ..ErrorBody::default() })
        }
        ErrorShape::TextAndType => {
            let message = body.get("error")?.as_str()?.to_owned();
            let kind = body.get("error_type")?.as_str()?.to_owned();
            Some(ErrorBody { message, kind: Some(kind), ..ErrorBody::default() })
        }
        ErrorShape::Cohere => {
            let message = body.get("message")?.as_str()?.to_owned();
            let kind = body.get("error_type").and_then(Json::as_str).map(str::to_owned);
            let named = kind.is_some() || body.get("id").and_then(Json::as_str).is_some();
            named.then(|| ErrorBody { message, kind, ..ErrorBody::default() })
        }
        ErrorShape::Xai => {
            let message = body.get("error")?.as_str()?.to_owned();
            let code = body.get("code")?.as_str()?.to_owned();
            Some(ErrorBody { message, code: Some(code), ..ErrorBody::default() })
        }
    }
}

/// The number in `code` is the status again; what matters is `status`, and the first `reason` among the details.
fn google(body: &Json) -> Option<ErrorBody> {
    let body = match body.as_array() {
        Some([only]) => only,
        Some(_) => return None,
        None => body,
    };
    let error = body.get("error")?;
    let status = error.get("status").and_then(Json::as_str).map(str::to_owned);
    let message = error.get("message").and_then(Json::as_str).unwrap_or_default().to_owned();
    if error.get("code").and_then(Json::as_u64).is_none() || (message.is_empty() && status.is_none()) {
        return None;
    }
    let details = error.get("details").and_then(Json::as_array).unwrap_or_default();
    let code = details.iter().find_map(|detail| detail.get("reason")?.as_str()).map(str::to_owned);
    Some(ErrorBody { message, kind: status, code, ..ErrorBody::default() })
}

fn is_word(value: Option<&Json>, word: &str) -> bool {
    value.and_then(Json::as_str) == Some(word)
}

/// An error object that says something by one of the usual members.
fn described(error: &Json) -> Option<ErrorBody> {
    let read = object(error.as_object().map(|_| error)?);
    (!read.message.is_empty() || read.code.is_some() || read.kind.is_some()).then_some(read)
}

fn object(error: &Json) -> ErrorBody {
    let inner = |object: &str, name: &str| error.get(object)?.get(name)?.as_str().map(str::to_owned);
    let mut read = ErrorBody::from_members(error);
    // Azure puts the policy's code one level deeper, Anthropic a finer one.
    read.kind = read.kind.or_else(|| inner("innererror", "code"));
    read.code = read.code.or_else(|| inner("details", "error_code"));
    // OpenRouter's own message is "Provider returned error"; this is what the provider behind it said.
    if let Some(raw) = inner("metadata", "raw") {
        read.message = format!("{}: {raw}", read.message);
    }
    read
}

/// The `error` member of a 200: there it is an error whatever its type (field case B019), for nobody else speaks.
pub(crate) fn error_within_success(error: &Json) -> ErrorBody {
    match error {
        Json::String(message) => ErrorBody { message: message.clone(), ..ErrorBody::default() },
        other => object(other),
    }
}

/// FastAPI's `{"detail": text or list}`.
fn detail(detail: &Json) -> Option<ErrorBody> {
    let message = match detail {
        Json::String(text) => text.clone(),
        Json::Array(items) => {
            let texts = items.iter().filter_map(|item| item.get("msg").and_then(Json::as_str));
            texts.collect::<Vec<_>>().join("; ")
        }
        _ => return None,
    };
    Some(ErrorBody { message, ..ErrorBody::default() })
}
