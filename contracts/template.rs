//! The prompt template: `{{variable}}`, nothing else. It answers which variables a template names and what it says
//! once they are filled in. An unknown variable is an error that names it; it never becomes an empty string.

use std::collections::BTreeMap;

/// What is wrong with a template, and the text to look for to find its line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TemplateError {
    Unclosed { near: String },
    UnknownVariable { name: String, known: Vec<String> },
}

/// Fills every `{{name}}` of `template`.
pub(crate) fn render(template: &str, vars: &BTreeMap<String, String>) -> Result<String, TemplateError> {
    let mut out = String::with_capacity(template.len());
    let mut rest = template;
    while let Some(open) = rest.find("{{") {
        out.push_str(&rest[..open]);
        let inner = &rest[open + 2..];
        let Some(close) = inner.find("}}") else {
            return Err(TemplateError::Unclosed { near: rest[open..].chars().take(30).collect() });
        };
        let name = inner[..close].trim();
        match vars.get(name) {
            Some(value) => out.push_str(value),
            None => {
                return Err(TemplateError::UnknownVariable {
                    name: name.to_owned(),
                    known: vars.keys().cloned().collect(),
                });
            }
        }
        rest = &inner[close + 2..];
    }
    out.push_str(rest);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vars() -> BTreeMap<String, String> {
        BTreeMap::from([("a".to_owned(), "{{b}} {x}".to_owned())])
    }

    #[test]
    fn a_filled_value_is_not_read_as_a_template_again() {
        assert_eq!(render("<{{ a }}>", &vars()).unwrap(), "<{{b}} {x}>");
    }

    #[test]
    fn an_unknown_variable_is_named() {
        let error = render("{{nope}}", &vars()).unwrap_err();
        assert_eq!(error, TemplateError::UnknownVariable { name: "nope".into(), known: vec!["a".into()] });
    }

    #[test]
    fn an_unclosed_variable_is_an_error() {
        assert!(matches!(render("x {{a", &vars()), Err(TemplateError::Unclosed { .. })));
    }
}
