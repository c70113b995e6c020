//! `GET /v1/jobs/{id}/events`: state changes and chunks as an event stream, resumable from any point.
//!
//! Chunks are the events of the job's own dialect, as its stream shows them, whatever the provider speaks: their data is
//! the event's, whose name stands in its `type` where the dialect has names.
//!
//! A chunk's event id is `attempt:position`. What is made of an attempt's stream is always the same, so a position means
//! the same event whenever it is told. A client that comes back with `Last-Event-ID` gets what follows it, if that
//! attempt is still the one being shown or has won; otherwise the chunks begin anew, after an event `reset`.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::Response;
use bytes::{Bytes, BytesMut};
use futures_util::stream;
use providers::dialects::{Dialect, Rendering};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::auth::Caller;
use super::dialects::{Form, rendering};
use super::jobs::id_of;
use super::openapi::Refusals;
use super::problem::{Problem, Shape};
use super::stream::event_stream;
use super::{headers, view};
use crate::domain::ids::{AttemptId, JobId, OwnerId};
use crate::domain::job::{JobState, Snapshot};
use crate::engine::progress::{Delivered, Progress};
use crate::engine::stream_log::StreamLog;
use crate::engine::submit::Ticket;
use crate::engine::{Engine, tasks};

/// Events on their way to one client; a slow one holds up only its own.
const QUEUE: usize = 32;
/// Between two looks at a job on which nobody works here.
const LOOK: Duration = Duration::from_millis(300);

#[utoipa::path(
    get, path = "/v1/jobs/{id}/events", tag = "applications", security(("api_key" = [])),
    params(
        ("id" = Uuid, Path, description = "The job's id"),
        ("Last-Event-ID" = Option<String>, Header, description = "Goes on behind this event"),
    ),
    responses(
        (status = 200, body = String, description = "States and chunks as they come", content_type = "text/event-stream"),
        Refusals
    )
)]
pub async fn follow(
    State(engine): State<Engine>,
    caller: Caller,
    Path(id): Path<String>,
    headers_in: HeaderMap,
) -> Response {
    let opened = async {
        let id = id_of(&id)?;
        engine.store().job(caller.owner, id).await?.ok_or(Problem::NotFound)?;
        let (sender, receiver) = mpsc::channel(QUEUE);
        let events =
            Events { engine, owner: caller.owner, job: id, seen: Position::read(&headers_in), sender, told: None };
        tasks::spawn(events.run());
        let body = stream::unfold(receiver, |mut receiver| async move {
            let event: Bytes = receiver.recv().await?;
            Some((Ok::<_, Infallible>(event), receiver))
        });
        let mut response = event_stream(Body::from_stream(body));
        headers::job(response.headers_mut(), id);
        Ok(response)
    };
    opened.await.unwrap_or_else(|problem: Problem| problem.answer(Shape::Problem))
}

/// The last chunk that the client has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Position {
    attempt: AttemptId,
    chunk: usize,
}

impl Position {
    fn read(headers_in: &HeaderMap) -> Option<Position> {
        let (attempt, chunk) = headers_in.get("last-event-id")?.to_str().ok()?.split_once(':')?;
        Some(Position { attempt: attempt.parse().ok()?, chunk: chunk.parse().ok()? })
    }
}

/// One client's events.
struct Events {
    engine: Engine,
    owner: OwnerId,
    job: JobId,
    seen: Option<Position>,
    sender: mpsc::Sender<Bytes>,
    /// The state last told: the job's and its attempts'.
    told: Option<String>,
}

/// The client has gone.
struct Gone;

impl Events {
    async fn run(mut self) {
        // Either everything was told, or nobody listens any more; there is nothing left to do in both cases.
        let _ = self.tell_all().await;
    }

    async fn tell_all(&mut self) -> Result<(), Gone> {
        loop {
            let Ok(Some(snapshot)) = self.engine.store().job(self.owner, self.job).await else {
                return self.send("error", None, &Problem::StoreUnavailable.text(Shape::Problem)).await;
            };
            self.tell_state(&snapshot).await?;
            if snapshot.job.state.is_terminal() {
                return self.tell_end(&snapshot).await;
            }
            match snapshot.job.state {
                JobState::Running | JobState::Unknown => {
                    let ticket = self.engine.attach(&snapshot, false);
                    self.tell_progress(ticket).await?;
                }
                JobState::Queued | JobState::Succeeded { .. } | JobState::Failed | JobState::Cancelled => {
                    tokio::time::sleep(LOOK).await;
                }
            }
            if self.sender.is_closed() {
                return Err(Gone);
            }
        }
    }

    async fn tell_progress(&mut self, mut ticket: Ticket) -> Result<(), Gone> {
        match ticket.wait_for_stream(Some(Instant::now() + LOOK)).await {
            Progress::Streaming(log) => self.tell_stream(&log, ticket).await,
            Progress::Unknown { .. } | Progress::RoundOver(_) | Progress::Interrupted => {
                tokio::time::sleep(LOOK).await;
                Ok(())
            }
            Progress::Running | Progress::Succeeded(_) | Progress::Failed(_) | Progress::Cancelled => Ok(()),
        }
    }

    async fn tell_stream(&mut self, log: &std::sync::Arc<StreamLog>, mut ticket: Ticket) -> Result<(), Gone> {
        let Some((dialect, rendering)) = self.rendering().await? else { return Ok(()) };
        let known = self.already(log.attempt).await?;
        let (mut writer, mut position) = (dialect.writer(&rendering), 0);
        let mut follower = log.follow();
        loop {
            let chunk = tokio::select! {
                biased;
                chunk = follower.next() => chunk,
                () = ticket.trouble() => None,
            };
            let Some(chunk) = chunk else { break };
            for event in data_of(&writer.chunk(&chunk)) {
                if position >= known {
                    self.send_chunk(log.attempt, position, event).await?;
                }
                position += 1;
            }
        }
        // The commit of what was streamed, or the word on why there is none.
        ticket.wait(Some(Instant::now() + LOOK)).await;
        Ok(())
    }

    /// How many chunks of this attempt the client has; a client that was shown another attempt is told to begin anew.
    async fn already(&mut self, attempt: AttemptId) -> Result<usize, Gone> {
        match self.seen {
            Some(seen) if seen.attempt == attempt => Ok(seen.chunk + 1),
            Some(_) => {
                self.seen = None;
                self.send("reset", None, "{}").await?;
                Ok(0)
            }
            None => Ok(0),
        }
    }

    async fn tell_end(&mut self, snapshot: &Snapshot) -> Result<(), Gone> {
        if let Ok(delivered) = self.engine.delivered(snapshot).await {
            let Some((dialect, rendering)) = self.rendering().await? else { return Ok(()) };
            let skip = self.already(delivered.attempt).await?;
            let told = whole(&delivered, dialect, &rendering);
            for (position, event) in data_of(&told).enumerate().skip(skip) {
                self.send_chunk(delivered.attempt, position, event).await?;
            }
        }
        self.send("done", None, "[DONE]").await
    }

    /// The job's dialect, and what its events are made of; `None`: the client was told why there are none.
    async fn rendering(&mut self) -> Result<Option<(Dialect, Rendering)>, Gone> {
        let read = async {
            let snapshot = self.engine.store().job(self.owner, self.job).await?.ok_or(Problem::NotFound)?;
            let form = Form::whole(&snapshot.job);
            let rendering = rendering(&self.engine, self.owner, self.job, &form).await?;
            Ok::<_, Problem>((form.dialect, Rendering { include_usage: true, ..rendering }))
        };
        match read.await {
            Ok(read) => Ok(Some(read)),
            Err(problem) => {
                self.send("error", None, &problem.text(Shape::Problem)).await?;
                Err(Gone)
            }
        }
    }

    async fn tell_state(&mut self, snapshot: &Snapshot) -> Result<(), Gone> {
        let told = view::job(snapshot).to_string();
        if self.told.as_ref() != Some(&told) {
            self.send("state", None, &told).await?;
            self.told = Some(told);
        }
        Ok(())
    }

    async fn send_chunk(&mut self, attempt: AttemptId, position: usize, event: &str) -> Result<(), Gone> {
        let id = format!("{attempt}:{position}");
        self.send("chunk", Some(&id), event).await?;
        self.seen = Some(Position { attempt, chunk: position });
        Ok(())
    }

    async fn send(&self, name: &str, id: Option<&str>, data: &str) -> Result<(), Gone> {
        let mut event = String::with_capacity(data.len() + 64);
        // Writing to a string cannot fail. The data is JSON on one line.
        let _ = match id {
            Some(id) => write!(event, "event: {name}\nid: {id}\ndata: {data}\n\n"),
            None => write!(event, "event: {name}\ndata: {data}\n\n"),
        };
        self.sender.send(Bytes::from(event)).await.map_err(|_| Gone)
    }
}

/// A stored answer as the stream of its dialect: as it was delivered, or the whole answer cut anew. What is shown in one
/// piece only (embeddings) stays in one.
fn whole(delivered: &Delivered, dialect: Dialect, rendering: &Rendering) -> Bytes {
    let Some(stream) = delivered.stream.as_ref().filter(|stream| !stream.lines.is_empty()) else {
        return dialect
            .whole_as_stream(rendering, &delivered.body)
            .unwrap_or_else(|| Bytes::from(["data: ".as_bytes(), delivered.body.as_ref(), b"\n\n"].concat()));
    };
    let mut out = BytesMut::with_capacity(delivered.body.len() * 2);
    let mut writer = dialect.writer(rendering);
    stream.chunks().for_each(|chunk| out.extend_from_slice(&writer.chunk(&chunk)));
    out.extend_from_slice(&writer.end(stream.usage.as_deref()));
    out.freeze()
}

/// The data of each event, which is on one line; the dialect's closing word is none.
fn data_of(stream: &[u8]) -> impl Iterator<Item = &str> {
    let lines = stream.split(|byte| *byte == b'\n').filter_map(|line| std::str::from_utf8(line).ok());
    lines.filter_map(|line| line.strip_prefix("data: ")).filter(|data| *data != "[DONE]")
}
