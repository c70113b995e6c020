//! Events as they stand on the wire.

use bytes::{BufMut, BytesMut};

use crate::json::Json;

/// An unnamed event.
pub(super) fn data(out: &mut BytesMut, data: &[u8]) {
    out.put_slice(b"data: ");
    out.put_slice(data);
    out.put_slice(b"\n\n");
}

/// An event under its name.
pub(super) fn named(out: &mut BytesMut, name: &str, data: &[u8]) {
    out.put_slice(b"event: ");
    out.put_slice(name.as_bytes());
    out.put_slice(b"\n");
    self::data(out, data);
}

/// An event whose name is the `type` of its data.
pub(super) fn typed(out: &mut BytesMut, event: &Json) {
    let name = event.get("type").and_then(Json::as_str).unwrap_or("message");
    named(out, name, &event.to_bytes());
}
