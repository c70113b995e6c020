//! Chat completions: what is stored is what the client gets, and streams end with `[DONE]`.

use bytes::{BufMut, Bytes, BytesMut};

use super::{EventWriter, Rendering, frames};
use crate::openai::stream::rechunk;

const DONE: &[u8] = b"data: [DONE]\n\n";

#[derive(Debug)]
pub(super) struct Writer {
    include_usage: bool,
}

impl Writer {
    pub fn new(rendering: &Rendering) -> Self {
        Writer { include_usage: rendering.include_usage }
    }
}

impl EventWriter for Writer {
    fn chunk(&mut self, stored: &[u8]) -> Bytes {
        let mut out = BytesMut::with_capacity(stored.len() + 8);
        frames::data(&mut out, stored);
        out.freeze()
    }

    fn end(&mut self, usage: Option<&[u8]>) -> Bytes {
        let mut out = BytesMut::new();
        if let Some(usage) = usage.filter(|_| self.include_usage) {
            frames::data(&mut out, usage);
        }
        out.put_slice(DONE);
        out.freeze()
    }

    fn error(&mut self, error: &str) -> Bytes {
        let mut out = BytesMut::with_capacity(error.len() + 8);
        frames::data(&mut out, error.as_bytes());
        out.freeze()
    }
}

/// The whole answer cut anew.
pub(super) fn whole_as_stream(rendering: &Rendering, stored: &Bytes) -> Option<Bytes> {
    let mut out = BytesMut::with_capacity(stored.len() * 2);
    for chunk in rechunk(stored, rendering.include_usage)? {
        frames::data(&mut out, &chunk);
    }
    out.put_slice(DONE);
    Some(out.freeze())
}
