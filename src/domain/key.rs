//! The idempotency key as clients send it.

/// 1–255 bytes of 0x21–0x7E, unquoted. `abc` and `"abc"` are the same key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyKey(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    #[error("Idempotency-Key is empty; send 1 to 255 visible ASCII characters")]
    Empty,
    #[error("Idempotency-Key is {0} bytes long; at most 255 are kept. Send a UUID or a hash instead")]
    TooLong(usize),
    #[error("Idempotency-Key holds a byte outside 0x21-0x7E at offset {0}; send visible ASCII without spaces")]
    BadByte(usize),
    #[error("Idempotency-Key begins or ends with a quote but not both; send the bare key or the whole quoted string")]
    HalfQuoted,
}

impl IdempotencyKey {
    /// Reads a header's value: a bare token or a structured-field string (RFC 8941).
    pub fn parse(value: &[u8]) -> Result<Self, KeyError> {
        let value = value.trim_ascii();
        let inner = match value {
            [b'"', inner @ .., b'"'] => unescape(inner)?,
            [b'"', ..] | [.., b'"'] => return Err(KeyError::HalfQuoted),
            _ => value.to_vec(),
        };
        if inner.is_empty() {
            return Err(KeyError::Empty);
        }
        if inner.len() > 255 {
            return Err(KeyError::TooLong(inner.len()));
        }
        if let Some(at) = inner.iter().position(|b| !(0x21..=0x7e).contains(b)) {
            return Err(KeyError::BadByte(at));
        }
        String::from_utf8(inner).map(IdempotencyKey).map_err(|e| KeyError::BadByte(e.utf8_error().valid_up_to()))
    }

    /// A key made by the gateway for a client that sent none.
    pub fn generated(id: super::ids::JobId) -> Self {
        IdempotencyKey(format!("gw_{id}"))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn into_text(self) -> String {
        self.0
    }
}

/// In a structured-field string only `\"` and `\\` are escapes.
fn unescape(inner: &[u8]) -> Result<Vec<u8>, KeyError> {
    let mut out = Vec::with_capacity(inner.len());
    let mut bytes = inner.iter().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'\\' => match bytes.next() {
                Some((_, escaped @ (b'"' | b'\\'))) => out.push(*escaped),
                Some(_) | None => return Err(KeyError::BadByte(at)),
            },
            b'"' => return Err(KeyError::BadByte(at)),
            plain => out.push(*plain),
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<String, KeyError> {
        IdempotencyKey::parse(text.as_bytes()).map(|k| k.0)
    }

    #[test]
    fn a_bare_key_and_its_quoted_form_are_the_same_key() {
        assert_eq!(parse("abc"), parse("\"abc\""));
        assert_eq!(parse(r#""a\"b\\c""#), Ok(r#"a"b\c"#.to_owned()));
    }

    #[test]
    fn what_cannot_be_a_key_is_refused_with_its_reason() {
        assert_eq!(parse(""), Err(KeyError::Empty));
        assert_eq!(parse("\"\""), Err(KeyError::Empty));
        assert_eq!(parse("a b"), Err(KeyError::BadByte(1)));
        assert_eq!(parse("\"abc"), Err(KeyError::HalfQuoted));
        assert_eq!(parse(&"x".repeat(256)), Err(KeyError::TooLong(256)));
        assert!(parse(&"x".repeat(255)).is_ok());
        assert_eq!(parse("é"), Err(KeyError::BadByte(0)));
    }
}
