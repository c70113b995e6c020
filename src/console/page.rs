//! How a page is made: its template, what every page has, and the headers that keep it from being used by others.

use std::sync::LazyLock;

use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{Html, IntoResponse, Response};
use minijinja::Environment;
use serde_json::{Value, json};

use crate::http::problem::Problem;

const STYLE: &str = include_str!("style.css");

static TEMPLATES: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut templates = Environment::new();
    for (name, text) in [
        ("layout.html", include_str!("layout.html")),
        ("macros.html", include_str!("macros.html")),
        ("login.html", include_str!("login.html")),
        ("overview.html", include_str!("overview.html")),
        ("jobs.html", include_str!("jobs.html")),
        ("job.html", include_str!("job.html")),
        ("contracts.html", include_str!("contracts.html")),
        ("run.html", include_str!("run.html")),
        ("problem.html", include_str!("problem.html")),
    ] {
        templates.add_template(name, text).expect("a template that a test has rendered");
    }
    templates.add_filter("time", time);
    templates
});

/// An RFC 3339 time without its fractions of a second.
fn time(text: Option<String>) -> String {
    let text = text.unwrap_or_default();
    match text.split_once('T') {
        Some((day, clock)) => format!("{day} {}Z", clock.get(..8).unwrap_or(clock)),
        None => text,
    }
}

pub fn render(template: &str, context: Value) -> Response {
    match TEMPLATES.get_template(template).and_then(|page| page.render(minijinja::value::Serde(context))) {
        Ok(page) => Html(page).into_response(),
        Err(error) => {
            tracing::error!(template, error = format!("{error:#}"), "a page of the console could not be made");
            Problem::Internal.answer(crate::http::problem::Shape::Problem)
        }
    }
}

pub fn problem(problem: &Problem) -> Response {
    let (status, code, message) = problem.words();
    let context = json!({ "status": status.as_u16(), "code": code, "message": message });
    (status, render("problem.html", context)).into_response()
}

pub async fn style() -> Response {
    ([(header::CONTENT_TYPE, HeaderValue::from_static("text/css; charset=utf-8"))], STYLE).into_response()
}

/// No script, nothing from elsewhere, in nobody's frame, in no cache.
pub async fn protect(mut response: Response) -> Response {
    let headers = response.headers_mut();
    for (name, value) in [
        (
            header::CONTENT_SECURITY_POLICY,
            "default-src 'none'; style-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
        ),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "same-origin"),
        (header::CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}
