//! One attempt's call: its clocks, and listening on after they have run out.
//!
//! The clocks make an attempt *unknown*, they never end the call: the answer may still come, and is then the outcome.
//! Only `settle_timeout` ends the listening.

mod stream;

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use providers::adapter::{Head, UpstreamRequest};
use providers::canonical::{Answer, Request};
use providers::failure::{Failure, Proof};
use providers::transport::MAX_ANSWER;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::Engine;
use super::calls::{Seat, Stop};
use super::stream_log::StreamLog;
use super::tasks::CallGuard;
use super::upstreams::Upstream;
use crate::domain::route::{Route, Target};
use crate::store::attempts::AttemptKey;

/// A stream's clocks where its route sets none.
const FIRST_CONTENT: Duration = Duration::from_secs(20);
const BETWEEN_CONTENTS: Duration = Duration::from_secs(15);

/// What a call tells the task of its job.
#[derive(Debug)]
pub struct CallEvent {
    pub key: AttemptKey,
    pub target: Target,
    pub dropped: Vec<String>,
    pub news: News,
}

#[derive(Debug)]
pub enum News {
    /// A clock has run out: the outcome is unknown. The call still listens.
    Silent {
        reason: &'static str,
        after: Duration,
    },
    /// The first content of a stream has come; more follows in the log.
    Content(Arc<StreamLog>),
    Ended(Result<Outcome, Failure>),
    /// `settle_timeout` is over, or the answer came by another way; nobody listens any more.
    GaveUp,
    /// The attempt was cancelled, and the connection is closed. What had come of an answer is thrown away.
    CalledOff {
        received: Bytes,
    },
}

/// A complete, valid answer, and the stream that it came in.
#[derive(Debug)]
pub struct Outcome {
    pub answer: Answer,
    pub stream: Option<Arc<StreamLog>>,
}

/// Tells the job's task, and if the call's own task should die without a word, tells that too.
#[derive(Debug)]
pub struct Teller {
    pub key: AttemptKey,
    pub target: Target,
    /// Attempts of the job up to this one.
    pub attempts: usize,
    /// What of the request was left out for this target.
    pub dropped: Vec<String>,
    pub events: mpsc::UnboundedSender<Box<CallEvent>>,
    ended: bool,
}

impl Teller {
    pub fn new(
        key: AttemptKey,
        target: Target,
        attempts: usize,
        dropped: Vec<String>,
        events: mpsc::UnboundedSender<Box<CallEvent>>,
    ) -> Self {
        Teller { key, target, attempts, dropped, events, ended: false }
    }

    fn tell(&mut self, news: News) {
        self.ended |= !matches!(news, News::Silent { .. } | News::Content(_));
        // The job's task outlives its calls; if it does not, the sweep finds the attempt.
        let (key, target, dropped) = (self.key, self.target.clone(), self.dropped.clone());
        let _ = self.events.send(Box::new(CallEvent { key, target, dropped, news }));
    }
}

impl Drop for Teller {
    fn drop(&mut self) {
        if !self.ended {
            let failure =
                Failure::new(Proof::Unknown, "gateway_fault", "the gateway's own task ended without an outcome");
            self.tell(News::Ended(Err(failure)));
        }
    }
}

/// The clocks of one attempt, all counted from its committed start.
#[derive(Debug)]
pub struct Clocks {
    total: Instant,
    first_byte: Option<Instant>,
    idle: Option<Duration>,
    settle: Instant,
    started: Instant,
    last_content: Option<Instant>,
    silent: bool,
}

impl Clocks {
    pub fn start(route: &Route, streams: bool, started: Instant) -> Self {
        let of_stream = |default| streams.then_some(default);
        Clocks {
            total: started + route.attempt_timeout,
            first_byte: route.first_byte_timeout.or(of_stream(FIRST_CONTENT)).map(|d| started + d),
            idle: route.idle_timeout.or(of_stream(BETWEEN_CONTENTS)),
            settle: started + route.attempt_timeout.max(route.settle_timeout),
            started,
            last_content: None,
            silent: false,
        }
    }

    /// The clock that runs out next, and its name.
    fn next(&self) -> (Instant, &'static str) {
        if self.silent {
            return (self.settle, "settle_timeout");
        }
        let content = match self.last_content {
            None => self.first_byte.map(|at| (at, "first_byte_timeout")),
            Some(last) => self.idle.map(|d| (last + d, "idle_timeout")),
        };
        content.filter(|(at, _)| *at < self.total).unwrap_or((self.total, "attempt_timeout"))
    }
}

/// What goes to the provider.
#[derive(Debug)]
pub struct Outgoing {
    pub upstream: Upstream,
    pub request: Arc<Request>,
    pub wire: UpstreamRequest,
}

/// Calls the provider and tells what becomes of it. Nothing of this is ever repeated: the transport sends once.
pub async fn call(
    engine: Engine,
    outgoing: Outgoing,
    clocks: Clocks,
    teller: Teller,
    guard: CallGuard,
    mut seat: Seat,
) {
    let Outgoing { upstream, request, wire } = outgoing;
    let mut call = Call { engine, clocks, teller, guard: Some(guard), whole: Pieces::default(), log: None };
    let ended = seat.attend(call.exchange(&upstream, &request, wire)).await;
    let news = match ended {
        // Providers echo keys in their errors.
        Ok(Some(outcome)) => News::Ended(outcome.map_err(|failure| failure.masked(upstream.api_key.as_ref()))),
        Ok(None) | Err(Stop::NotNeeded) => News::GaveUp,
        Err(Stop::Cancelled) => News::CalledOff { received: call.received() },
    };
    call.teller.tell(news);
}

struct Call {
    engine: Engine,
    clocks: Clocks,
    teller: Teller,
    /// Held while somebody waits; a call that only listens does not hold up a shutdown.
    guard: Option<CallGuard>,
    /// Of an answer that no client follows as it comes: what has come.
    whole: Pieces,
    /// Of one that is followed.
    log: Option<Arc<StreamLog>>,
}

/// A body as it comes; one that comes at once is not copied.
#[derive(Default)]
struct Pieces {
    only: Bytes,
    joined: BytesMut,
}

impl Pieces {
    fn len(&self) -> usize {
        self.only.len() + self.joined.len()
    }

    fn push(&mut self, piece: Bytes) {
        if self.len() == 0 {
            self.only = piece;
        } else {
            self.joined.extend_from_slice(&std::mem::take(&mut self.only));
            self.joined.extend_from_slice(&piece);
        }
    }

    fn take(&mut self) -> Bytes {
        if self.joined.is_empty() { std::mem::take(&mut self.only) } else { self.joined.split().freeze() }
    }
}

impl Call {
    /// What has come of an answer so far: as the provider sent it, or a stream as its followers see it.
    fn received(&mut self) -> Bytes {
        self.log.take().map_or_else(|| self.whole.take(), |log| log.lines())
    }

    /// `None`: nobody listens any more.
    async fn exchange(
        &mut self,
        upstream: &Upstream,
        request: &Request,
        wire: UpstreamRequest,
    ) -> Option<Result<Outcome, Failure>> {
        let mut response = match self.attend(upstream.transport.send(wire)).await? {
            Ok(response) => response,
            Err(failure) => return Some(Err(failure)),
        };
        let head = response.head.clone();
        if upstream.adapter.streams(request) && head.status.is_success() {
            return self.exchange_stream(upstream, request, response).await;
        }
        loop {
            match self.attend(response.chunk()).await? {
                Ok(Some(chunk)) => {
                    self.clocks.last_content = Some(Instant::now());
                    if self.whole.len() + chunk.len() > MAX_ANSWER {
                        let why = format!("the answer is larger than {MAX_ANSWER} bytes");
                        return Some(Err(Failure::new(Proof::Unknown, "answer_too_large", why)));
                    }
                    self.whole.push(chunk);
                }
                Ok(None) => break,
                Err(failure) => return Some(Err(failure)),
            }
        }
        let whole = self.whole.take();
        if let Err(failure) = response.check_whole(&whole) {
            return Some(Err(failure));
        }
        let answer = read(upstream, request, &head, &whole);
        Some(answer.map(|answer| Outcome { answer, stream: None }))
    }

    /// Awaits `work` past every clock but the last; each that runs out is told once.
    async fn attend<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        let mut work = std::pin::pin!(work);
        loop {
            let (alarm, reason) = self.clocks.next();
            tokio::select! {
                biased;
                done = &mut work => return Some(done),
                () = tokio::time::sleep_until(alarm) => {
                    if self.clocks.silent {
                        return None;
                    }
                    self.clocks.silent = true;
                    self.guard = None;
                    let after = self.clocks.started.elapsed();
                    self.teller.tell(News::Silent { reason, after });
                }
            }
        }
    }
}

/// What a complete answer says.
fn read(upstream: &Upstream, request: &Request, head: &Head, body: &Bytes) -> Result<Answer, Failure> {
    if head.status.is_success() {
        upstream.adapter.from_upstream(request, head, body)
    } else {
        Err(upstream.adapter.from_failure(head, body))
    }
}
