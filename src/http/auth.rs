//! Who is asking. Applications present an API key, operators the operator token; neither is taken for the other.

use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use axum::middleware::Next;
use axum::response::Response;
use subtle::ConstantTimeEq;

use super::limits;
use super::problem::{Problem, Shape};
use crate::domain::api_key::PresentedKey;
use crate::domain::ids::OwnerId;
use crate::domain::limits::Limit;
use crate::domain::route::KeyPolicy;
use crate::engine::Engine;

/// The owner behind an API key.
#[derive(Debug, Clone, Copy)]
pub struct Caller {
    pub owner: OwnerId,
    /// The key's own word on missing idempotency keys; it overrides the route's.
    pub idempotency: Option<KeyPolicy>,
    /// What the owner may use.
    pub limit: Limit,
}

impl FromRequestParts<Engine> for Caller {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, engine: &Engine) -> Result<Self, Response> {
        let shape = Shape::of_request(parts.uri.path(), &parts.headers);
        let caller = authenticate(&parts.headers, engine).await.map_err(|problem| problem.answer(shape))?;
        limits::note(parts, &caller);
        Ok(caller)
    }
}

async fn authenticate(headers: &HeaderMap, engine: &Engine) -> Result<Caller, Problem> {
    let presented = credential(headers)?.ok_or(Problem::NotAuthenticated)?;
    let presented = PresentedKey::parse(&presented).ok_or(Problem::NotAuthenticated)?;
    let found = engine.find_key(&presented.public_id).await?;
    // An unknown key is compared too, so that the time taken tells nothing.
    let expected = found.as_ref().map_or([0; 32], |key| key.secret_sha256);
    let equal = bool::from(presented.secret_sha256.ct_eq(&expected));
    match found {
        Some(key) if equal && !key.revoked => {
            let limit = engine.config().limits.of(&key.owner_name);
            Ok(Caller { owner: key.owner, idempotency: key.idempotency, limit })
        }
        Some(_) | None => Err(Problem::NotAuthenticated),
    }
}

/// The one credential of the request, from either header.
fn credential(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let mut found: Option<String> = None;
    let bearers = headers.get_all(header::AUTHORIZATION).iter().map(|value| {
        let text = value.to_str().unwrap_or_default();
        text.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer")).map_or("", |(_, key)| key)
    });
    let keys = headers.get_all("x-api-key").iter().map(|value| value.to_str().unwrap_or_default());
    for value in bearers.chain(keys).map(str::trim) {
        match &found {
            Some(there) if there != value => return Err(Problem::TwoCredentials),
            Some(_) => {}
            None => found = Some(value.to_owned()),
        }
    }
    Ok(found.filter(|value| !value.is_empty()))
}

/// Lets only those through who hold the operator token.
pub async fn operators_only(State(engine): State<Engine>, request: Request, next: Next) -> Response {
    let Some(expected) = &engine.config().server.operator_token else {
        return Problem::OperatorTokenUnset.answer(Shape::Problem);
    };
    match credential(request.headers()) {
        Ok(Some(token)) if bool::from(token.as_bytes().ct_eq(expected.expose().as_bytes())) => next.run(request).await,
        Ok(Some(_) | None) => Problem::OperatorsOnly.answer(Shape::Problem),
        Err(problem) => problem.answer(Shape::Problem),
    }
}
