//! What is read, what is refused, and that every digit comes back out.

use super::*;

fn parse(text: &str) -> Json {
    Json::parse(text.as_bytes()).unwrap_or_else(|e| panic!("{text}: {e}"))
}

fn refused(bytes: &[u8]) -> JsonError {
    match Json::parse(bytes) {
        Ok(_) => panic!("accepted {:?}", String::from_utf8_lossy(bytes)),
        Err(error) => error,
    }
}

fn canonical(text: &str) -> String {
    let mut out = Vec::new();
    parse(text).canonical(&mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn numbers_keep_the_text_they_came_with() {
    let text = r#"[7300000000000000001,1.0,1e2,-0,0.10,123456789012345678901234567890,1E+2]"#;
    assert_eq!(parse(text).to_bytes(), text);
}

#[test]
fn members_keep_their_order() {
    let text = r#"{"z":1,"a":{"y":2,"b":3},"m":[]}"#;
    assert_eq!(parse(text).to_bytes(), text);
}

#[test]
fn duplicate_names_are_refused_at_any_depth_and_by_meaning() {
    for text in [r#"{"a":1,"a":1}"#, r#"[{"x":{"a":1,"b":2,"a":3}}]"#, r#"{"a":1,"\u0061":2}"#] {
        let error = refused(text.as_bytes());
        assert_eq!(error.kind, JsonErrorKind::DuplicateName { name: "a".into() }, "{text}");
        assert!(error.to_string().contains("send it once"));
    }
    assert_eq!(refused(br#"{"a":1, "a":1}"#).offset, 8);
}

#[test]
fn a_duplicate_in_a_large_object_is_found_where_it_stands() {
    let mut text: String = (0..1000).map(|i| format!("\"n{i}\":0,")).collect();
    text.insert(0, '{');
    let offset = text.len();
    text.push_str("\"n7\":1}");
    let error = refused(text.as_bytes());
    assert_eq!((error.kind, error.offset), (JsonErrorKind::DuplicateName { name: "n7".into() }, offset));
}

#[test]
fn a_hostile_object_does_not_cost_a_quadratic_search() {
    let mut text: String = (0..200_000).map(|i| format!("\"{i}\":0,")).collect();
    text.insert(0, '{');
    text.push_str("\"end\":0}");
    let started = std::time::Instant::now();
    assert_eq!(parse(&text).as_object().unwrap().len(), 200_001);
    assert!(started.elapsed().as_secs() < 5, "took {:?}", started.elapsed());
}

#[test]
fn depth_is_capped() {
    let nested = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
    parse(&nested(MAX_DEPTH));
    assert_eq!(refused(nested(MAX_DEPTH + 1).as_bytes()).kind, JsonErrorKind::TooDeep);
    assert_eq!(refused("{\"a\":".repeat(100_000).as_bytes()).kind, JsonErrorKind::TooDeep);
}

#[test]
fn the_number_of_values_is_capped() {
    let list = |n: usize| format!("[{}0]", "0,".repeat(n - 1));
    parse(&list(MAX_VALUES - 1));
    assert_eq!(refused(list(MAX_VALUES).as_bytes()).kind, JsonErrorKind::TooManyValues);
}

#[test]
fn broken_unicode_is_refused() {
    for text in [r#""\ud800""#, r#""\udc00""#, r#""\ud800\u0041""#, r#""\ud800x""#, r#""\ud83d\ud83d\ude00""#] {
        assert_eq!(refused(text.as_bytes()).kind, JsonErrorKind::InvalidUnicode, "{text}");
    }
    assert_eq!(refused(b"\"\xff\"").kind, JsonErrorKind::InvalidUnicode);
    assert_eq!(refused(b"\"\xed\xa0\x80\"").kind, JsonErrorKind::InvalidUnicode);
    assert_eq!(parse(r#""\ud83d\ude00 \u0000""#).as_str(), Some("😀 \0"));
}

#[test]
fn numbers_that_nothing_can_hold_are_refused() {
    for text in ["1e999", "-1e400", "[1.0e309]"] {
        assert_eq!(refused(text.as_bytes()).kind, JsonErrorKind::NumberOutOfRange, "{text}");
    }
    parse("0e999999999999999999999");
    parse("1e-999");
    parse(&"9".repeat(400));
}

#[test]
fn what_is_not_json_is_refused() {
    for text in [
        "",
        " ",
        "NaN",
        "Infinity",
        "-Infinity",
        "-",
        "01",
        "-01",
        "1.",
        ".5",
        "+1",
        "1e",
        "1e+",
        "0x1",
        "tru",
        "nulll",
        "[1,]",
        "[,]",
        "{,}",
        "{\"a\":1,}",
        "{a:1}",
        "{'a':1}",
        "{\"a\" 1}",
        "{\"a\":}",
        "[1 2]",
        "[",
        "{",
        "\"",
        "\"\\",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\\u+123\"",
        "\"\t\"",
        "\"\n\"",
        "1 2",
        "{}{}",
        "[]]",
        "// x\n1",
        "\u{feff}1",
        "1\u{a0}",
    ] {
        assert_eq!(refused(text.as_bytes()).kind, JsonErrorKind::Syntax, "{text:?}");
    }
}

#[test]
fn names_in_messages_are_short_and_clean() {
    let name = format!("\\u202e\\u001b{}", "x".repeat(1000));
    let message = refused(format!("{{\"{name}\":1,\"{name}\":2}}").as_bytes()).to_string();
    assert!(message.len() < 250 && !message.contains('\u{1b}') && !message.contains('\u{202e}'), "{message}");
}

#[test]
fn equal_meanings_have_one_canonical_form() {
    for (a, b) in [
        (r#"{"b":1,"a":[ ]}"#, r#" { "a" : [] , "b" : 1 } "#),
        ("[1,1.0,1e0,10e-1]", "[1,1,1,1]"),
        ("[-0,0.0,-0.0,0e5]", "[0,0,0,0]"),
        ("1e16", "10000000000000000"),
        ("1e30", "1000000000000000000000000000000"),
        ("9007199254740993", "9007199254740993.0"),
        (r#""\u00e9\/""#, "\"é/\""),
        ("0.1", "0.10"),
    ] {
        assert_eq!(canonical(a), canonical(b));
    }
}

#[test]
fn different_meanings_have_different_canonical_forms() {
    for (a, b) in [
        ("9007199254740992", "9007199254740993"),
        ("18446744073709551615", "18446744073709551616"),
        ("-9007199254740993", "-9007199254740992"),
        ("1000000000000000000000000000001", "1e30"),
        ("\"e\u{301}\"", "\"\u{e9}\""),
        ("{}", r#"{"a":null}"#),
        ("1", "\"1\""),
        ("[1,2]", "[2,1]"),
    ] {
        assert_ne!(canonical(a), canonical(b), "{a} and {b}");
    }
}

/// The samples of RFC 8785, sections 3.2.2 to 3.2.4 and appendix B.
#[test]
fn the_samples_of_the_rfc_come_out_right() {
    assert_eq!(
        canonical(
            r#"{"numbers":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001],"string":"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/","literals":[null,true,false]}"#
        ),
        "{\"literals\":[null,true,false],\"numbers\":[333333333.3333333,1e+30,4.5,0.002,1e-27],\"string\":\"€$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\"}"
    );
    assert_eq!(
        canonical(r#"{"\u20ac":1,"\r":2,"\ufb33":3,"1":4,"\ud83d\ude00":5,"\u0080":6,"\u00f6":7}"#),
        "{\"\\r\":2,\"1\":4,\"\u{80}\":6,\"ö\":7,\"€\":1,\"😀\":5,\"\u{fb33}\":3}"
    );
    for (given, expected) in [
        ("5e-324", "5e-324"),
        ("1.7976931348623157e308", "1.7976931348623157e+308"),
        ("295147905179352830000", "295147905179352830000"),
        ("9.999999999999997e22", "9.999999999999997e+22"),
        ("1e23", "1e+23"),
        ("999999999999999700000", "999999999999999700000"),
        ("1e21", "1e+21"),
        ("0.000001", "0.000001"),
        ("0.0000001", "1e-7"),
        ("333333333.33333325", "333333333.33333325"),
        ("-0.0000033333333333333333", "-0.0000033333333333333333"),
        ("1424953923781206.2", "1424953923781206.2"),
    ] {
        assert_eq!(canonical(given), expected);
    }
}

#[test]
fn a_value_is_read_out_only_where_it_fits() {
    let number = |text| Number::try_from(text).unwrap();
    assert_eq!(number("18446744073709551615").as_u64(), Some(u64::MAX));
    assert_eq!(number("18446744073709551616").as_u64(), None);
    assert_eq!(number("50.0").as_u64(), Some(50));
    assert_eq!(number("1e2").as_u64(), Some(100));
    assert_eq!(number("1.5").as_u64(), None);
    assert_eq!(number("-1").as_u64(), None);
    assert_eq!(number("-9223372036854775808").as_i64(), Some(i64::MIN));
    assert_eq!(number("1e-999999999999999999999").as_u64(), None);
    assert_eq!(number("0e999999999999999999999").as_u64(), Some(0));
    assert_eq!(number("0.25").as_f64(), 0.25);
    assert!(Number::try_from(" 1").is_err() && Number::try_from("1e999").is_err() && Number::try_from("x").is_err());
}

#[test]
fn an_object_replaces_in_place_and_renames_in_place() {
    let mut object = parse(r#"{"a":1,"b":2,"c":3}"#).into_object().unwrap();
    assert_eq!(object.insert("b", "new"), Some(Json::from(2)));
    object.insert("d", true);
    object.rename("a", "z");
    object.rename("c", "d");
    assert_eq!(object.remove("c"), Some(Json::from(3)));
    assert_eq!(Json::from(object).to_bytes(), r#"{"z":1,"b":"new","d":true}"#);
}

#[test]
fn the_way_to_serde_and_back_keeps_what_serde_can_hold() {
    let text = r#"{"a":[1,-2,1.5,18446744073709551615,"x",null,true],"b":{}}"#;
    assert_eq!(parse(text).to_serde(), serde_json::from_str::<serde_json::Value>(text).unwrap());
    assert_eq!(Json::from(&parse(text).to_serde()).to_bytes(), text);
    assert_eq!(parse(&"9".repeat(400)).to_serde(), serde_json::json!(f64::MAX));
}

/// A small deterministic generator: failures can be repeated by their seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.roll(from.len() as u64) as usize]
    }

    fn document(&mut self, depth: u64, out: &mut String) {
        const LEAVES: &[&str] = &[
            "0",
            "-1",
            "1.5",
            "1e5",
            "2E-3",
            "-0",
            "12345678901234567890",
            "true",
            "false",
            "null",
            "\"\"",
            "\"a b\"",
            "\"\\u00e9\\n\"",
            "\"é😀\"",
            "\"\\ud83d\\ude00\"",
        ];
        match self.roll(if depth == 0 { 1 } else { 3 }) {
            0 => out.push_str(self.pick(LEAVES)),
            1 => {
                out.push('[');
                for i in 0..self.roll(4) {
                    out.push_str(if i > 0 { "," } else { "" });
                    self.document(depth - 1, out);
                }
                out.push(']');
            }
            _ => {
                out.push('{');
                for i in 0..self.roll(4) {
                    out.push_str(if i > 0 { ", " } else { "" });
                    out.push_str(&format!("\"k{i}\" :"));
                    self.document(depth - 1, out);
                }
                out.push('}');
            }
        }
    }
}

/// Equal but for the last bit of a double, where serde_json without `float_roundtrip` is inexact.
fn alike(a: &serde_json::Value, b: &serde_json::Value) -> bool {
    use serde_json::Value::{Array, Number, Object};
    match (a, b) {
        (Array(a), Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| alike(a, b)),
        (Object(a), Object(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.0 == b.0 && alike(a.1, b.1)),
        (Number(a), Number(b)) if a.is_f64() && b.is_f64() => {
            let (a, b) = (a.as_f64().unwrap(), b.as_f64().unwrap());
            (a - b).abs() <= a.abs() * 1e-15
        }
        _ => a == b,
    }
}

#[test]
fn it_accepts_and_refuses_what_serde_json_does() {
    const SPLINTERS: &[&str] =
        &["", ",", "}", "]", "[", "{", "\"", "\\", "\\u", "e", ".", "-", "0", " ", "1e999", "tru", "\t", ":"];
    for seed in 0..20_000 {
        let mut dice = Dice(seed);
        let mut text = String::new();
        dice.document(4, &mut text);
        for _ in 0..dice.roll(3) {
            let at = dice.roll(text.len() as u64 + 1) as usize;
            if text.is_char_boundary(at) {
                let splinter = dice.pick(SPLINTERS);
                if splinter.is_empty() { text.truncate(at) } else { text.insert_str(at, splinter) }
            }
        }
        let theirs = serde_json::from_str::<serde_json::Value>(&text);
        match (Json::parse(text.as_bytes()), theirs) {
            (Ok(ours), Ok(theirs)) => {
                assert!(alike(&ours.to_serde(), &theirs), "seed {seed}: {text}");
                assert_eq!(Json::parse(&ours.to_bytes()), Ok(ours), "seed {seed}: {text}");
            }
            (Err(_), Err(_)) => {}
            (Err(JsonError { kind: JsonErrorKind::DuplicateName { .. }, .. }), Ok(_)) => {}
            (ours, theirs) => panic!("seed {seed}: {text}: ours {ours:?}, theirs {theirs:?}"),
        }
    }
}
