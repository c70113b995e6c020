//! The form of suite.toml, judged by its own JSON Schema (`suites/suite.schema.json`, which editors read too). What is
//! wrong is named by key, with the nearest word that would be right, or with what the schema says of that key.

use std::sync::LazyLock;

use jsonschema::error::ValidationErrorKind;
use serde_json::Value;

use super::places::Places;

/// The JSON Schema of suite.toml.
pub const SUITE_SCHEMA: &str = include_str!("../suites/suite.schema.json");

static SCHEMA: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(SUITE_SCHEMA).expect("the shipped schema is JSON, as a test checks"));
static VALIDATOR: LazyLock<jsonschema::Validator> =
    LazyLock::new(|| jsonschema::validator_for(&SCHEMA).expect("the shipped schema is a schema, as a test checks"));

/// What is wrong, at which byte of the file, and what to do about it.
#[derive(Debug)]
pub(super) struct Wrong {
    pub offset: Option<usize>,
    missing: bool,
    pub what: String,
    pub cure: String,
}

/// The first thing that is wrong, in the order of the file. A key that is unknown is told before one that is missing: it
/// is most often the same.
pub(super) fn judge(file: &Value, places: &Places) -> Result<(), Wrong> {
    VALIDATOR
        .iter_errors(file)
        .flat_map(|error| wrongs(&error, places))
        .min_by_key(|w| (w.missing, w.offset.unwrap_or(0)))
        .map_or(Ok(()), Err)
}

fn wrongs(error: &jsonschema::ValidationError<'_>, places: &Places) -> Vec<Wrong> {
    let at = error.instance_path().as_str();
    let schema_path = error.schema_path().as_str();
    let around = schema_path.rsplit_once('/').map_or("", |(parent, _)| parent);
    match error.kind() {
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            unexpected.iter().map(|name| unknown_key(name, at, around, places)).collect()
        }
        ValidationErrorKind::Required { property } => {
            let name = property.as_str().unwrap_or_default();
            let whole = if at.is_empty() { "suite.toml" } else { at.trim_start_matches('/') };
            let member = format!("{around}/properties/{name}");
            vec![Wrong {
                offset: places.key(at).or(Some(0)),
                missing: true,
                what: format!("`{name}` is missing in {whole}"),
                cure: description(&member).unwrap_or_else(|| format!("Add {name} = …")),
            }]
        }
        _ => {
            let key = at.rsplit('/').next().unwrap_or_default();
            let words = error.masked_with("it").to_string();
            vec![Wrong {
                offset: places.value(at).map(|v| v.start).or(places.key(at)).or(Some(0)),
                missing: false,
                what: if key.is_empty() { words } else { format!("{key}: {words}") },
                cure: description(around).unwrap_or_else(|| "See contracts/suites/README.md".to_owned()),
            }]
        }
    }
}

fn unknown_key(name: &str, at: &str, schema: &str, places: &Places) -> Wrong {
    let properties = SCHEMA.pointer(&format!("{schema}/properties")).and_then(Value::as_object);
    let known: Vec<&str> = properties.map(|p| p.keys().map(String::as_str).collect()).unwrap_or_default();
    let cure = match nearest(name, &known) {
        Some(near) => format!("Did you mean `{near}`?"),
        None => format!("Known here: {}", known.join(", ")),
    };
    let pointer = format!("{at}/{}", crate::assertion::step(name));
    Wrong { offset: places.key(&pointer), missing: false, what: format!("there is no key `{name}` here"), cure }
}

/// What the schema says of this place.
fn description(schema: &str) -> Option<String> {
    SCHEMA.pointer(schema)?.get("description")?.as_str().map(str::to_owned)
}

/// The word that was probably meant.
pub(crate) fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let far = |other: &&str| strsim::damerau_levenshtein(word, other);
    known.iter().copied().min_by_key(far).filter(|near| far(near) <= 1 + word.chars().count() / 4)
}
