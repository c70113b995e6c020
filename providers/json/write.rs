//! The compact form. Strings are escaped as RFC 8785 does: what must be, and nothing else.

use super::Json;

pub(super) fn value(json: &Json, out: &mut Vec<u8>) {
    match json {
        Json::Null => out.extend_from_slice(b"null"),
        Json::Bool(true) => out.extend_from_slice(b"true"),
        Json::Bool(false) => out.extend_from_slice(b"false"),
        Json::Number(number) => out.extend_from_slice(number.as_str().as_bytes()),
        Json::String(text) => string(text, out),
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
    out.push(b'{');
    for (i, (name, member)) in members.enumerate() {
        if i > 0 {
            out.push(b',');
        }
        string(name, out);
        out.push(b':');
        value(member, out);
    }
    out.push(b'}');
}

pub(super) fn string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    let bytes = text.as_bytes();
    let mut from = 0;
    for (i, &byte) in bytes.iter().enumerate() {
        let short = match byte {
            b'"' => b'"',
            b'\\' => b'\\',
            0x08 => b'b',
            0x09 => b't',
            0x0a => b'n',
            0x0c => b'f',
            0x0d => b'r',
            0x00..0x20 => b'u',
            _ => continue,
        };
        out.extend_from_slice(&bytes[from..i]);
        from = i + 1;
        if short == b'u' {
            out.extend_from_slice(format!("\\u{byte:04x}").as_bytes());
        } else {
            out.extend_from_slice(&[b'\\', short]);
        }
    }
    out.extend_from_slice(&bytes[from..]);
    out.push(b'"');
}
