//! What a form has sent, read with the limits of any other body, and believed only from the console's own pages.

use axum::body::Body;
use axum::http::HeaderMap;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use subtle::ConstantTimeEq;

use super::session::Session;
use crate::engine::Engine;
use crate::http::body;
use crate::http::problem::Problem;

/// A deed: why, by whom, and the proof that the form is the console's own.
#[derive(Debug, Deserialize)]
pub struct Deed {
    form_token: String,
    pub reason: Option<String>,
    pub actor: Option<String>,
    /// What a permit is granted for.
    pub route: Option<String>,
    pub run_id: Option<String>,
}

pub async fn read<T: DeserializeOwned>(engine: &Engine, headers: &HeaderMap, body_in: Body) -> Result<T, Problem> {
    let bytes = body::read(headers, body_in, &engine.config().server).await?;
    serde_urlencoded::from_bytes(&bytes).map_err(|error| invalid("the form", &error.to_string()))
}

pub async fn deed(engine: &Engine, session: &Session, headers: &HeaderMap, body_in: Body) -> Result<Deed, Problem> {
    let deed: Deed = read(engine, headers, body_in).await?;
    if !bool::from(deed.form_token.as_bytes().ct_eq(session.form_token.as_bytes())) {
        return Err(invalid("form_token", "is not of this session: open the page again and repeat it there"));
    }
    let holds_nul = |text: &Option<String>| text.as_ref().is_some_and(|text| text.contains('\0'));
    if holds_nul(&deed.reason) || holds_nul(&deed.actor) {
        return Err(invalid("reason", "holds NUL, which is kept nowhere"));
    }
    Ok(deed)
}

pub fn invalid(param: &str, why: &str) -> Problem {
    Problem::Invalid { param: Some(param.to_owned()), code: "invalid_request", message: format!("`{param}` {why}") }
}
