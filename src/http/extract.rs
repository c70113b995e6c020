//! axum's extractors with this gateway's own errors: a path or a query that cannot be read is a problem like any other.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::response::Response;
use serde::de::DeserializeOwned;

use super::problem::{Problem, Shape};

/// A piece of the path. What cannot be an id is answered as an id that is not there (R11).
#[derive(Debug)]
pub struct Path<T>(pub T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Response> {
        match axum::extract::Path::from_request_parts(parts, state).await {
            Ok(axum::extract::Path(piece)) => Ok(Path(piece)),
            Err(_) => Err(Problem::NotFound.answer(Shape::Problem)),
        }
    }
}

#[derive(Debug)]
pub struct Query<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Response> {
        let shape = Shape::of_request(parts.uri.path(), &parts.headers);
        let invalid = |why: &str| {
            let message = format!("the query cannot be read: {why}");
            Problem::Invalid { param: None, code: "invalid_request", message }.answer(shape)
        };
        // The database keeps no NUL and would refuse to be asked for one.
        if parts.uri.query().is_some_and(|query| query.contains("%00")) {
            return Err(invalid("it holds NUL"));
        }
        match axum::extract::Query::from_request_parts(parts, state).await {
            Ok(axum::extract::Query(query)) => Ok(Query(query)),
            Err(rejection) => Err(invalid(&rejection.body_text())),
        }
    }
}
