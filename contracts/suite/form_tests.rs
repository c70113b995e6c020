//! The schema of suite.toml and the parser say the same: no key and no type is known to one of them only.

use serde::de::{Deserialize, DeserializeOwned, Deserializer, Visitor};
use serde_json::Value;

use super::file::{AssertFile, CaseFile, ParametersFile, PromptFile, SuiteFile, TokenizerFile, ToolFile, TurnFile};
use super::*;

fn schema() -> Value {
    serde_json::from_str(SUITE_SCHEMA).unwrap()
}

/// Asks a type for the names of its fields, and reads nothing.
struct Fields<'a>(&'a mut Vec<String>);

impl<'de> Deserializer<'de> for Fields<'_> {
    type Error = serde::de::value::Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Self::Error> {
        Err(serde::de::Error::custom("only a struct has fields"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Self::Error> {
        self.0.extend(fields.iter().map(|f| (*f).to_owned()));
        Err(serde::de::Error::custom("enough"))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit unit_struct newtype_struct
        seq tuple tuple_struct map enum identifier ignored_any
    }
}

fn fields<T: DeserializeOwned>() -> Vec<String> {
    let mut names = Vec::new();
    let _ = T::deserialize(Fields(&mut names));
    names.sort();
    names
}

fn keys(pointer: &str) -> Vec<String> {
    let schema = schema();
    let object = schema.pointer(pointer).unwrap_or_else(|| panic!("the schema has {pointer}"));
    assert_eq!(object["additionalProperties"], false, "{pointer} knows every key");
    let mut names: Vec<String> = object["properties"].as_object().unwrap().keys().cloned().collect();
    names.sort();
    names
}

#[test]
fn the_schema_and_the_parser_know_the_same_keys() {
    let case = "/properties/cases/items";
    for (pointer, parsed) in [
        (String::new(), fields::<SuiteFile>()),
        ("/properties/prompt".to_owned(), fields::<PromptFile>()),
        ("/properties/prompt/properties/turns/items".to_owned(), fields::<TurnFile>()),
        ("/properties/parameters".to_owned(), fields::<ParametersFile>()),
        ("/properties/parameters/properties/tools/items".to_owned(), fields::<ToolFile>()),
        ("/properties/tokenizer".to_owned(), fields::<TokenizerFile>()),
        (case.to_owned(), fields::<CaseFile>()),
        (format!("{case}/properties/assert/items"), fields::<AssertFile>()),
    ] {
        assert_eq!(keys(&pointer), parsed, "at {pointer:?}");
    }
}

#[test]
fn the_schema_accepts_every_shipped_suite() {
    let validator = jsonschema::draft202012::new(&schema()).unwrap();
    assert!(jsonschema::meta::is_valid(&schema()));
    let suites = Path::new(env!("CARGO_MANIFEST_DIR")).join("suites");
    let refused = suites.join("refused/everything");
    let shipped = Suite::shipped().into_iter().map(|name| suites.join(name));
    for folder in shipped.chain([refused]) {
        let text = std::fs::read_to_string(folder.join("suite.toml")).unwrap();
        let value: toml::Value = toml::from_str(&text).unwrap();
        let value = serde_json::to_value(value).unwrap();
        let errors: Vec<String> =
            validator.iter_errors(&value).map(|e| format!("{}: {e}", e.instance_path())).collect();
        assert!(errors.is_empty(), "{}: {errors:?}", folder.display());
    }
}

/// Everything that a suite can say.
const WHOLE: &str = r#"
name = "demo"
description = "x"
schema = "schema.json"
output = "text"
repeats = 2
pass_rate = 0.5
required = []
max_calls = 100
program = ["true"]
program_seconds = 1.5
[skip]
long_input = "x"
[prompt]
system = "s"
user = "u"
turns = [{ role = "user", content = "c" }]
[parameters]
temperature = 0
max_tokens = 5
response_format = "none"
stop = ["x"]
tools = [{ name = "t", description = "d", parameters = "p.json" }]
[tokenizer]
counter = "auto"
window = 1
answer_room = 1
tolerance = 0.1
tolerance_tokens = 1
[[cases]]
name = "one"
fixture = "f.json"
files = { a = "a.txt" }
vars = { b = 1 }
program = ["true"]
assert = [{ at = "/a", equals = 1, equals_json = "1", one_of = [1], contains = "x", min = 0, max = 1, count = 1, cel = "true" }]
"#;

/// Every value of a document, by its pointer.
fn pointers(value: &Value, at: String, out: &mut Vec<String>) {
    match value {
        Value::Object(members) => members.iter().for_each(|(name, v)| pointers(v, format!("{at}/{name}"), out)),
        Value::Array(items) => items.iter().enumerate().for_each(|(i, v)| pointers(v, format!("{at}/{i}"), out)),
        _ => {}
    }
    out.push(at);
}

/// Each value in turn is put in the place of each other: where the parser refuses the type, so does the schema, and
/// where the schema refuses and the parser does not, it is a bound that `load` checks.
#[test]
fn what_the_parser_refuses_the_schema_refuses_first() {
    let validator = jsonschema::draft202012::new(&schema()).unwrap();
    let whole = serde_json::to_value(toml::from_str::<toml::Value>(WHOLE).unwrap()).unwrap();
    assert!(validator.is_valid(&whole));
    assert!(SuiteFile::deserialize(&whole).is_ok());
    let mut places = Vec::new();
    pointers(&whole, String::new(), &mut places);
    let wrong = [
        Value::from(1),
        "nonsense".into(),
        1.5.into(),
        true.into(),
        Value::Array(vec![]),
        (-1).into(),
        serde_json::json!({}),
    ];
    let mut refused = 0;
    for place in places.iter().filter(|place| !place.is_empty()) {
        for value in &wrong {
            let mut changed = whole.clone();
            *changed.pointer_mut(place).unwrap() = value.clone();
            let (parser, schema) = (SuiteFile::deserialize(&changed).is_ok(), validator.is_valid(&changed));
            refused += usize::from(!parser);
            assert!(parser || !schema, "{place} = {value}: the schema accepts what the parser refuses");
        }
    }
    assert!(refused > 100, "{refused}");
}

#[test]
fn what_is_wrong_is_told_with_line_column_and_what_would_be_right() {
    let error = |from: &str, to: &str| {
        assert!(WHOLE.contains(from), "{from}");
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("demo");
        std::fs::create_dir(&dir).unwrap();
        std::fs::write(dir.join("suite.toml"), WHOLE.replacen(from, to, 1)).unwrap();
        let error = Suite::load(&dir).unwrap_err();
        (error.line, error.column, error.to_string())
    };
    for (from, to, place, words) in [
        ("repeats = 2", "repeats = 21", (6, 11), "1 to 20"),
        ("repeats = 2", "repaets = 2", (6, 1), "Did you mean `repeats`?"),
        ("repeats = 2", "zzz = 2", (6, 1), "Known here: cases, description"),
        ("output = \"text\"", "output = \"json\"", (5, 10), "\"tool\""),
        ("role = \"user\"", "role = \"system\"", (17, 19), "\"assistant\""),
        ("max_tokens = 5", "max_token = 5", (20, 1), "Did you mean `max_tokens`?"),
        ("contains = \"x\"", "containz = \"x\"", (36, 69), "Did you mean `contains`?"),
        ("description = \"x\"\n", "", (1, 1), "`description` is missing"),
        ("user = \"u\"\n", "", (14, 2), "`user` is missing in prompt"),
        ("name = \"one\"", "name = \"one two\"", (31, 8), "Letters, digits"),
    ] {
        let (line, column, told) = error(from, to);
        assert_eq!((line, column), (Some(place.0), Some(place.1)), "{told}");
        assert!(told.contains(words), "{told}");
    }
}
