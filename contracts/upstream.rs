//! How a run asks a provider: one trait, and the one implementation that speaks through an adapter.
//!
//! [`ProviderUpstream`] builds the canonical request, lets the adapter translate it, hands it to a [`Wire`] (the
//! network, the network with a recorder, or the recordings) and lets the adapter read what came back: live and replay
//! differ in the wire only. It never retries and never decides what an answer is worth.

mod shown;

use std::future::{Future, ready};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use providers::adapter::{Adapter, CallContext, Head, Secret, UpstreamRequest};
use providers::canonical::Request;
use providers::failure::{Failure, Proof};
use providers::json::Object;
use providers::transport::Transport;
use serde::Serialize;

use crate::observation::{Count, Observation};
pub use shown::Shown;

pub use crate::recording::{RecordingUpstream, ReplayUpstream};

/// Where the answers of a run come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    Live,
    Replay,
}

impl Mode {
    pub fn as_str(self) -> &'static str {
        match self {
            Mode::Live => "live",
            Mode::Replay => "replay",
        }
    }
}

/// One call of a run: what is asked, and the names under which it is recorded.
#[derive(Debug, Clone)]
pub struct Call {
    pub key: CallKey,
    /// An OpenAI chat-completions body.
    pub body: Object,
    /// A model other than the target's: only to see it refused.
    pub model: Option<String>,
}

/// Names one call: the same in every run of a suite.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallKey {
    pub case: String,
    pub probe: &'static str,
    pub repeat: u32,
}

impl std::fmt::Display for CallKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}.{}", self.case, self.probe, self.repeat)
    }
}

/// Somebody who answers the calls of a run.
pub trait Upstream: Sync {
    fn mode(&self) -> Mode;

    fn call(&self, call: &Call) -> impl Future<Output = Observation> + Send;

    /// Whether there is anybody to ask for a count: where not, [`Upstream::count`] sends nothing.
    fn can_count(&self, _call: &Call) -> bool {
        true
    }

    /// The provider's own count of the call's prompt.
    fn count(&self, call: &Call) -> impl Future<Output = Count> + Send;

    /// The call's prompt as the provider's own chat template writes it.
    fn render(&self, call: &Call) -> impl Future<Output = Shown<String>> + Send {
        let _ = call;
        ready(Shown::NoEndpoint)
    }

    /// What the provider's tokenizer makes of a text: encoded and decoded again. `name` tells the texts apart.
    fn code(&self, name: &str, text: &str) -> impl Future<Output = Shown<String>> + Send {
        let _ = (name, text);
        ready(Shown::NoEndpoint)
    }

    /// Whether the answer to this call is kept from an earlier run, and asking for it costs nothing.
    fn keeps(&self, _call: &Call) -> bool {
        false
    }

    /// The same of its count.
    fn keeps_count(&self, _call: &Call) -> bool {
        false
    }
}

/// What came back over a wire, before an adapter has read it.
#[derive(Debug, Clone)]
pub enum Exchanged {
    Answer(Head, Bytes),
    Failed(Failure),
    /// There is no exchange to judge.
    Nothing(Observation),
}

/// Carries one request that is ready to be sent. `name` is the exchange's name in the recordings.
pub trait Wire: Send + Sync {
    const MODE: Mode;

    fn exchange(&self, name: &str, request: UpstreamRequest) -> impl Future<Output = Exchanged> + Send;

    /// Whether the exchange of this name is kept from an earlier run.
    fn keeps(&self, _name: &str) -> bool {
        false
    }
}

/// A provider behind its adapter.
#[derive(Debug)]
pub struct ProviderUpstream<W> {
    pub(crate) adapter: Arc<dyn Adapter>,
    pub(crate) model: String,
    pub(crate) api_key: Option<Secret>,
    pub(crate) wire: W,
}

/// The provider itself, over the network.
pub type LiveUpstream = ProviderUpstream<Network>;

impl LiveUpstream {
    /// `call_timeout` bounds each call whole; past it the outcome is unknown.
    pub fn new(
        adapter: Arc<dyn Adapter>,
        transport: Transport,
        model: impl Into<String>,
        api_key: Option<Secret>,
        call_timeout: Duration,
    ) -> Self {
        ProviderUpstream { adapter, model: model.into(), api_key, wire: Network { transport, call_timeout } }
    }
}

impl<W: Wire> ProviderUpstream<W> {
    /// A failure whose words cannot hold the key: providers echo it.
    fn failed(&self, mut failure: Failure) -> Observation {
        if let Some(key) = &self.api_key {
            failure.message = key.mask(&failure.message);
        }
        Observation::Failed(failure)
    }

    /// The canonical request, or why there is none.
    fn request(&self, call: &Call) -> Result<Request, Box<Observation>> {
        providers::openai::request::parse(call.body.clone()).map_err(|e| Box::new(Observation::Invalid(e.to_string())))
    }

    /// `model`: another one than the target's.
    fn context<'a>(&'a self, model: Option<&'a str>, attempt_id: &'a str) -> CallContext<'a> {
        CallContext { model: model.unwrap_or(&self.model), attempt_id, api_key: self.api_key.as_ref() }
    }
}

impl<W: Wire> Upstream for ProviderUpstream<W> {
    fn mode(&self) -> Mode {
        W::MODE
    }

    async fn call(&self, call: &Call) -> Observation {
        let request = match self.request(call) {
            Ok(request) => request,
            Err(observation) => return *observation,
        };
        let name = call.key.to_string();
        // The attempt's id must be the same in every run: a recording is compared with what is sent.
        let attempt_id = format!("contract-{name}");
        let wire_request = match self.adapter.to_upstream(&request, &self.context(call.model.as_deref(), &attempt_id)) {
            Ok(wire_request) => wire_request,
            Err(unsupported) => return Observation::Unsupported(unsupported),
        };
        match self.wire.exchange(&name, wire_request).await {
            Exchanged::Answer(head, body) if head.status.is_success() => {
                match self.adapter.from_upstream(&request, &head, &body) {
                    Ok(answer) => Observation::Answered(answer.reply),
                    Err(failure) => self.failed(failure),
                }
            }
            Exchanged::Answer(head, body) => self.failed(self.adapter.from_failure(&head, &body)),
            Exchanged::Failed(failure) => self.failed(failure),
            Exchanged::Nothing(observation) => observation,
        }
    }

    async fn count(&self, call: &Call) -> Count {
        let request = match self.request(call) {
            Ok(request) => request,
            Err(observation) => return Count::Nothing(*observation),
        };
        let name = format!("{}.count", call.key);
        let attempt_id = format!("contract-{name}");
        let wire_request = match self.adapter.to_count(&request, &self.context(call.model.as_deref(), &attempt_id)) {
            None => return Count::NoEndpoint,
            Some(Err(unsupported)) => return Count::Failed(Observation::Unsupported(unsupported).trouble()),
            Some(Ok(wire_request)) => wire_request,
        };
        match self.wire.exchange(&name, wire_request).await {
            Exchanged::Answer(head, body) if head.status.is_success() => match self.adapter.from_count(&body) {
                Some(tokens) => Count::Tokens(tokens),
                None => Count::Failed("the count endpoint's answer holds no count".to_owned()),
            },
            // Many servers speak the protocol without its count endpoint.
            Exchanged::Answer(head, _) if matches!(head.status.as_u16(), 404 | 405 | 501) => Count::NoEndpoint,
            Exchanged::Answer(head, body) => {
                Count::Failed(self.failed(self.adapter.from_failure(&head, &body)).trouble())
            }
            Exchanged::Failed(failure) => Count::Failed(self.failed(failure).trouble()),
            Exchanged::Nothing(observation) => Count::Nothing(observation),
        }
    }

    async fn render(&self, call: &Call) -> Shown<String> {
        self.rendered(call).await
    }

    async fn code(&self, name: &str, text: &str) -> Shown<String> {
        self.coded(name, text).await
    }

    fn can_count(&self, call: &Call) -> bool {
        // A call that is no valid request is told by `count`.
        let context = self.context(call.model.as_deref(), "");
        self.request(call).map_or(true, |request| self.adapter.to_count(&request, &context).is_some())
    }

    fn keeps(&self, call: &Call) -> bool {
        self.wire.keeps(&call.key.to_string())
    }

    fn keeps_count(&self, call: &Call) -> bool {
        self.wire.keeps(&format!("{}.count", call.key))
    }
}

/// The wire of a live run.
#[derive(Debug)]
pub struct Network {
    transport: Transport,
    call_timeout: Duration,
}

/// An answer of a suite's call is short; what is longer is nonsense.
const ANSWER_LIMIT: usize = 4 * 1024 * 1024;

impl Wire for Network {
    const MODE: Mode = Mode::Live;

    async fn exchange(&self, _name: &str, request: UpstreamRequest) -> Exchanged {
        let whole = async { self.transport.send(request).await?.whole(ANSWER_LIMIT).await };
        match tokio::time::timeout(self.call_timeout, whole).await {
            Ok(Ok((head, body))) => Exchanged::Answer(head, body),
            Ok(Err(failure)) => Exchanged::Failed(failure),
            Err(_) => Exchanged::Failed(Failure::new(
                Proof::Unknown,
                "timeout",
                format!("no whole answer within {} s", self.call_timeout.as_secs_f32()),
            )),
        }
    }
}
