//! What a provider shows of its tokenizer: its rendered prompt, and what becomes of a text that it encodes and decodes.
//!
//! Most providers show nothing, which is said and never guessed.

use http::StatusCode;
use providers::adapter::{Head, Rendered, Unsupported, UpstreamRequest};

use super::{Call, Exchanged, ProviderUpstream, Wire};
use crate::observation::Observation;

/// What came of asking for something that a provider may not show.
#[derive(Debug, Clone)]
pub enum Shown<T> {
    Seen(T),
    /// The provider has no endpoint for it.
    NoEndpoint,
    /// In words, why nothing was seen.
    Failed(String),
    /// There is no exchange to read it from: not recorded, stale, unreadable.
    Nothing(Observation),
}

impl<W: Wire> ProviderUpstream<W> {
    async fn asked(
        &self,
        name: &str,
        request: Option<Result<UpstreamRequest, Unsupported>>,
    ) -> Shown<(Head, bytes::Bytes)> {
        let request = match request {
            None => return Shown::NoEndpoint,
            Some(Err(unsupported)) => return Shown::Failed(Observation::Unsupported(unsupported).trouble()),
            Some(Ok(request)) => request,
        };
        match self.wire.exchange(name, request).await {
            Exchanged::Answer(head, body) if head.status.is_success() => Shown::Seen((head, body)),
            // Many servers speak the protocol without these endpoints.
            Exchanged::Answer(head, _) if is_absent(head.status) => Shown::NoEndpoint,
            Exchanged::Answer(head, body) => {
                Shown::Failed(self.failed(self.adapter.from_failure(&head, &body)).trouble())
            }
            Exchanged::Failed(failure) => Shown::Failed(self.failed(failure).trouble()),
            Exchanged::Nothing(observation) => Shown::Nothing(observation),
        }
    }

    pub(super) async fn rendered(&self, call: &Call) -> Shown<String> {
        let request = match self.request(call) {
            Ok(request) => request,
            Err(observation) => return Shown::Nothing(*observation),
        };
        let name = format!("{}.rendered", call.key);
        let attempt_id = format!("contract-{name}");
        let asked = self.adapter.to_template(&request, &self.context(call.model.as_deref(), &attempt_id));
        let body = match self.asked(&name, asked).await {
            Shown::Seen((_, body)) => body,
            other => return other.without(),
        };
        match self.adapter.from_template(&body) {
            Some(Rendered::Text(text)) => Shown::Seen(text),
            Some(Rendered::Tokens(tokens)) => self.decoded(&format!("{name}.decoded"), &tokens).await,
            None => Shown::Failed("the answer holds no prompt".to_owned()),
        }
    }

    pub(super) async fn coded(&self, name: &str, text: &str) -> Shown<String> {
        let name = format!("suite.text.{name}");
        let attempt_id = format!("contract-{name}");
        let asked = self.adapter.to_tokenize(text, &self.context(None, &attempt_id));
        let body = match self.asked(&format!("{name}.encoded"), asked).await {
            Shown::Seen((_, body)) => body,
            other => return other.without(),
        };
        match self.adapter.from_tokenize(&body) {
            Some(tokens) => self.decoded(&format!("{name}.decoded"), &tokens).await,
            None => Shown::Failed("the answer holds no tokens".to_owned()),
        }
    }

    async fn decoded(&self, name: &str, tokens: &[u64]) -> Shown<String> {
        let attempt_id = format!("contract-{name}");
        let asked = self.adapter.to_detokenize(tokens, &self.context(None, &attempt_id));
        match self.asked(name, asked).await {
            Shown::Seen((_, body)) => match self.adapter.from_detokenize(&body) {
                Some(text) => Shown::Seen(text),
                None => Shown::Failed("the answer holds no text".to_owned()),
            },
            other => other.without(),
        }
    }
}

fn is_absent(status: StatusCode) -> bool {
    matches!(status.as_u16(), 404 | 405 | 501)
}

impl<T> Shown<T> {
    /// The same reason for having seen nothing, of another type.
    fn without<U>(self) -> Shown<U> {
        match self {
            Shown::Seen(_) => Shown::Failed("the answer was not read".to_owned()),
            Shown::NoEndpoint => Shown::NoEndpoint,
            Shown::Failed(why) => Shown::Failed(why),
            Shown::Nothing(observation) => Shown::Nothing(observation),
        }
    }
}
