//! A stream request that is answered with one JSON body: collected, read as a whole answer, and given out in chunks.

use bytes::Bytes;

use crate::adapter::StreamPiece;
use crate::canonical::Answer;
use crate::failure::Failure;
use crate::openai::stream::rechunk_pieces;

type Read = dyn Fn(&Bytes) -> Result<Answer, Failure> + Send;

/// Reads a whole body as the adapter does.
pub(crate) struct ReadWhole(Box<Read>);

impl ReadWhole {
    pub(crate) fn new(read: impl Fn(&Bytes) -> Result<Answer, Failure> + Send + 'static) -> Self {
        ReadWhole(Box::new(read))
    }
}

impl std::fmt::Debug for ReadWhole {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ReadWhole")
    }
}

#[derive(Debug)]
pub(super) struct WholeBody {
    read: ReadWhole,
    body: Vec<u8>,
    /// How many braces and brackets are open, counted outside of strings.
    depth: usize,
    in_string: bool,
    escaped: bool,
    answer: Option<Answer>,
}

impl WholeBody {
    pub fn new(read: ReadWhole) -> Self {
        WholeBody { read, body: Vec::new(), depth: 0, in_string: false, escaped: false, answer: None }
    }

    /// Collects up to the document's last byte; what follows is ignored.
    pub fn feed(&mut self, bytes: &[u8], out: &mut Vec<StreamPiece>) -> Result<(), Failure> {
        if self.is_complete() {
            return Ok(());
        }
        let end = bytes.iter().position(|byte| self.closes(*byte));
        self.body.extend_from_slice(end.map_or(bytes, |end| &bytes[..=end]));
        if end.is_some() {
            let answer = (self.read.0)(&std::mem::take(&mut self.body).into())?;
            out.extend(rechunk_pieces(&answer.body).unwrap_or_default());
            self.answer = Some(answer);
        }
        Ok(())
    }

    pub fn is_complete(&self) -> bool {
        self.answer.is_some()
    }

    pub fn answer(&self) -> Option<Answer> {
        self.answer.clone()
    }

    /// Whether this byte closes the document. Brackets need not pair up: the JSON reader sees to that.
    fn closes(&mut self, byte: u8) -> bool {
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
