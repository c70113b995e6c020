//! A fresh id for every request: in a header of every answer, under the name that the dialect's clients read, and in
//! the errors of those dialects that tell it there too. It is never stored and never replayed.

use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;
use uuid::Uuid;

use super::problem::Shape;

tokio::task_local! {
    static CURRENT: String;
}

/// The id of the request that this task answers; `None` behind its head, where a stream goes on by itself.
pub fn current() -> Option<String> {
    CURRENT.try_with(Clone::clone).ok()
}

pub async fn stamp(request: Request, next: Next) -> Response {
    let id = format!("req_{}", Uuid::now_v7().simple());
    let is_anthropic = Shape::of_request(request.uri().path(), request.headers()) == Shape::Anthropic;
    let mut response = CURRENT.scope(id.clone(), next.run(request)).await;
    if let Ok(id) = HeaderValue::from_str(&id) {
        let out = response.headers_mut();
        if is_anthropic {
            out.insert(HeaderName::from_static("request-id"), id.clone());
        }
        out.insert(HeaderName::from_static("x-request-id"), id);
    }
    response
}
