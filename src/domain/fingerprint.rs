//! When two payloads are the same intent (fingerprint v1): SHA-256 over the operation and the canonical JSON of the
//! body as sent. No defaults are filled in, absent is not null, text is not normalised, integers compare exactly.

use providers::json::Object;
use sha2::{Digest, Sha256};

/// The version that is written now. A row keeps its own, so that old rows stay comparable.
pub const VERSION: i16 = 1;

/// How the answer is delivered, not what is asked for: left out of the comparison.
const DELIVERY: [&str; 2] = ["stream", "stream_options"];

/// The fingerprint of `body` sent to `operation` (method and path).
pub fn fingerprint(operation: &str, body: &Object) -> [u8; 32] {
    let mut canonical = Vec::with_capacity(2048);
    body.canonical_without(&DELIVERY, &mut canonical);
    let mut hash = Sha256::new();
    hash.update(b"interlock-fingerprint-1\0");
    hash.update(operation.as_bytes());
    hash.update([0]);
    hash.update(&canonical);
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use providers::json::Json;

    use super::*;

    fn of(text: &str) -> [u8; 32] {
        match Json::parse(text.as_bytes()) {
            Ok(Json::Object(body)) => fingerprint("POST /v1/chat/completions", &body),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn key_order_white_space_and_delivery_do_not_matter() {
        assert_eq!(of(r#"{"a":1,"b":[1, 2]}"#), of("{ \"b\":[1,2],\n\"a\":1 }"));
        assert_eq!(of(r#"{"a":1}"#), of(r#"{"a":1,"stream":true,"stream_options":{"include_usage":true}}"#));
        assert_eq!(of(r#"{"a":"h\u00e9"}"#), of(r#"{"a":"hé"}"#));
    }

    #[test]
    fn equal_numbers_are_equal_and_big_integers_are_exact() {
        assert_eq!(of(r#"{"a":1}"#), of(r#"{"a":1.0}"#));
        assert_eq!(of(r#"{"a":1e2}"#), of(r#"{"a":100}"#));
        assert_eq!(of(r#"{"a":-0}"#), of(r#"{"a":0}"#));
        assert_ne!(of(r#"{"a":9007199254740992}"#), of(r#"{"a":9007199254740993}"#));
        assert_ne!(of(r#"{"a":18446744073709551615}"#), of(r#"{"a":18446744073709551616}"#));
    }

    #[test]
    fn what_differs_differs() {
        assert_ne!(of(r#"{"a":null}"#), of("{}"));
        assert_ne!(of(r#"{"a":"é"}"#), of("{\"a\":\"e\u{301}\"}"), "NFC is not NFD: tokenizers differ too");
        assert_ne!(of(r#"{"a":"1"}"#), of(r#"{"a":1}"#));
        assert_ne!(of(r#"{"a":{"stream":true}}"#), of(r#"{"a":{}}"#), "only the top level is delivery");
    }

    #[test]
    fn the_operation_is_part_of_the_intent() {
        let Ok(Json::Object(body)) = Json::parse(b"{}") else { panic!("an object") };
        assert_ne!(fingerprint("POST /v1/a", &body), fingerprint("POST /v1/b", &body));
    }
}
