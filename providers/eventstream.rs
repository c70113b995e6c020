//! Amazon's binary event stream (`application/vnd.amazon.eventstream`), as events, however the bytes were cut.
//!
//! Each frame says its length, carries headers and a payload, and two checksums over them, which Amazon's own crate
//! checks. An exception or an error of the stream becomes an event `error` with its code and message as JSON.

#[cfg(test)]
pub(crate) mod tests;

use aws_smithy_eventstream::frame::read_message_from;
use bytes::{Buf, BytesMut};

use crate::json::{Json, Object};
use crate::sse::Event;

/// Length, length of the headers and their checksum, and the checksum at the end.
const SHORTEST: usize = 16;

/// The longest frame that Amazon's own clients take: 16 MiB of payload and 128 KiB of headers, rounded up.
const LONGEST: usize = 24 * 1024 * 1024;

/// Cuts a body into its frames.
#[derive(Debug, Default)]
pub(crate) struct FrameReader {
    buffer: BytesMut,
    failed: Option<String>,
}

impl FrameReader {
    /// The events that are whole by now. An error behind them comes with the next call.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<Vec<Event>, String> {
        if let Some(failed) = &self.failed {
            return Err(failed.clone());
        }
        self.buffer.extend_from_slice(bytes);
        let mut events = Vec::new();
        loop {
            match self.next() {
                Ok(Some(event)) => events.push(event),
                Ok(None) => return Ok(events),
                Err(why) if events.is_empty() => {
                    self.failed = Some(why.clone());
                    return Err(why);
                }
                Err(why) => {
                    self.failed = Some(why);
                    return Ok(events);
                }
            }
        }
    }

    /// Whether a frame has begun and not ended.
    pub fn pending(&self) -> bool {
        !self.buffer.is_empty()
    }

    fn next(&mut self) -> Result<Option<Event>, String> {
        let Some(length) = self.buffer.get(..4).map(|mut length| length.get_u32() as usize) else { return Ok(None) };
        if !(SHORTEST..=LONGEST).contains(&length) {
            return Err(format!("a frame says that it is {length} bytes long"));
        }
        if self.buffer.len() < length {
            return Ok(None);
        }
        let frame = self.buffer.split_to(length).freeze();
        let message = read_message_from(frame).map_err(|error| format!("a frame is damaged: {error}"))?;
        let payload = std::str::from_utf8(message.payload()).map_err(|_| "the payload of a frame is no text")?;
        let header = |name: &str| {
            let header = message.headers().iter().find(|header| header.name().as_str() == name);
            header.and_then(|header| header.value().as_string().ok()).map(|text| text.as_str().to_owned())
        };
        let event = match header(":message-type").as_deref() {
            Some("event") => Event { name: header(":event-type"), data: payload.to_owned(), id: None },
            Some("exception") => {
                let json = Json::parse(payload.as_bytes()).ok();
                let message = json.and_then(|json| Some(json.get("message")?.as_str()?.to_owned()));
                error(header(":exception-type"), message.unwrap_or_else(|| payload.to_owned()))
            }
            Some("error") => error(header(":error-code"), header(":error-message").unwrap_or_default()),
            other => return Err(format!("a frame is of no known kind: {}", other.unwrap_or("none is named"))),
        };
        Ok(Some(event))
    }
}

fn error(code: Option<String>, message: String) -> Event {
    let mut error = Object::new();
    if let Some(code) = code {
        error.insert("code", code);
    }
    error.insert("message", message);
    let data = String::from_utf8_lossy(&Json::Object(error).to_bytes()).into_owned();
    Event { name: Some("error".to_owned()), data, id: None }
}
