//! Simulated providers, for the demo and for tests: real HTTP servers on a free port of the loopback, which speak
//! OpenAI's chat completions, Anthropic's messages or Gemini's generateContent and break in the ways that real ones do, on command.
//!
//! They must be strict where the real ones are: a parameter that the mini-model does not honour is refused, never
//! dropped, so that a contract suite that passes here has proved something. They must never be reachable from another
//! machine, and never know which suite or demo calls them.

mod anthropic;
mod asked;
mod embeddings;
mod gemini;
mod model;
mod noise;
mod openai;
mod pattern;
mod schema;
#[cfg(test)]
mod tests;
mod wire;
mod words;
mod zoo;

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, Method, Uri};
use axum::response::Response;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use asked::Asked;
use wire::Fault;
use zoo::{Act, Memory, Skip};
pub use zoo::{Expect, Misbehaviour, catalogue};

/// The context window of a fresh provider, tokens.
const CONTEXT_WINDOW: usize = 128_000;
/// The largest body that is read: several times the largest window.
const BODY_LIMIT: usize = 64 << 20;

/// The protocol a provider speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    /// `POST /v1/chat/completions`, `POST /v1/embeddings`, `GET /v1/models`.
    OpenAiChat,
    /// `POST /v1/messages`, `POST /v1/messages/count_tokens`, `GET /v1/models`.
    AnthropicMessages,
    /// `POST /v1beta/models/MODEL:generateContent`, `:streamGenerateContent`, `:countTokens`, `GET /v1beta/models`.
    Gemini,
}

/// How a provider treats calls that ask for an answer. Model lists and token counts always work: they prove nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behaviour {
    /// Keeps every promise that it makes.
    Sound,
    /// Answers 200, and ignores the system prompt, wraps JSON in prose, adds a member and reports usage too low.
    BreaksContract,
    /// Overloaded: 503, or Anthropic's 529, in its own error shape.
    Refuses,
    /// Takes the request and stays silent until [`SimProvider::release_held`].
    Hangs,
}

/// A call that asked for an answer, as it arrived.
#[derive(Debug, Clone)]
pub struct SimCall {
    /// The first of `x-interlock-attempt-id`, `x-client-request-id`, `idempotency-key`.
    pub attempt_id: Option<String>,
    pub model: String,
    /// `Null` where it was no JSON.
    pub body: Value,
    pub at: SystemTime,
}

/// A running simulated provider. It ends, with all its connections, when it is dropped.
#[derive(Debug)]
pub struct SimProvider {
    address: SocketAddr,
    sim: Arc<Sim>,
    _server: JoinSet<()>,
}

#[derive(Debug)]
struct Sim {
    name: String,
    /// None: all, told apart by path and headers.
    wire: Option<Wire>,
    settings: Mutex<Settings>,
    memory: Memory,
    calls: Mutex<Vec<SimCall>>,
    held: AtomicUsize,
    /// Rises with each release; a held call waits for a number above the one it came under.
    releases: watch::Sender<u64>,
    served: AtomicU64,
}

#[derive(Debug, Clone)]
struct Settings {
    behaviour: Behaviour,
    context_window: usize,
    /// None: any model is known.
    models: Option<Vec<String>>,
    /// None: any key will do, and none.
    key: Option<String>,
    /// What it does wrong.
    zoo: Option<&'static Misbehaviour>,
    /// The seed of its sampling noise. None: it answers the same each time.
    noise: Option<u64>,
}

impl Settings {
    fn acts(&self) -> impl Iterator<Item = &'static Act> + use<> {
        self.zoo.into_iter().flat_map(Misbehaviour::acts)
    }

    fn skips(&self, check: Skip) -> bool {
        self.acts().any(|act| matches!(act, Act::Skip(skip) if *skip == check))
    }
}

impl SimProvider {
    /// Starts a sound provider on a free port.
    pub async fn start(name: impl Into<String>, wire: Wire) -> io::Result<SimProvider> {
        SimProvider::listen(name, Some(wire), SocketAddr::from(([127, 0, 0, 1], 0))).await
    }

    /// Starts a sound provider on an address of the loopback; without a wire it speaks all.
    pub async fn listen(name: impl Into<String>, wire: Option<Wire>, at: SocketAddr) -> io::Result<SimProvider> {
        if !at.ip().is_loopback() {
            let why = format!("{at} is not on the loopback: a simulated provider serves this machine only");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let listener = TcpListener::bind(at).await?;
        let address = listener.local_addr()?;
        let settings = Settings {
            behaviour: Behaviour::Sound,
            context_window: CONTEXT_WINDOW,
            models: None,
            key: None,
            zoo: None,
            noise: None,
        };
        let sim = Arc::new(Sim {
            name: name.into(),
            wire,
            settings: Mutex::new(settings),
            memory: Memory::default(),
            calls: Mutex::default(),
            held: AtomicUsize::new(0),
            releases: watch::Sender::new(0),
            served: AtomicU64::new(0),
        });
        tokio::task::spawn_blocking(model::tokenizer).await.map_err(io::Error::other)?;
        let mut server = JoinSet::new();
        server.spawn(listen(listener, sim.clone()));
        Ok(SimProvider { address, sim, _server: server })
    }

    pub fn name(&self) -> &str {
        &self.sim.name
    }

    /// What goes into a provider's `base_url`: it ends in `/v1`, in `/v1beta` where only Gemini's format is spoken.
    pub fn base_url(&self) -> String {
        let version = if self.sim.wire == Some(Wire::Gemini) { "v1beta" } else { "v1" };
        format!("http://{}/{version}", self.address)
    }

    pub fn set_behaviour(&self, behaviour: Behaviour) {
        self.sim.settings().behaviour = behaviour;
    }

    /// From now on it misbehaves in this one way.
    pub fn misbehave(&self, row: &'static Misbehaviour) {
        self.sim.settings().zoo = Some(row);
    }

    /// From now on its answers vary as a sound provider's may, in a way that the seed decides.
    pub fn set_noise(&self, seed: u64) {
        self.sim.settings().noise = Some(seed);
    }

    /// The context window in tokens; 128,000 at first.
    pub fn set_context_window(&self, tokens: usize) {
        self.sim.settings().context_window = tokens;
    }

    /// From now on only these models exist.
    pub fn set_models<I: IntoIterator<Item = S>, S: Into<String>>(&self, models: I) {
        self.sim.settings().models = Some(models.into_iter().map(Into::into).collect());
    }

    /// From now on only this key is good.
    pub fn set_key(&self, key: impl Into<String>) {
        self.sim.settings().key = Some(key.into());
    }

    /// Every call that is held now is answered soundly. Later ones hang as before, until the behaviour changes.
    pub fn release_held(&self) {
        self.sim.releases.send_modify(|release| *release += 1);
    }

    /// How many calls are held now; one whose client has gone away is not.
    pub fn held(&self) -> usize {
        self.sim.held.load(Ordering::SeqCst)
    }

    /// The calls so far that asked for an answer, in order of arrival, whatever became of them.
    pub fn calls(&self) -> Vec<SimCall> {
        self.sim.calls().clone()
    }

    pub fn calls_count(&self) -> usize {
        self.sim.calls().len()
    }
}

impl Sim {
    fn settings(&self) -> MutexGuard<'_, Settings> {
        self.settings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn calls(&self) -> MutexGuard<'_, Vec<SimCall>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the call, and returns the behaviour to answer it with, once it may be answered.
    async fn admit(
        &self,
        wire: Wire,
        headers: &HeaderMap,
        body: &Value,
        key: Option<&str>,
    ) -> Result<Behaviour, Fault> {
        // Both before the first await: who sees the call in `calls()` can release it.
        let mut releases = self.releases.subscribe();
        let behaviour = self.settings().behaviour;
        let hold = (behaviour == Behaviour::Hangs).then(|| Hold::new(&self.held));
        let text = |name| headers.get(name)?.to_str().ok().map(str::to_owned);
        let attempt_id =
            ["x-interlock-attempt-id", "x-client-request-id", "idempotency-key"].into_iter().find_map(text);
        let model = body.get("model").and_then(Value::as_str).unwrap_or("").to_owned();
        self.calls().push(SimCall { attempt_id, model, body: body.clone(), at: SystemTime::now() });
        wire::check_key(headers, key, wire)?;
        match behaviour {
            Behaviour::Refuses => Err(Fault::Overloaded),
            Behaviour::Hangs => {
                let released = releases.changed().await;
                drop(hold);
                released.map(|()| Behaviour::Sound).map_err(|_| Fault::Overloaded)
            }
            Behaviour::Sound | Behaviour::BreaksContract => Ok(behaviour),
        }
    }

    /// Anthropic's clients name the version of its API in every call, Google's send their key in a header of its own.
    fn spoken(&self, headers: &HeaderMap, path: &str) -> Wire {
        let anthropic = path.starts_with("/v1/messages") || headers.contains_key("anthropic-version");
        self.wire.unwrap_or(match () {
            () if path.starts_with("/v1beta/") || headers.contains_key("x-goog-api-key") => Wire::Gemini,
            () if anthropic => Wire::AnthropicMessages,
            () => Wire::OpenAiChat,
        })
    }

    async fn respond(&self, wire: Wire, settings: &Settings, request: Call) -> Result<Response, Fault> {
        let Call { method, path, query, headers, body, id } = request;
        let key = settings.key.as_deref();
        let allowed = wire::check_key(&headers, key, wire);
        let asked = |behaviour| Asked { settings, behaviour, memory: &self.memory, id: &id };
        match (wire, &method, path.as_str()) {
            (Wire::OpenAiChat, &Method::GET, "/v1/models") => allowed.map(|()| openai::models(&settings.models)),
            (Wire::AnthropicMessages, &Method::GET, "/v1/models") => {
                allowed.map(|()| anthropic::models(&settings.models))
            }
            (Wire::OpenAiChat, &Method::POST, "/v1/chat/completions") => {
                let parsed = wire::parse(&body);
                let behaviour = self.admit(wire, &headers, parsed.as_ref().unwrap_or(&Value::Null), key).await?;
                openai::complete(&parsed?, &asked(behaviour))
            }
            (Wire::AnthropicMessages, &Method::POST, "/v1/messages") => {
                let parsed = wire::parse(&body);
                let behaviour = self.admit(wire, &headers, parsed.as_ref().unwrap_or(&Value::Null), key).await?;
                anthropic::check_version(&headers)?;
                anthropic::complete(&parsed?, &asked(behaviour))
            }
            (Wire::AnthropicMessages, &Method::POST, "/v1/messages/count_tokens") => {
                allowed?;
                anthropic::check_version(&headers)?;
                anthropic::count_tokens(&wire::parse(&body)?, settings)
            }
            (Wire::OpenAiChat, &Method::POST, "/v1/embeddings") => {
                let parsed = wire::parse(&body);
                self.admit(wire, &headers, parsed.as_ref().unwrap_or(&Value::Null), key).await?;
                embeddings::embed(&parsed?, settings)
            }
            (Wire::Gemini, method, path) => match gemini::called(method, path, query.as_deref()) {
                None => allowed.and(Err(Fault::NoRoute { asked: format!("{method} {path}") })),
                Some(gemini::Called::Models(id)) => allowed.and_then(|()| gemini::models(id, settings)),
                Some(gemini::Called::Count(model)) => {
                    allowed?;
                    gemini::count_tokens(&gemini::parse(&body, model)?, settings)
                }
                Some(gemini::Called::Generate(model, form)) => {
                    let parsed = gemini::parse(&body, model);
                    let behaviour = self.admit(wire, &headers, parsed.as_ref().unwrap_or(&Value::Null), key).await?;
                    gemini::complete(&parsed?, form, &asked(behaviour))
                }
            },
            _ => allowed.and(Err(Fault::NoRoute { asked: format!("{method} {path}") })),
        }
    }
}

/// One HTTP request.
struct Call {
    method: Method,
    path: String,
    query: Option<String>,
    headers: HeaderMap,
    body: Bytes,
    id: String,
}

/// Counts a held call for as long as it is held, also when its client goes away.
struct Hold<'a>(&'a AtomicUsize);

impl<'a> Hold<'a> {
    fn new(held: &'a AtomicUsize) -> Hold<'a> {
        held.fetch_add(1, Ordering::SeqCst);
        Hold(held)
    }
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

async fn serve(State(sim): State<Arc<Sim>>, method: Method, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    let id = format!("req_{}_{}", sim.name, sim.served.fetch_add(1, Ordering::Relaxed) + 1);
    let wire = sim.spoken(&headers, uri.path());
    let settings = sim.settings().clone();
    let (path, query) = (uri.path().to_owned(), uri.query().map(str::to_owned));
    let call = Call { method, path, query, headers, body, id: id.clone() };
    let mut response = sim.respond(wire, &settings, call).await.unwrap_or_else(|fault| {
        let told = settings.acts().find_map(|act| if let Act::Error(tell) = act { tell(&fault, wire) } else { None });
        match (told, wire) {
            (Some(raw), _) => wire::raw(raw),
            (None, Wire::OpenAiChat) => openai::fault(&fault),
            (None, Wire::AnthropicMessages) => anthropic::fault(&fault, &id),
            (None, Wire::Gemini) => gemini::fault(&fault),
        }
    });
    let name = match wire {
        Wire::OpenAiChat => "x-request-id",
        Wire::AnthropicMessages => "request-id",
        Wire::Gemini => "x-goog-request-id",
    };
    if let Ok(value) = id.parse() {
        response.headers_mut().insert(name, value);
    }
    response
}

async fn listen(listener: TcpListener, sim: Arc<Sim>) {
    let router = axum::Router::new().fallback(serve).layer(DefaultBodyLimit::max(BODY_LIMIT)).with_state(sim);
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    let service = TowerToHyperService::new(router.clone());
                    connections.spawn(async move {
                        let connection = hyper::server::conn::http1::Builder::new();
                        if let Err(error) = connection.serve_connection(TokioIo::new(stream), service).await {
                            tracing::debug!(%error, "a connection to a simulated provider broke");
                        }
                    });
                }
                Err(error) => {
                    // Out of descriptors, mostly: others have to close theirs first.
                    tracing::warn!(%error, "a simulated provider cannot accept");
                    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                }
            },
            // Ended connections are forgotten, or the set would grow with each.
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
        }
    }
}
