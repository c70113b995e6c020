//! The streamed call: every piece goes into the log as it comes, and the whole is assembled beside it.
//!
//! Only content moves the clocks: comments, roles and usage do not. A stream is complete when its protocol's own
//! terminal event was seen; whatever else ends it proves nothing. A provider may be asked for a stream where the client
//! wants the answer whole: then nobody follows it, and only the whole is kept.

use std::time::Duration;

use providers::adapter::StreamPiece;
use providers::canonical::Request;
use providers::failure::{Failure, Proof};
use providers::transport::{MAX_ANSWER, Response};
use tokio::time::Instant;

use super::{Call, News, Outcome, Upstream};
use crate::engine::stream_log::{LogWriter, StreamLog};
use crate::engine::tasks;

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
        let (id, attempts, dropped) = (self.teller.key.id, self.teller.attempts, self.teller.dropped.clone());
        let open = || StreamLog::open(id, upstream.provider.clone(), attempts, dropped);
        let writer = request.stream.then(open);
        self.log = writer.as_ref().map(|writer| writer.log().clone());
        let mut noted = false;
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
            if writer.is_none() {
                self.whole.push(chunk.clone());
            }
            let fed = decoder.feed(&chunk);
            if !noted && let Some(reference) = decoder.reference() {
                noted = true;
                self.note(reference).await?;
            }
            match fed {
                Ok(pieces) => self.take(pieces, writer.as_ref()),
                Err(failure) => return Some(Err(failure)),
            }
        }
        self.take(decoder.drain(), writer.as_ref());
        // A whole answer to a stream request has come out there, all at once.
        let finished = decoder.finish();
        Some(finished.map(|answer| Outcome { answer, stream: writer.map(|writer| writer.log().clone()) }))
    }

    /// Writes down under which id the provider works on this, before anything else is done with what it says. `None`:
    /// nobody listens any more.
    async fn note(&mut self, reference: &str) -> Option<()> {
        let (engine, key) = (self.engine.clone(), self.teller.key);
        let note = || engine.store().note_reference(key, reference);
        let noted = self.attend(engine.persist("note the provider's id", note)).await?;
        match noted {
            Some(Ok(false)) => {
                tracing::debug!(job = %key.job, attempt = %key.id, reference, "the provider's id is noted")
            }
            // Cancelled before anybody knew by what to cancel it there. In a task of its own, since it ends this one.
            Some(Ok(true)) => tasks::spawn(async move { engine.call_off(key.owner, key.job).await }),
            Some(Err(error)) => {
                tracing::warn!(job = %key.job, attempt = %key.id, %error, "the provider's id could not be noted");
            }
            None => {}
        }
        Some(())
    }

    /// What a stream said, into the log where there is one; the first content is told to those who follow.
    fn take(&mut self, pieces: Vec<StreamPiece>, writer: Option<&LogWriter>) {
        for piece in pieces {
            match (piece, writer) {
                (StreamPiece::Usage { data }, Some(writer)) => writer.set_usage(data),
                (StreamPiece::Chunk { data, content }, Some(writer)) => {
                    writer.push(data);
                    if content && self.clocks.last_content.replace(Instant::now()).is_none() {
                        self.teller.tell(News::Content(writer.log().clone()));
                    }
                }
                (StreamPiece::Chunk { content: true, .. }, None) => self.clocks.last_content = Some(Instant::now()),
                (StreamPiece::Usage { .. } | StreamPiece::Chunk { .. }, None) => {}
            }
        }
    }
}
