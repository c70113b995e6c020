//! Who may see the console: whoever has shown the operator token once, for half a day.
//!
//! The session is a cookie that says until when, signed with the operator token: every instance can read it, none has to
//! remember it, and a changed token ends them all. Forms carry a second signature, so that no other site can send them.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use hmac::{Hmac, KeyInit, Mac};
use serde::Deserialize;
use serde_json::json;
use sha2::Sha256;
use subtle::ConstantTimeEq;

use super::{forms, page};
use crate::domain::Timestamp;
use crate::domain::hex::hex;
use crate::engine::Engine;
use crate::http::problem::Problem;

const COOKIE: &str = "interlock_console";
const LASTS: Duration = Duration::from_secs(12 * 3600);

/// Somebody who has logged in.
#[derive(Debug, Clone)]
pub struct Session {
    /// What forms carry.
    pub form_token: String,
}

/// The operator token as the key of two kinds of signatures.
struct Signer<'a>(&'a str);

impl Signer<'_> {
    fn sign(&self, what: &str, text: &str) -> String {
        let mut mac = Hmac::<Sha256>::new_from_slice(self.0.as_bytes()).expect("HMAC takes a key of any length");
        mac.update(what.as_bytes());
        mac.update(&[0]);
        mac.update(text.as_bytes());
        hex(&mac.finalize().into_bytes())
    }

    fn cookie(&self, until: i64) -> String {
        format!("{until}.{}", self.sign("session", &until.to_string()))
    }

    /// The session of this cookie, if it was signed here and has not ended.
    fn read(&self, cookie: &str, now: Timestamp) -> Option<Session> {
        let (until, _) = cookie.split_once('.')?;
        let until: i64 = until.parse().ok()?;
        let genuine = bool::from(self.cookie(until).as_bytes().ct_eq(cookie.as_bytes()));
        (genuine && now.unix_timestamp() < until).then(|| Session { form_token: self.sign("form", cookie) })
    }
}

fn signer(engine: &Engine) -> Result<Signer<'_>, Problem> {
    let token = engine.config().server.operator_token.as_ref().ok_or(Problem::OperatorTokenUnset)?;
    Ok(Signer(token.expose()))
}

fn cookie(headers: &HeaderMap) -> Option<&str> {
    let pairs = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok()).flat_map(|l| l.split(';'));
    pairs.filter_map(|pair| pair.trim().split_once('=')).find(|(name, _)| *name == COOKIE).map(|(_, value)| value)
}

/// Lets those through who have logged in; others are asked to.
pub async fn required(State(engine): State<Engine>, mut request: Request, next: Next) -> Response {
    let signer = match signer(&engine) {
        Ok(signer) => signer,
        Err(problem) => return page::problem(&problem),
    };
    match cookie(request.headers()).and_then(|cookie| signer.read(cookie, engine.clock())) {
        Some(session) => {
            request.extensions_mut().insert(session);
            next.run(request).await
        }
        None => Redirect::to("/console/login").into_response(),
    }
}

pub async fn login_page(State(engine): State<Engine>) -> Response {
    match signer(&engine) {
        Ok(_) => page::render("login.html", json!({})),
        Err(problem) => page::problem(&problem),
    }
}

#[derive(Deserialize)]
struct Login {
    token: String,
}

pub async fn log_in(State(engine): State<Engine>, headers: HeaderMap, body_in: Body) -> Response {
    let entered = async {
        let signer = signer(&engine)?;
        let login: Login = forms::read(&engine, &headers, body_in).await?;
        if !bool::from(login.token.trim().as_bytes().ct_eq(signer.0.as_bytes())) {
            return Err(Problem::OperatorsOnly);
        }
        let until = engine.clock() + LASTS;
        Ok(set_cookie(&signer.cookie(until.unix_timestamp()), LASTS))
    };
    entered.await.unwrap_or_else(|problem| page::problem(&problem))
}

pub async fn log_out() -> Response {
    set_cookie("", Duration::ZERO)
}

fn set_cookie(value: &str, lasts: Duration) -> Response {
    let mut response = Redirect::to("/console").into_response();
    let cookie = format!("{COOKIE}={value}; Path=/console; Max-Age={}; HttpOnly; SameSite=Strict", lasts.as_secs());
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_cookie_signed_here_that_has_not_ended_is_a_session() {
        let at = |seconds| Timestamp::from_unix_timestamp(seconds).expect("a time");
        let signer = Signer("operator token");
        let cookie = signer.cookie(1_000);
        assert!(signer.read(&cookie, at(999)).is_some());
        assert!(signer.read(&cookie, at(1_000)).is_none(), "over");
        assert!(Signer("another token").read(&cookie, at(999)).is_none());
        assert!(signer.read(&cookie.replacen("1000", "2000", 1), at(999)).is_none(), "prolonged by its holder");
        for wrong in ["", ".", "1000", "1000.", "x.y"] {
            assert!(signer.read(wrong, at(999)).is_none(), "{wrong}");
        }
        let other = signer.read(&signer.cookie(1_001), at(999)).expect("a session").form_token;
        assert_ne!(signer.read(&cookie, at(999)).expect("a session").form_token, other);
        assert!(!cookie.contains(&other), "what a form carries is not what the cookie says");
    }
}
