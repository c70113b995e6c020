//! Documents however the bytes come.

use super::*;

fn read(reader: &mut DocumentReader, pieces: &[&[u8]]) -> Vec<Result<Vec<String>, DocumentError>> {
    pieces.iter().map(|bytes| reader.feed(bytes)).collect()
}

fn documents(bytes: &[u8], size: usize) -> Result<Vec<String>, DocumentError> {
    let mut reader = DocumentReader::new(64);
    let mut all = Vec::new();
    for piece in bytes.chunks(size) {
        all.extend(reader.feed(piece)?);
    }
    reader.feed(b"").map(|rest| {
        all.extend(rest);
        all
    })
}

#[test]
fn documents_end_with_their_brackets_however_the_bytes_come() {
    let body = b"{\"a\":\"}]\\\"{\"}\r\n\n {\"b\":[{}]}{\"c\":\"\xe6\xb0\xb4\"}";
    let expected = ["{\"a\":\"}]\\\"{\"}", "{\"b\":[{}]}", "{\"c\":\"水\"}"];
    for size in 1..=body.len() {
        assert_eq!(documents(body, size).unwrap(), expected, "in pieces of {size}");
    }
}

#[test]
fn what_has_begun_is_pending_and_no_document() {
    let mut reader = DocumentReader::default();
    assert_eq!(read(&mut reader, &[b"{\"a\":1}\n", b"{\"b\":"]), [Ok(vec!["{\"a\":1}".to_owned()]), Ok(vec![])]);
    assert!(reader.pending());
    assert_eq!(reader.feed(b"2}"), Ok(vec!["{\"b\":2}".to_owned()]));
    assert!(!reader.pending());
}

#[test]
fn an_error_comes_behind_the_documents_before_it_and_stays() {
    for (body, error) in [
        (&b"{} data: x"[..], DocumentError::NotJson),
        (b"{} {\"a\":\"\xff\"}", DocumentError::NotUtf8),
        (b"{} [0000000000000000000000000000000000000000000000000000000000000000]", DocumentError::TooLarge(64)),
    ] {
        for size in [1, body.len()] {
            assert_eq!(documents(body, size), Err(error), "in pieces of {size}");
        }
        let mut reader = DocumentReader::new(64);
        assert_eq!(read(&mut reader, &[body, b"", b"{}"]), [Ok(vec!["{}".to_owned()]), Err(error), Err(error)]);
    }
}
