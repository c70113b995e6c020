//! A stream request that is answered with one JSON body: collected, read as a whole answer, and given out in chunks.

use bytes::Bytes;

use crate::adapter::StreamPiece;
use crate::canonical::Answer;
use crate::failure::Failure;
use crate::ndjson::Brackets;
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
    brackets: Brackets,
    answer: Option<Answer>,
}

impl WholeBody {
    pub fn new(read: ReadWhole) -> Self {
        WholeBody { read, body: Vec::new(), brackets: Brackets::default(), answer: None }
    }

    /// Collects up to the document's last byte; what follows is ignored.
    pub fn feed(&mut self, bytes: &[u8], out: &mut Vec<StreamPiece>) -> Result<(), Failure> {
        if self.is_complete() {
            return Ok(());
        }
        let end = bytes.iter().position(|byte| self.brackets.closes(*byte));
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
}
