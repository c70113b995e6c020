//! Frames however the bytes come, and every damage seen; the writer of frames for other tests.

use aws_smithy_eventstream::frame::write_message_to;
use aws_smithy_types::event_stream::{Header, HeaderValue, Message};

use super::*;

fn frame_with(headers: &[(&'static str, &str)], payload: &str) -> Vec<u8> {
    let text = |value: &str| HeaderValue::String(value.to_owned().into());
    let headers = headers.iter().map(|(name, value)| Header::new(*name, text(value))).collect();
    let mut bytes = Vec::new();
    write_message_to(&Message::new_from_parts(headers, payload.to_owned().into_bytes()), &mut bytes).unwrap();
    bytes
}

/// One event as Amazon sends it.
pub(crate) fn frame(event: &str, payload: &str) -> Vec<u8> {
    let kind = (":content-type", "application/json");
    frame_with(&[(":event-type", event), kind, (":message-type", "event")], payload)
}

pub(crate) fn exception(kind: &str, payload: &str) -> Vec<u8> {
    frame_with(&[(":exception-type", kind), (":message-type", "exception")], payload)
}

/// The frames of a body, each with the bytes that are left behind the last whole one.
pub(crate) fn cut_into_frames(mut body: &[u8]) -> Vec<&[u8]> {
    let mut frames = Vec::new();
    while let Some(mut length) = body.get(..4) {
        let (frame, rest) = body.split_at((length.get_u32() as usize).clamp(4, body.len()));
        frames.push(frame);
        body = rest;
    }
    frames.extend((!body.is_empty()).then_some(body));
    frames
}

fn read(bytes: &[u8], size: usize) -> (Vec<(String, String)>, Option<String>, bool) {
    let (mut reader, mut events) = (FrameReader::default(), Vec::new());
    for piece in bytes.chunks(size) {
        match reader.feed(piece) {
            Ok(read) => events.extend(read.into_iter().map(|event| (event.name.unwrap_or_default(), event.data))),
            Err(why) => return (events, Some(why), false),
        }
    }
    // An error behind the last events comes with the next call.
    let why = reader.feed(&[]).err();
    (events, why, reader.pending())
}

fn sample() -> Vec<u8> {
    let frames =
        [frame("messageStart", r#"{"role":"assistant"}"#), frame("x", ""), exception("t", r#"{"message":"slow"}"#)];
    frames.concat()
}

#[test]
fn events_are_the_same_however_the_bytes_come() {
    let bytes = sample();
    let whole = read(&bytes, bytes.len());
    let event = |name: &str, data: &str| (name.to_owned(), data.to_owned());
    let error = event("error", r#"{"code":"t","message":"slow"}"#);
    assert_eq!(whole, (vec![event("messageStart", r#"{"role":"assistant"}"#), event("x", ""), error], None, false));
    for size in 1..bytes.len() {
        assert_eq!(read(&bytes, size), whole, "{size} bytes at a time");
    }
}

#[test]
fn an_error_without_a_payload_keeps_its_words() {
    let headers = [(":message-type", "error"), (":error-code", "InternalError"), (":error-message", "gone")];
    let (events, ..) = read(&frame_with(&headers, ""), 7);
    assert_eq!(events, [("error".to_owned(), r#"{"code":"InternalError","message":"gone"}"#.to_owned())]);
}

/// The checksums see every change of a single byte, wherever it is, and what came before it stays.
#[test]
fn no_changed_byte_passes_for_an_event() {
    let bytes = sample();
    let (sound, ..) = read(&bytes, bytes.len());
    for at in 0..bytes.len() {
        for change in [0x01, 0x80, 0xff] {
            let mut changed = bytes.clone();
            changed[at] ^= change;
            let (events, why, pending) = read(&changed, 1 + at % 9);
            assert!(why.is_some() || pending, "byte {at}: neither damaged nor cut");
            assert_eq!(events[..], sound[..events.len()], "byte {at}");
            assert!(events.len() < sound.len(), "byte {at}");
        }
    }
}

#[test]
fn a_cut_body_is_pending_and_a_length_that_nobody_means_is_refused() {
    let bytes = sample();
    let cuts = (1..bytes.len()).filter(|cut| !cut_into_frames(&bytes[..*cut]).concat().is_empty());
    let pending = cuts.filter(|cut| read(&bytes[..*cut], 11).2).count();
    assert_eq!(pending, bytes.len() - 3, "everywhere but at the ends of frames");
    for length in [0_u32, 15, 25 * 1024 * 1024, u32::MAX] {
        let (_, why, _) = read(&length.to_be_bytes(), 4);
        assert!(why.unwrap().contains("bytes long"));
    }
}

#[test]
fn headers_that_lie_about_their_lengths_are_damage_and_no_panic() {
    for lie in 0..=255_u8 {
        let mut frame = vec![0, 0, 0, 24, 0, 0, 0, 8, 0, 0, 0, 0, lie, b'x', 7, lie, lie, b'y', lie, lie];
        frame.extend([0; 4]);
        let crc = |bytes: &[u8]| {
            let step = |crc: u32, byte: &u8| {
                (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 * (crc & 1)))
            };
            !bytes.iter().fold(u32::MAX, step)
        };
        let prelude = crc(&frame[..8]).to_be_bytes();
        frame[8..12].copy_from_slice(&prelude);
        let all = crc(&frame[..20]).to_be_bytes();
        frame[20..].copy_from_slice(&all);
        let (events, why, _) = read(&frame, 24);
        assert!(events.is_empty() && why.is_some(), "{lie}");
    }
}
