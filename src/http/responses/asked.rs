//! What a client may ask of a stored response: its stream from a place on, and what was kept of it.

use providers::failure::clean;
use providers::json::{Json, Object};

use crate::http::problem::Problem;

/// The query of `GET /v1/responses/{id}`, read by hand: a list in it repeats its name.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Asked {
    pub stream: bool,
    /// The number of the last event that the client has.
    pub after: Option<u64>,
    include: Vec<String>,
}

impl Asked {
    pub fn read(pairs: &[(String, String)]) -> Result<Asked, Problem> {
        let mut asked = Asked::default();
        for (name, value) in pairs {
            match name.as_str() {
                "stream" => asked.stream = flag(name, value)?,
                "starting_after" => {
                    let number = value.parse().map_err(|_| invalid(name, "is the `sequence_number` of an event"))?;
                    asked.after = Some(number);
                }
                "include" | "include[]" => asked.include.push(value.clone()),
                "include_obfuscation" if flag(name, value)? => {
                    return Err(unsupported(name, "is not taken here: no event is padded; leave it out".to_owned()));
                }
                _ => {}
            }
        }
        match asked.after {
            Some(_) if !asked.stream => Err(invalid("starting_after", "goes with `stream=true`")),
            _ => Ok(asked),
        }
    }

    /// What an answer includes was decided by the request that made it: that is shown, and nothing can be added.
    pub fn check_include(&self, request: &Object) -> Result<(), Problem> {
        let kept = request.get("include").and_then(Json::as_array).unwrap_or_default();
        match self.include.iter().find(|asked| !kept.iter().any(|kept| kept.as_str() == Some(asked.as_str()))) {
            None => Ok(()),
            Some(other) => Err(unsupported(
                "include",
                format!("cannot add `{}`: the request that made this response did not ask for it", clean(other)),
            )),
        }
    }

    pub fn includes(&self) -> bool {
        !self.include.is_empty()
    }
}

fn flag(name: &str, value: &str) -> Result<bool, Problem> {
    match value {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(invalid(name, "is true or false")),
    }
}

pub(super) fn invalid(name: &str, why: &str) -> Problem {
    Problem::Invalid { param: Some(name.to_owned()), code: "invalid_request", message: format!("`{name}` {why}") }
}

pub(super) fn unsupported(name: &str, why: String) -> Problem {
    let (param, message) = (Some(name.to_owned()), format!("`{name}` {why}"));
    Problem::Invalid { param, code: "unsupported_parameter", message }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Option<Asked> {
        let pairs: Vec<_> = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Asked::read(&pairs).ok()
    }

    #[test]
    fn a_place_in_a_stream_is_asked_for_with_the_stream() {
        let asked = read(&[("stream", "true"), ("starting_after", "7")]).unwrap();
        assert_eq!((asked.stream, asked.after), (true, Some(7)));
        assert_eq!(read(&[("stream", "false"), ("traced", "1")]), Some(Asked::default()));
        for wrong in [
            &[("starting_after", "7")][..],
            &[("stream", "1")],
            &[("stream", "true"), ("starting_after", "-1")],
            &[("include_obfuscation", "true")],
        ] {
            assert_eq!(read(wrong), None, "{wrong:?}");
        }
    }
}
