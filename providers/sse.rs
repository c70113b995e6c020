//! A reader of event streams after the WHATWG grammar (html.spec.whatwg.org, "Server-sent events", read 2026-11-30):
//! bytes in, events out, however the bytes were cut.
//!
//! Two things are stricter than a browser. Data that is not UTF-8 is an error, never U+FFFD: a changed answer must not
//! pass for the provider's. And an event is bounded, or one line could fill the memory. Comments are dropped as they
//! come and count for nothing.

#[cfg(test)]
mod tests;

/// An event larger than this is refused, unless the caller says otherwise.
pub const MAX_EVENT_BYTES: usize = 1024 * 1024;

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The `event:` field; `None` stands for the grammar's `message`.
    pub name: Option<String>,
    /// The `data:` lines, joined by line feeds.
    pub data: String,
    /// The last `id:` seen in the stream, in this event or before it.
    pub id: Option<String>,
}

/// Why a stream cannot be read on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SseError {
    #[error("an event of more than {0} bytes")]
    TooLarge(usize),
    #[error("an event that is not UTF-8")]
    NotUtf8,
}

/// Turns bytes into events. After an error it says nothing but that error.
#[derive(Debug)]
pub struct EventReader {
    max_event_bytes: usize,
    /// The line that has begun, without its end.
    line: Vec<u8>,
    /// A CR ended the last line: an LF that follows belongs to it.
    after_cr: bool,
    /// No line has ended yet: the first may begin with a byte order mark.
    first_line: bool,
    name: String,
    /// The `data:` lines, each with a line feed behind it.
    data: String,
    id: Option<String>,
    failed: Option<SseError>,
}

impl Default for EventReader {
    fn default() -> Self {
        EventReader::new(MAX_EVENT_BYTES)
    }
}

impl EventReader {
    pub fn new(max_event_bytes: usize) -> Self {
        EventReader {
            max_event_bytes,
            line: Vec::new(),
            after_cr: false,
            first_line: true,
            name: String::new(),
            data: String::new(),
            id: None,
            failed: None,
        }
    }

    /// The events that these bytes complete. Events before an error are still given out; the error comes with the next
    /// call, even one without bytes.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<Vec<Event>, SseError> {
        let mut events = Vec::new();
        let read = self.failed.map_or_else(|| self.read(bytes, &mut events), Err);
        self.failed = read.err();
        match self.failed {
            Some(error) if events.is_empty() => Err(error),
            _ => Ok(events),
        }
    }

    /// Whether an event has begun and not ended. At the end of the body it is discarded, as the grammar says: something
    /// was cut.
    pub fn pending(&self) -> bool {
        !self.line.is_empty() || !self.data.is_empty()
    }

    fn read(&mut self, mut bytes: &[u8], events: &mut Vec<Event>) -> Result<(), SseError> {
        while !bytes.is_empty() {
            if std::mem::take(&mut self.after_cr) && bytes[0] == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let Some(end) = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r')) else {
                return self.keep(bytes);
            };
            self.after_cr = bytes[end] == b'\r';
            self.end_line(&bytes[..end], events)?;
            bytes = &bytes[end + 1..];
        }
        Ok(())
    }

    /// Keeps the beginning of a line. Of a comment only its first byte is kept.
    fn keep(&mut self, bytes: &[u8]) -> Result<(), SseError> {
        if self.line.first() == Some(&b':') {
            return Ok(());
        }
        if bytes.first() == Some(&b':') && self.line.is_empty() {
            self.line.push(b':');
            return Ok(());
        }
        self.bound(self.line.len() + bytes.len())?;
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    /// `rest` ends the line.
    fn end_line(&mut self, rest: &[u8], events: &mut Vec<Event>) -> Result<(), SseError> {
        if self.line.is_empty() {
            return self.line_read(rest, events);
        }
        self.keep(rest)?;
        let line = std::mem::take(&mut self.line);
        self.line_read(&line, events)?;
        // The buffer is used again: most lines of a slow stream come in pieces.
        self.line = line;
        self.line.clear();
        Ok(())
    }

    fn line_read(&mut self, mut line: &[u8], events: &mut Vec<Event>) -> Result<(), SseError> {
        if std::mem::take(&mut self.first_line) {
            line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        }
        if line.is_empty() {
            events.extend(self.dispatch());
            return Ok(());
        }
        let (field, value) = match line.iter().position(|byte| *byte == b':') {
            Some(0) => return Ok(()),
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &line[line.len()..]),
        };
        self.bound(line.len())?;
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => {
                self.data.push_str(text(value)?);
                self.data.push('\n');
            }
            b"event" => text(value)?.clone_into(&mut self.name),
            b"id" if !value.contains(&0) => {
                self.id = Some(text(value)?.to_owned());
            }
            // `retry` is a browser's affair, and unknown fields are ignored.
            _ => {}
        }
        Ok(())
    }

    /// The event that an empty line ends; without any data there is none.
    fn dispatch(&mut self) -> Option<Event> {
        let name = std::mem::take(&mut self.name);
        let mut data = std::mem::take(&mut self.data);
        data.pop()?;
        Some(Event { name: (!name.is_empty()).then_some(name), data, id: self.id.clone() })
    }

    fn bound(&self, line: usize) -> Result<(), SseError> {
        let fits = self.data.len() + self.name.len() + line <= self.max_event_bytes;
        fits.then_some(()).ok_or(SseError::TooLarge(self.max_event_bytes))
    }
}

fn text(bytes: &[u8]) -> Result<&str, SseError> {
    std::str::from_utf8(bytes).map_err(|_| SseError::NotUtf8)
}
