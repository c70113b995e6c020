//! The configured providers, each with its adapter, its transport and its secret.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use providers::adapter::{Adapter, CallContext, Secret, Unsupported, UpstreamRequest};
use providers::canonical::Request;
use providers::dialects::embeddings;
use providers::dropping::{self, Reduced};
use providers::transport::Transport;

use super::EngineError;
use crate::config::{Config, Provider};
use crate::domain::ids::AttemptId;
use crate::domain::route::{Route, Target};

/// A first attempt before there is a job: translated once, checked thereby, and sent as it is.
#[derive(Debug, Clone)]
pub struct Prepared {
    pub id: AttemptId,
    /// `None`: the settings do not define the primary's provider.
    pub wire: Option<UpstreamRequest>,
    /// What of it has no place there and falls, as the route says.
    pub dropped: Vec<String>,
}

/// A provider ready to be called.
#[derive(Debug, Clone)]
pub struct Upstream {
    pub provider: String,
    pub adapter: Arc<dyn Adapter>,
    pub transport: Transport,
    pub api_key: Option<Secret>,
}

#[derive(Debug, Default)]
pub struct Upstreams {
    by_name: BTreeMap<String, Upstream>,
}

impl Upstreams {
    pub fn new(config: &Config) -> Result<Self, EngineError> {
        let by_name = config
            .providers
            .values()
            .map(|provider| Ok((provider.name.clone(), Upstream::new(provider)?)))
            .collect::<Result<_, EngineError>>()?;
        Ok(Upstreams { by_name })
    }

    pub fn get(&self, provider: &str) -> Option<&Upstream> {
        self.by_name.get(provider)
    }

    /// The request on the wire of the route's primary; what that cannot carry is the client's to mend, before any job.
    pub fn prepare(&self, route: &Route, request: &Request) -> Result<Prepared, Unsupported> {
        let id = AttemptId::fresh();
        let primary = route.targets.first().and_then(|primary| Some((self.get(&primary.target.provider)?, primary)));
        let droppable = &route.drop_unsupported;
        let written =
            primary.map(|(upstream, primary)| upstream.for_attempt(request, &primary.target.model, id, droppable));
        let (wire, dropped) = written.transpose()?.map(|reduced| (reduced.wire, reduced.dropped)).unzip();
        Ok(Prepared { id, wire, dropped: dropped.unwrap_or_default() })
    }

    /// The targets whose wire format cannot carry this request, not even without what the route lets fall.
    pub fn unable(&self, route: &Route, request: &Request) -> HashMap<Target, String> {
        let primary = route.targets.first().map(|primary| &primary.target.model);
        let judge = |target: &Target| {
            // A vector means something only beside others of the same model.
            if embeddings::is_asked(request) && primary != Some(&target.model) {
                return Some((target.clone(), "model: its vectors cannot be compared with the primary's".to_owned()));
            }
            let unable = self.can_carry(target, request, &route.drop_unsupported).err()?;
            Some((target.clone(), unable.to_string()))
        };
        route.targets.iter().filter_map(|t| judge(&t.target)).collect()
    }

    /// Whether this target's wire format can carry the request, without what may fall.
    fn can_carry(&self, target: &Target, request: &Request, droppable: &[String]) -> Result<(), Unsupported> {
        match self.get(&target.provider) {
            Some(upstream) => upstream.prepare(request, &target.model, "", droppable).map(|_| ()),
            None => Ok(()),
        }
    }
}

impl Upstream {
    pub fn new(provider: &Provider) -> Result<Self, EngineError> {
        let transport = Transport::new(&provider.endpoint)
            .map_err(|e| EngineError::Upstream { provider: provider.name.clone(), why: e.to_string() })?;
        Ok(Upstream {
            provider: provider.name.clone(),
            adapter: Arc::clone(&provider.adapter),
            transport,
            api_key: provider.api_key.clone(),
        })
    }

    /// The request on this provider's wire, under the attempt's id.
    pub fn for_attempt(
        &self,
        request: &Request,
        model: &str,
        id: AttemptId,
        droppable: &[String],
    ) -> Result<Reduced, Unsupported> {
        self.prepare(request, model, &id.to_string(), droppable)
    }

    fn prepare(
        &self,
        request: &Request,
        model: &str,
        attempt_id: &str,
        droppable: &[String],
    ) -> Result<Reduced, Unsupported> {
        let context = CallContext { model, attempt_id, api_key: self.api_key.as_ref() };
        dropping::to_upstream(self.adapter.as_ref(), request, &context, droppable)
    }
}
