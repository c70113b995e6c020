//! The streamed call: every piece goes into the log as it comes, and the whole is assembled beside it.
//!
//! Only content moves the clocks: comments, roles and usage do not. A stream is complete when its protocol's own
//! terminal event was seen; whatever else ends it proves nothing.

use std::time::Duration;

use providers::adapter::StreamPiece;
use providers::canonical::Request;
use providers::failure::{Failure, Proof};
use providers::transport::{MAX_ANSWER, Response};
use tokio::time::Instant;

use super::{Call, News, Outcome, Upstream};
use crate::engine::stream_log::{LogWriter, StreamLog};

/// How long a stream that is complete is read on, for its usage.
const TRAILER: Duration = Duration::from_secs(2);

impl Call {
    /// `None`: nobody listens any more.
    pub(super) async fn exchange_stream(
        &mut self,
        upstream: &Upstream,
        request: &Request,
        mut response: Response,
    ) -> Option<Result<Outcome, Failure>> {
        let mut decoder = match upstream.adapter.stream_decoder(request, &response.head) {
            Some(Ok(decoder)) => decoder,
            Some(Err(failure)) => return Some(Err(failure)),
            None => {
                let why = "this provider's adapter cannot read streams";
                return Some(Err(Failure::new(Proof::Unknown, "not_streamed", why)));
            }
        };
        let writer = StreamLog::open(self.teller.key.id, upstream.provider.clone(), self.teller.attempts);
        self.log = Some(writer.log().clone());
        let mut read = 0;
        while !decoder.is_complete() {
            let chunk = if decoder.has_ended() {
                // The answer stands; a provider that neither ends nor says its usage is not waited for.
                let rest = tokio::time::timeout(TRAILER, response.chunk());
                self.attend(rest).await?.ok().and_then(Result::ok).flatten()
            } else {
                match self.attend(response.chunk()).await? {
                    Ok(chunk) => chunk,
                    Err(failure) => return Some(Err(failure)),
                }
            };
            let Some(chunk) = chunk else { break };
            read += chunk.len();
            if read > MAX_ANSWER {
                let why = format!("the stream is longer than {MAX_ANSWER} bytes");
                return Some(Err(Failure::new(Proof::Unknown, "answer_too_large", why)));
            }
            match decoder.feed(&chunk) {
                Ok(pieces) => self.take(pieces, &writer),
                Err(failure) => return Some(Err(failure)),
            }
        }
        self.take(decoder.drain(), &writer);
        // A whole answer to a stream request has come out there, all at once.
        let finished = decoder.finish();
        Some(finished.map(|answer| Outcome { answer, stream: Some(writer.log().clone()) }))
    }

    /// What a stream said, into the log; the first content is told.
    fn take(&mut self, pieces: Vec<StreamPiece>, writer: &LogWriter) {
        for piece in pieces {
            match piece {
                StreamPiece::Usage { data } => writer.set_usage(data),
                StreamPiece::Chunk { data, content } => {
                    writer.push(data);
                    if content && self.clocks.last_content.replace(Instant::now()).is_none() {
                        self.teller.tell(News::Content(writer.log().clone()));
                    }
                }
            }
        }
    }
}
