//! Signatures, held against those of Amazon's own client.

use std::time::Duration;

use super::*;

/// 2026-11-30 20:00:00 UTC.
const NOW: u64 = 1_796_068_800;

fn signed(session_token: Option<&str>, body: &'static [u8]) -> Vec<(HeaderName, HeaderValue)> {
    let signing = Signing {
        service: "bedrock",
        region: "eu-central-1".into(),
        access_key_id: Secret::new("AKIDOFTHETEST".into()),
        secret_access_key: Secret::new("secret-of-the-test".into()),
        session_token: session_token.map(|token| Secret::new(token.into())),
    };
    let mut request = UpstreamRequest {
        path: String::new(),
        headers: crate::openai::json_headers(crate::openai::JSON),
        body: bytes::Bytes::from_static(body),
    };
    let address = "https://bedrock-runtime.eu-central-1.amazonaws.com/model/eu.amazon.nova-lite-v1%3A0/converse";
    signing.sign(address, &mut request, SystemTime::UNIX_EPOCH + Duration::from_secs(NOW)).unwrap();
    assert!(!format!("{signing:?}{request:?}").contains("secret-of"), "a secret can be printed");
    request.headers
}

fn header<'a>(headers: &'a [(HeaderName, HeaderValue)], name: &str) -> Option<&'a str> {
    headers.iter().find(|(known, _)| known.as_str() == name).map(|(_, value)| value.to_str().unwrap())
}

/// The expected signatures are those of botocore 1.44.8 for the same request and time.
#[test]
fn a_request_is_signed_as_amazons_own_client_signs_it() {
    let headers = signed(None, br#"{"messages":[]}"#);
    assert_eq!(header(&headers, "x-amz-date"), Some("20261130T200000Z"));
    assert_eq!(
        header(&headers, "authorization"),
        Some(
            "AWS4-HMAC-SHA256 Credential=AKIDOFTHETEST/20261130/eu-central-1/bedrock/aws4_request, \
             SignedHeaders=accept;content-type;host;x-amz-date, \
             Signature=c598377349b1bcaf525162a6980a5d810a9804e65e97aaa82cefa1ba4ea1216a"
        )
    );
    let temporary = signed(Some("token-of-the-test"), br#"{"messages":[]}"#);
    assert_eq!(header(&temporary, "x-amz-security-token"), Some("token-of-the-test"));
    let signature = "Signature=3ebbc3c4e4b989477a6e2abfd1096fe1293eae1a9090c39bc3352cbef0203421";
    assert!(header(&temporary, "authorization").unwrap().ends_with(signature));
    let other = signed(None, br#"{"messages":[1]}"#);
    assert_ne!(header(&other, "authorization"), header(&headers, "authorization"), "the body is signed too");
}
