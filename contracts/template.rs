//! The prompt template: `{{variable}}`, `{{a.b.0}}` for what a variable holds inside, `{{"text"}}` for literal text. It
//! answers what a template says once its variables are filled in. An unknown variable is an error that names it; it
//! never becomes an empty string.

use std::collections::BTreeMap;

use providers::json::Json;

/// What is wrong with a template, and the text to look for to find its place.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TemplateError {
    Unclosed { near: String },
    UnknownVariable { name: String, known: Vec<String> },
}

/// Fills every `{{…}}` of `template`.
pub(crate) fn render(template: &str, vars: &BTreeMap<String, Json>) -> Result<String, TemplateError> {
    let mut out = String::with_capacity(template.len());
    let mut rest = template;
    while let Some(open) = rest.find("{{") {
        out.push_str(&rest[..open]);
        let inner = &rest[open + 2..];
        let end = if inner.starts_with('"') { inner.find("\"}}").map(|at| at + 1) } else { inner.find("}}") };
        let Some(close) = end else {
            return Err(TemplateError::Unclosed { near: rest[open..].chars().take(30).collect() });
        };
        let name = inner[..close].trim();
        match literal(name) {
            Some(text) => out.push_str(text),
            None => out.push_str(&words(value(name, vars)?)),
        }
        rest = &inner[close + 2..];
    }
    out.push_str(rest);
    Ok(out)
}

/// Text that says itself when it is rendered.
pub(crate) fn escape(text: &str) -> String {
    text.replace("{{", "{{\"{{\"}}")
}

fn literal(name: &str) -> Option<&str> {
    name.strip_prefix('"')?.strip_suffix('"')
}

/// A variable by its name, or by a path into it.
fn value<'a>(name: &str, vars: &'a BTreeMap<String, Json>) -> Result<&'a Json, TemplateError> {
    if let Some(value) = vars.get(name) {
        return Ok(value);
    }
    let mut steps = name.split('.');
    let first = steps.next().and_then(|first| vars.get(first));
    let found = first.and_then(|value| {
        steps.try_fold(value, |at, step| match at {
            Json::Object(members) => members.get(step),
            Json::Array(items) => items.get(step.parse::<usize>().ok()?),
            _ => None,
        })
    });
    found.ok_or_else(|| TemplateError::UnknownVariable { name: name.to_owned(), known: vars.keys().cloned().collect() })
}

/// A variable as it stands in a prompt: text as it is, anything else as JSON.
fn words(value: &Json) -> String {
    match value {
        Json::String(text) => text.clone(),
        other => String::from_utf8_lossy(&other.to_bytes()).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vars() -> BTreeMap<String, Json> {
        let inside = Json::parse(br#"{"name": "Ada", "ids": [7, 12345678901234567890123]}"#).unwrap();
        BTreeMap::from([("a".to_owned(), Json::from("{{b}} {x}")), ("customer".to_owned(), inside)])
    }

    #[test]
    fn a_filled_value_is_not_read_as_a_template_again() {
        assert_eq!(render("<{{ a }}>", &vars()).unwrap(), "<{{b}} {x}>");
    }

    #[test]
    fn what_a_variable_holds_inside_is_reached_by_its_path() {
        let text = render("{{customer.name}}: {{customer.ids.1}} {{customer.ids}}", &vars()).unwrap();
        assert_eq!(text, "Ada: 12345678901234567890123 [7,12345678901234567890123]");
        assert!(render("{{customer.nope}}", &vars()).is_err());
    }

    #[test]
    fn escaped_text_says_itself() {
        for text in ["{{name}}", "a {{ b", "}} {{", "{{{{x}}}}", "{{{", "plain"] {
            assert_eq!(render(&escape(text), &vars()).unwrap(), text);
        }
    }

    #[test]
    fn an_unknown_variable_is_named() {
        let error = render("{{nope}}", &vars()).unwrap_err();
        let known = vec!["a".into(), "customer".into()];
        assert_eq!(error, TemplateError::UnknownVariable { name: "nope".into(), known });
    }

    #[test]
    fn an_unclosed_variable_is_an_error() {
        assert!(matches!(render("x {{a", &vars()), Err(TemplateError::Unclosed { .. })));
        assert!(matches!(render("x {{\"a}}", &vars()), Err(TemplateError::Unclosed { .. })));
    }
}
