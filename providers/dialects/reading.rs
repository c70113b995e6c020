//! What reading a dialect into chat completions has in common: the messages with their origins, and what is lost.

use std::sync::Arc;

use crate::adapter::Unsupported;
use crate::canonical::Request;
use crate::dialects::{Dialect, Native};
use crate::json::{Json, Object};
use crate::openai::request::fields::expected;
use crate::openai::request::{InvalidRequest, parse};

/// A translation in the making.
#[derive(Debug)]
pub(super) struct Reading {
    dialect: Dialect,
    /// The messages of the chat completion, and where each comes from.
    messages: Vec<Json>,
    origins: Vec<String>,
    lost: Vec<Unsupported>,
    /// Calls of a kind that is lost: their results are lost with them.
    pub lost_calls: Vec<String>,
}

impl Reading {
    pub fn new(dialect: Dialect) -> Self {
        Reading { dialect, messages: Vec::new(), origins: Vec::new(), lost: Vec::new(), lost_calls: Vec::new() }
    }

    pub fn push(&mut self, origin: &str, message: Object) {
        self.messages.push(Json::Object(message));
        self.origins.push(origin.to_owned());
    }

    /// This has no place in chat completions: only a provider of the client's own dialect can take it.
    pub fn lose(&mut self, param: impl Into<String>) {
        let param: String = param.into().chars().take(128).collect();
        let url = self.dialect.url();
        let why = format!("has no meaning beyond {url}: leave it out, or ask a route whose primary speaks that itself");
        self.lost.push(Unsupported::new(param, why));
    }

    /// Loses the members that nobody here reads. Null is absent.
    pub fn lose_others(&mut self, at: &str, object: &Object, known: &[&str]) {
        for (name, value) in object.iter() {
            if !known.contains(&name) && !value.is_null() {
                self.lose(if at.is_empty() { name.to_owned() } else { format!("{at}.{name}") });
            }
        }
    }

    /// The request: `parameters` are the chat completion's other members, `body` is what the client sent.
    pub fn finish(self, body: Object, parameters: Object) -> Result<Request, InvalidRequest> {
        let mut chat = Object::new();
        if let Some(model) = body.get_some("model") {
            chat.insert("model", model.clone());
        }
        chat.insert("messages", self.messages);
        for (name, value) in parameters.iter() {
            chat.insert(name, value.clone());
        }
        let native = Native { dialect: self.dialect, body: Arc::new(body), lost: self.lost, origins: self.origins };
        match parse(chat) {
            Ok(request) => Ok(Request { native: Some(Arc::new(native)), ..request }),
            Err(error) => Err(InvalidRequest { param: native.own_name(&error.param), ..error }),
        }
    }
}

pub(super) fn role(role: &str) -> Object {
    [("role", role)].into_iter().collect()
}

/// An object that may be absent or null.
pub(super) fn object<'a>(body: &'a Object, name: &str) -> Result<Option<&'a Object>, InvalidRequest> {
    match body.get_some(name) {
        None => Ok(None),
        Some(Json::Object(object)) => Ok(Some(object)),
        Some(other) => Err(expected(name, "an object", other)),
    }
}
