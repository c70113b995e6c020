//! A reader of JSON documents that follow one another (NDJSON): bytes in, documents out, however the bytes were cut.
//!
//! A document ends where its brackets close, not at a line feed: so the last one is whole without one, and a server
//! that breaks its lines otherwise is read all the same. What stands between documents must be white space. As in an
//! event stream, a document that is not UTF-8 is an error, and one is bounded.

#[cfg(test)]
mod tests;

/// A document larger than this is refused.
pub const MAX_DOCUMENT_BYTES: usize = crate::sse::MAX_EVENT_BYTES;

/// Why a stream cannot be read on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DocumentError {
    #[error("a document of more than {0} bytes")]
    TooLarge(usize),
    #[error("a document that is not UTF-8")]
    NotUtf8,
    #[error("something that is neither a JSON object nor an array")]
    NotJson,
}

/// Finds the byte that closes a document. Brackets need not pair up: the JSON reader sees to that.
#[derive(Debug, Default)]
pub(crate) struct Brackets {
    /// How many braces and brackets are open, counted outside of strings.
    depth: usize,
    in_string: bool,
    escaped: bool,
}

impl Brackets {
    /// Whether this byte closes the document that has begun.
    pub fn closes(&mut self, byte: u8) -> bool {
        if self.in_string {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => self.in_string = false,
                _ => {}
            }
            return false;
        }
        match byte {
            b'"' => self.in_string = true,
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                return self.depth == 0;
            }
            _ => {}
        }
        false
    }
}

/// Turns bytes into documents. After an error it says nothing but that error.
#[derive(Debug)]
pub struct DocumentReader {
    max_document_bytes: usize,
    document: Vec<u8>,
    brackets: Brackets,
    failed: Option<DocumentError>,
}

impl Default for DocumentReader {
    fn default() -> Self {
        DocumentReader::new(MAX_DOCUMENT_BYTES)
    }
}

impl DocumentReader {
    pub fn new(max_document_bytes: usize) -> Self {
        DocumentReader { max_document_bytes, document: Vec::new(), brackets: Brackets::default(), failed: None }
    }

    /// The documents that these bytes complete. Those before an error are still given out; the error comes with the
    /// next call, even one without bytes.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<Vec<String>, DocumentError> {
        let mut documents = Vec::new();
        let read = self.failed.map_or_else(|| self.read(bytes, &mut documents), Err);
        self.failed = read.err();
        match self.failed {
            Some(error) if documents.is_empty() => Err(error),
            _ => Ok(documents),
        }
    }

    /// Whether a document has begun and not ended: at the end of the body, something was cut.
    pub fn pending(&self) -> bool {
        !self.document.is_empty()
    }

    fn read(&mut self, mut bytes: &[u8], documents: &mut Vec<String>) -> Result<(), DocumentError> {
        while !bytes.is_empty() {
            if self.document.is_empty() {
                let Some(first) = bytes.iter().position(|byte| !byte.is_ascii_whitespace()) else { return Ok(()) };
                bytes = &bytes[first..];
                if !matches!(bytes[0], b'{' | b'[') {
                    return Err(DocumentError::NotJson);
                }
            }
            let end = bytes.iter().position(|byte| self.brackets.closes(*byte));
            let (more, rest) = bytes.split_at(end.map_or(bytes.len(), |end| end + 1));
            if self.document.len() + more.len() > self.max_document_bytes {
                return Err(DocumentError::TooLarge(self.max_document_bytes));
            }
            self.document.extend_from_slice(more);
            bytes = rest;
            if end.is_some() {
                self.brackets = Brackets::default();
                let whole = String::from_utf8(std::mem::take(&mut self.document));
                documents.push(whole.map_err(|_| DocumentError::NotUtf8)?);
            }
        }
        Ok(())
    }
}
