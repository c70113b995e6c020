//! The reader: one pass over the bytes, strict, bounded in depth and in values.
//!
//! It must never accept a document that two parsers could read differently.

use super::{Json, JsonError, JsonErrorKind, MAX_DEPTH, MAX_VALUES, Number, Object};

/// Up to here a new member's name is compared with all before it; larger objects are checked once, by sorting.
const SMALL_OBJECT: usize = 16;

pub(super) fn document(input: &[u8], loose_logprobs: bool) -> Result<Json, JsonError> {
    let text = std::str::from_utf8(input).map_err(|e| JsonError {
        kind: JsonErrorKind::InvalidUnicode,
        offset: e.valid_up_to(),
        detail: "bytes that are not UTF-8",
    })?;
    let mut reader = Reader { text, bytes: input, at: 0, values: 0, loose_logprobs, within_logprobs: false };
    reader.skip_space();
    let value = reader.value(0)?;
    reader.skip_space();
    if reader.at < input.len() {
        return Err(reader.syntax("something follows the end of the document"));
    }
    Ok(value)
}

struct Reader<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    values: usize,
    loose_logprobs: bool,
    within_logprobs: bool,
}

impl Reader<'_> {
    fn error(&self, kind: JsonErrorKind, detail: &'static str) -> JsonError {
        JsonError { kind, offset: self.at, detail }
    }

    fn syntax(&self, detail: &'static str) -> JsonError {
        self.error(JsonErrorKind::Syntax, detail)
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn value(&mut self, depth: usize) -> Result<Json, JsonError> {
        self.values += 1;
        if self.values > MAX_VALUES {
            return Err(self.error(JsonErrorKind::TooManyValues, ""));
        }
        if self.within_logprobs && self.skip_non_finite() {
            return Ok(Json::Null);
        }
        match self.peek() {
            Some(b'{') => self.object(depth + 1),
            Some(b'[') => self.array(depth + 1),
            Some(b'"') => Ok(Json::String(self.string()?)),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word("true", Json::Bool(true)),
            Some(b'f') => self.word("false", Json::Bool(false)),
            Some(b'n') => self.word("null", Json::Null),
            Some(_) => Err(self.syntax("expected a value")),
            None => Err(self.syntax("the document ends where a value was expected")),
        }
    }

    /// The spellings of a log-probability of minus infinity that servers were seen to send.
    fn skip_non_finite(&mut self) -> bool {
        let rest = &self.bytes[self.at..];
        let found = ["-Infinity", "Infinity", "NaN"].into_iter().find(|word| rest.starts_with(word.as_bytes()));
        self.at += found.map_or(0, str::len);
        found.is_some()
    }

    fn word(&mut self, word: &str, value: Json) -> Result<Json, JsonError> {
        if self.bytes[self.at..].starts_with(word.as_bytes()) {
            self.at += word.len();
            Ok(value)
        } else {
            Err(self.syntax("expected true, false or null (NaN and Infinity are not JSON)"))
        }
    }

    fn open(&mut self, depth: usize) -> Result<(), JsonError> {
        if depth > MAX_DEPTH {
            return Err(self.error(JsonErrorKind::TooDeep, ""));
        }
        self.at += 1;
        self.skip_space();
        Ok(())
    }

    /// After an element: `true` when another follows, `false` at the closing bracket.
    fn another(&mut self, close: u8, detail: &'static str) -> Result<bool, JsonError> {
        self.skip_space();
        match self.peek() {
            Some(b',') => {
                self.at += 1;
                self.skip_space();
                Ok(true)
            }
            Some(byte) if byte == close => {
                self.at += 1;
                Ok(false)
            }
            _ => Err(self.syntax(detail)),
        }
    }

    fn array(&mut self, depth: usize) -> Result<Json, JsonError> {
        self.open(depth)?;
        let mut items = Vec::new();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Json::Array(items));
        }
        loop {
            items.push(self.value(depth)?);
            if !self.another(b']', "expected , or ] in an array")? {
                return Ok(Json::Array(items));
            }
        }
    }

    fn object(&mut self, depth: usize) -> Result<Json, JsonError> {
        self.open(depth)?;
        let mut members: Vec<(String, Json)> = Vec::new();
        // Where each name stands, so that a duplicate found by sorting can still be pointed at.
        let mut offsets: Vec<usize> = Vec::new();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Json::Object(Object::new()));
        }
        loop {
            let offset = self.at;
            let name = self.name()?;
            if members.len() < SMALL_OBJECT && members.iter().any(|(n, _)| *n == name) {
                return Err(duplicate(name, offset));
            }
            let outside = !self.within_logprobs;
            self.within_logprobs |= self.loose_logprobs && name == "logprobs";
            let value = self.value(depth)?;
            self.within_logprobs &= !outside;
            members.push((name, value));
            offsets.push(offset);
            if !self.another(b'}', "expected , or } in an object")? {
                break;
            }
        }
        if members.len() > SMALL_OBJECT {
            refuse_duplicates(&members, &offsets)?;
        }
        Ok(Json::Object(Object::from_unique(members)))
    }

    /// A member's name and the colon after it.
    fn name(&mut self) -> Result<String, JsonError> {
        if self.peek() != Some(b'"') {
            return Err(self.syntax("expected a member name in double quotes"));
        }
        let name = self.string()?;
        self.skip_space();
        if self.peek() != Some(b':') {
            return Err(self.syntax("expected : after a member name"));
        }
        self.at += 1;
        self.skip_space();
        Ok(name)
    }

    fn string(&mut self) -> Result<String, JsonError> {
        self.at += 1;
        let mut out = String::new();
        let mut from = self.at;
        loop {
            let rest = &self.bytes[self.at..];
            self.at += rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..0x20)).unwrap_or(rest.len());
            match self.peek() {
                Some(b'"') => {
                    out.push_str(&self.text[from..self.at]);
                    self.at += 1;
                    return Ok(out);
                }
                Some(b'\\') => {
                    out.push_str(&self.text[from..self.at]);
                    let escaped = self.escape()?;
                    out.push(escaped);
                    from = self.at;
                }
                Some(_) => return Err(self.syntax("a raw control character in a string; escape it")),
                None => return Err(self.syntax("the document ends within a string")),
            }
        }
    }

    fn escape(&mut self) -> Result<char, JsonError> {
        self.at += 1;
        let c = match self.peek() {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode_escape(),
            _ => return Err(self.syntax("an unknown escape in a string")),
        };
        self.at += 1;
        Ok(c)
    }

    /// At the `u` of `\uXXXX`; takes the second half of a pair along.
    fn unicode_escape(&mut self) -> Result<char, JsonError> {
        let start = self.at - 1;
        let lone = JsonError { kind: JsonErrorKind::InvalidUnicode, offset: start, detail: "half of a surrogate pair" };
        self.at += 1;
        let first = self.four_hex()?;
        if !(0xD800..0xDC00).contains(&first) {
            return char::from_u32(first).ok_or(lone);
        }
        if !self.bytes[self.at..].starts_with(b"\\u") {
            return Err(lone);
        }
        self.at += 2;
        let second = self.four_hex()?;
        if !(0xDC00..0xE000).contains(&second) {
            return Err(lone);
        }
        char::from_u32(0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00)).ok_or(lone)
    }

    fn four_hex(&mut self) -> Result<u32, JsonError> {
        let mut value = 0;
        for _ in 0..4 {
            let digit = self.peek().and_then(|byte| char::from(byte).to_digit(16));
            let Some(digit) = digit else { return Err(self.syntax("expected four hex digits after \\u")) };
            value = value * 16 + digit;
            self.at += 1;
        }
        Ok(value)
    }

    fn number(&mut self) -> Result<Json, JsonError> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        let mut integer = true;
        if self.peek() == Some(b'.') {
            integer = false;
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            integer = false;
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        let number = Number::from_checked(&self.text[start..self.at]);
        if !integer && !number.as_f64().is_finite() {
            return Err(JsonError { kind: JsonErrorKind::NumberOutOfRange, offset: start, detail: "" });
        }
        Ok(Json::Number(number))
    }

    fn digits(&mut self) -> Result<(), JsonError> {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        if self.at == start { Err(self.syntax("expected a digit")) } else { Ok(()) }
    }
}

/// One sort instead of a comparison of every name with every other: a hostile object costs n log n.
fn refuse_duplicates(members: &[(String, Json)], offsets: &[usize]) -> Result<(), JsonError> {
    let mut order: Vec<usize> = (0..members.len()).collect();
    order.sort_by(|&a, &b| members[a].0.cmp(&members[b].0));
    let twice = order.windows(2).filter(|pair| members[pair[0]].0 == members[pair[1]].0).map(|pair| pair[1]).min();
    match twice {
        Some(index) => Err(duplicate(members[index].0.clone(), offsets[index])),
        None => Ok(()),
    }
}

fn duplicate(name: String, offset: usize) -> JsonError {
    JsonError { kind: JsonErrorKind::DuplicateName { name }, offset, detail: "" }
}
