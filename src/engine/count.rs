//! How many tokens a prompt has: the primary is asked, where it has an endpoint for it; else a local counter may know.
//!
//! No job and no attempt: counting has no side effect and costs nothing, so it may be repeated as often as one likes.

use std::time::Duration;

use providers::adapter::CallContext;
use providers::canonical::Request;
use providers::dialects;
use providers::dropping;
use providers::failure::{Failure, Proof};
use providers::tokens::{Counter, encoding_for};

use super::Engine;
use super::upstreams::Upstream;
use crate::domain::route::Route;

/// For the whole question.
const PATIENCE: Duration = Duration::from_secs(30);
/// An answer that holds a number is short.
const LONGEST_ANSWER: usize = 64 * 1024;

#[derive(Debug)]
pub enum Count {
    Tokens(u64),
    /// Nobody here can count for this model.
    Cannot,
    Failed(Failure),
}

impl Engine {
    pub async fn count_tokens(&self, route: &Route, request: &Request) -> Count {
        let Some(primary) = route.targets.first() else { return Count::Cannot };
        let target = &primary.target;
        let Some(upstream) = self.upstreams().get(&target.provider) else { return Count::Cannot };
        let context = CallContext { model: &target.model, attempt_id: "", api_key: upstream.api_key.as_ref() };
        let write = |request: &Request| dialects::to_count(upstream.adapter.as_ref(), request, &context).transpose();
        let wire = match dropping::reduced(request, &route.drop_unsupported, write).map(|(wire, _)| wire).transpose() {
            Some(Ok(wire)) => wire,
            Some(Err(unsupported)) => {
                let failure = Failure::new(Proof::NotSent, "unsupported", unsupported.to_string());
                return Count::Failed(Failure { status: Some(400), ..failure });
            }
            None => return locally(&target.model, request).await,
        };
        let asked = tokio::time::timeout(PATIENCE, ask(upstream, wire));
        match asked.await {
            Ok(Ok(Some(tokens))) => Count::Tokens(tokens),
            // Many servers speak the protocol without its count endpoint.
            Ok(Ok(None)) => locally(&target.model, request).await,
            Ok(Err(failure)) => Count::Failed(failure.masked(upstream.api_key.as_ref())),
            Err(_) => {
                let why = format!("no answer within {PATIENCE:?}");
                Count::Failed(Failure::new(Proof::Unknown, "count_timeout", why))
            }
        }
    }
}

async fn ask(upstream: &Upstream, wire: providers::adapter::UpstreamRequest) -> Result<Option<u64>, Failure> {
    let (head, body) = upstream.transport.send(wire).await?.whole(LONGEST_ANSWER).await?;
    match head.status.as_u16() {
        404 | 405 | 501 => Ok(None),
        _ if head.status.is_success() => {
            let why = "the answer of the endpoint that counts holds no count";
            let none = || Failure::new(Proof::EndedWithoutResult, "invalid_answer", why);
            upstream.adapter.from_count(&body).map(Some).ok_or_else(none)
        }
        _ => Err(upstream.adapter.from_failure(&head, &body)),
    }
}

/// Away from the threads that serve: a long prompt takes seconds.
async fn locally(model: &str, request: &Request) -> Count {
    let Some(encoding) = encoding_for(model) else { return Count::Cannot };
    let request = request.clone();
    let counted = tokio::task::spawn_blocking(move || encoding.count_request(&request)).await;
    counted.ok().flatten().map_or(Count::Cannot, Count::Tokens)
}
