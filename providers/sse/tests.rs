//! The grammar, field by field, and that it does not matter where the bytes are cut.

use super::*;

fn event(data: &str) -> Event {
    Event { name: None, data: data.to_owned(), id: None }
}

fn read(bytes: &[u8]) -> Vec<Event> {
    EventReader::default().feed(bytes).unwrap()
}

/// Every way to feed: whole, byte by byte, in two pieces cut anywhere.
fn assert_always(bytes: &[u8], expected: &[Event]) {
    assert_eq!(read(bytes), expected, "{:?}", String::from_utf8_lossy(bytes));
    let mut reader = EventReader::default();
    let single: Vec<Event> = bytes.iter().flat_map(|byte| reader.feed(&[*byte]).unwrap()).collect();
    assert_eq!(single, expected, "byte by byte: {:?}", String::from_utf8_lossy(bytes));
    for cut in 0..=bytes.len() {
        let mut reader = EventReader::default();
        let mut events = reader.feed(&bytes[..cut]).unwrap();
        events.extend(reader.feed(&bytes[cut..]).unwrap());
        assert_eq!(events, expected, "cut at {cut}: {:?}", String::from_utf8_lossy(bytes));
    }
}

#[test]
fn every_line_end_ends_a_line_and_crlf_is_one() {
    for ends in ["\n", "\r\n", "\r"] {
        let text = format!("data: a{ends}data: 水😀{ends}{ends}data: c{ends}{ends}");
        assert_always(text.as_bytes(), &[event("a\n水😀"), event("c")]);
    }
    assert_always(b"data: a\r\ndata: b\r\n\rdata: c\n\r\ndata: d\r\r", &[event("a\nb"), event("c"), event("d")]);
}

#[test]
fn an_event_goes_out_with_the_first_byte_of_the_empty_line() {
    let mut reader = EventReader::default();
    assert_eq!(reader.feed(b"data: a\r\n\r").unwrap(), [event("a")]);
    assert_eq!(reader.feed(b"\n").unwrap(), []);
    assert!(!reader.pending());
}

#[test]
fn fields_are_read_as_the_grammar_says() {
    assert_always(b"data:a\n\ndata: a\n\ndata:  a\n\n", &[event("a"), event("a"), event(" a")]);
    assert_always(b"data\n\ndata:\ndata\n\n", &[event(""), event("\n")]);
    assert_always(b"data: a:b\nother: x\nretry: 5\nnothing\n data: y\n\n", &[event("a:b")]);
    assert_always(b"event: x\n\ndata: a\n\n", &[event("a")]);
    let named = Event { name: Some("x".into()), ..event("a") };
    assert_always(b"event: y\ndata: a\nevent: x\n\ndata: b\n\n", &[named, event("b")]);
    let with = |id: &str, data: &str| Event { id: Some(id.to_owned()), ..event(data) };
    assert_always(b"id: 1\ndata: a\n\ndata: b\n\nid\ndata: c\n\n", &[with("1", "a"), with("1", "b"), with("", "c")]);
    assert_always(b"id: 1\ndata: a\nid: \0\n\n", &[with("1", "a")]);
}

#[test]
fn comments_blank_lines_and_a_byte_order_mark_say_nothing() {
    assert_always(b"\xef\xbb\xbfdata: a\n\n", &[event("a")]);
    assert_always(b"\xef\xbb\xbf: hi\n\n\n:\n\ndata: a\n: within\ndata: b\n\n", &[event("a\nb")]);
    assert_always("data: a\n\n\u{feff}data: b\n\n".as_bytes(), &[event("a")]);
}

#[test]
fn what_is_not_ended_is_no_event_but_seen() {
    for cut in ["data: a", "data: a\n", "data: a\nda", "dat"] {
        let mut reader = EventReader::default();
        assert_eq!(reader.feed(cut.as_bytes()).unwrap(), []);
        assert!(reader.pending(), "{cut:?}");
    }
    let mut reader = EventReader::default();
    assert_eq!(reader.feed(b"data: a\n\n\n: bye\n").unwrap(), [event("a")]);
    assert!(!reader.pending());
}

#[test]
fn an_event_has_a_size_and_a_comment_needs_no_room() {
    let mut reader = EventReader::new(16);
    assert_eq!(reader.feed(b"data: 0123456789\n\n").unwrap(), [event("0123456789")]);
    assert_eq!(reader.feed(b"data: 01234567890\n\n"), Err(SseError::TooLarge(16)));
    assert_eq!(reader.feed(b"data: a\n\n"), Err(SseError::TooLarge(16)), "an error stays");

    let mut reader = EventReader::new(16);
    let lines = b"data: a\n".repeat(9);
    assert_eq!(lines.iter().find_map(|byte| reader.feed(&[*byte]).err()), Some(SseError::TooLarge(16)));

    let mut reader = EventReader::new(16);
    for _ in 0..100 {
        assert_eq!(reader.feed(b": a comment longer than any event may be").unwrap(), []);
    }
    assert_eq!(reader.feed(b"\ndata: a\n\n").unwrap(), [event("a")]);
}

#[test]
fn an_event_before_an_error_is_given_out_before_it() {
    let mut reader = EventReader::default();
    assert_eq!(reader.feed(b"data: a\n\ndata: \xff\n\ndata: b\n\n").unwrap(), [event("a")]);
    assert_eq!(reader.feed(b""), Err(SseError::NotUtf8));
}
