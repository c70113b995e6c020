//! The form that payloads are compared by: RFC 8785 (read 2026-11-30), with one departure.
//!
//! RFC 8785 sends every number through a double, so 9007199254740993 and …992 become the same payload. Here an integer
//! is written as ECMAScript prints its double only where that text still denotes the same integer, and digit for digit
//! otherwise. So `1`, `1.0` and `1e0` are equal, `1e16` equals `10000000000000000`, and no two integers are.

use std::cmp::Ordering;

use super::number::Decimal;
use super::write;
use super::{Json, Number};

pub(super) fn value(json: &Json, out: &mut Vec<u8>) {
    match json {
        Json::Null | Json::Bool(_) | Json::String(_) => write::value(json, out),
        Json::Number(n) => out.extend_from_slice(number(n).as_bytes()),
        Json::Array(items) => {
            out.push(b'[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                value(item, out);
            }
            out.push(b']');
        }
        Json::Object(object) => members(object.iter(), out),
    }
}

pub(super) fn members<'a>(members: impl Iterator<Item = (&'a str, &'a Json)>, out: &mut Vec<u8>) {
    let mut members: Vec<(&str, &Json)> = members.collect();
    members.sort_by(|a, b| utf16_order(a.0, b.0));
    out.push(b'{');
    for (i, (name, member)) in members.into_iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        write::string(name, out);
        out.push(b':');
        value(member, out);
    }
    out.push(b'}');
}

/// Names sort by UTF-16 code units, which differs from UTF-8 order for characters beyond U+FFFF.
fn utf16_order(a: &str, b: &str) -> Ordering {
    if a.is_ascii() && b.is_ascii() { a.cmp(b) } else { a.encode_utf16().cmp(b.encode_utf16()) }
}

fn number(number: &Number) -> String {
    let double = number.as_f64();
    let decimal = Decimal::of(number.as_str());
    if decimal.is_integer() {
        let same = double.is_finite() && Decimal::of(&ecmascript(double)) == decimal;
        if !same {
            let sign = if decimal.negative { "-" } else { "" };
            return format!("{sign}{}", decimal.integer_digits());
        }
    }
    ecmascript(double)
}

/// `Number::toString` of ECMA-262 for a finite double. Not Rust's own shortest form: it breaks ties between two equally
/// near texts the other way (1424953923781206.25 is `….2` there and `….3` here).
fn ecmascript(double: f64) -> String {
    ryu_js::Buffer::new().format_finite(double).to_owned()
}
