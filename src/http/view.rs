//! What resources look like as JSON. Each file is a kind of resource; its structs make its schema in `/openapi.json` too.

mod evidence;
mod job;

use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;
use uuid::Uuid;

use super::headers::rfc3339;
use crate::store::keys::ListedKey;

pub use evidence::{
    CheckView, GrantedView, HeldCircuitView, PermitView, RunView, RunWithChecks, check, coverage, held_circuit, permit,
    run,
};
pub use job::{JobView, RaceView, examined_job, job, job_with_callback, race};

fn value(view: &impl Serialize) -> Value {
    // A struct of texts and numbers: there is nothing in it that JSON cannot hold.
    serde_json::to_value(view).unwrap_or_default()
}

/// A key without its secret.
pub fn api_key(key: &ListedKey) -> Value {
    json!({
        "id": key.id,
        "owner": key.owner,
        "public_id": key.public_id,
        "created_at": rfc3339(key.created_at),
        "revoked_at": key.revoked_at.map(rfc3339),
    })
}

/// A list, or a page of one, in the words of OpenAI's API.
#[derive(Debug, Serialize, ToSchema)]
pub struct List<T: ToSchema> {
    #[schema(pattern = "^list$")]
    object: &'static str,
    data: Vec<T>,
    /// Another page may follow this one: ask with `before=` the last id of this one.
    has_more: bool,
}

impl<T: ToSchema> List<T> {
    pub fn whole(data: Vec<T>) -> Self {
        List { object: "list", data, has_more: false }
    }
}

/// A route, as a model that a client can name.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Model)]
pub struct ModelView {
    pub id: String,
    #[schema(pattern = "^model$")]
    pub object: &'static str,
    pub created: i64,
    pub owned_by: &'static str,
}

impl ModelView {
    pub fn of(name: &str) -> Self {
        ModelView { id: name.to_owned(), object: "model", created: 0, owned_by: "interlock" }
    }
}

/// A route, as a model in Anthropic's words. A route has no day of birth: theirs for "not known" is the epoch.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = AnthropicModel)]
pub struct AnthropicModelView {
    #[serde(rename = "type")]
    #[schema(rename = "type", pattern = "^model$")]
    kind: &'static str,
    id: String,
    display_name: String,
    #[schema(format = DateTime)]
    created_at: &'static str,
}

impl AnthropicModelView {
    pub fn of(name: &str) -> Self {
        AnthropicModelView {
            kind: "model",
            id: name.to_owned(),
            display_name: name.to_owned(),
            created_at: "1970-01-01T00:00:00Z",
        }
    }
}

/// A page of models in Anthropic's words.
#[derive(Debug, Serialize, ToSchema)]
pub struct AnthropicModels {
    data: Vec<AnthropicModelView>,
    /// More of them in the direction that was asked for.
    has_more: bool,
    #[schema(required)]
    first_id: Option<String>,
    #[schema(required)]
    last_id: Option<String>,
}

impl AnthropicModels {
    pub fn of(names: &[&str], has_more: bool) -> Self {
        let id = |name: Option<&&str>| name.map(|name| (*name).to_owned());
        let data = names.iter().map(|name| AnthropicModelView::of(name)).collect();
        AnthropicModels { data, has_more, first_id: id(names.first()), last_id: id(names.last()) }
    }
}

/// The models, in OpenAI's words or in Anthropic's.
#[derive(Debug, ToSchema)]
#[schema(as = Models)]
#[serde(untagged)]
pub enum ModelsAnswer {
    OpenAi(List<ModelView>),
    Anthropic(AnthropicModels),
}

/// One of them.
#[derive(Debug, ToSchema)]
#[schema(as = OneModel)]
#[serde(untagged)]
pub enum ModelAnswer {
    OpenAi(ModelView),
    Anthropic(AnthropicModelView),
}

/// A provider with its circuits and permits, as operators see it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Provider)]
pub struct ProviderView {
    pub name: String,
    #[schema(pattern = "^provider$")]
    pub object: &'static str,
    pub adapter: String,
    pub adapter_version: String,
    pub base_url: String,
    /// Opened by failures, or by live answers that broke the contract.
    pub circuits: Vec<CircuitView>,
    #[schema(value_type = Vec<PermitInBrief>)]
    pub permits: Vec<Value>,
}

/// A target that is left alone.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Circuit)]
#[serde(untagged)]
pub enum CircuitView {
    Failing(FailingCircuit),
    Held(HeldCircuitView),
}

/// It fails, and is tried again when its time has come.
#[derive(Debug, Serialize, ToSchema)]
pub struct FailingCircuit {
    pub model: String,
    #[schema(format = DateTime)]
    pub failing_since: Option<String>,
    #[schema(format = DateTime)]
    pub left_alone_until: Option<String>,
}

/// How a permit stands.
#[derive(Debug, ToSchema)]
#[expect(dead_code, reason = "the schema of what is picked from a permit by name")]
pub struct PermitInBrief {
    id: Uuid,
    route: String,
    model: String,
    state: String,
    status: String,
}

/// One page of at most `size`, newest first: a full one may have another after it (`before=` its last id).
pub fn page(data: Vec<Value>, size: i64) -> Value {
    let has_more = data.len() as i64 >= size;
    json!({ "object": "list", "data": data, "has_more": has_more })
}

/// A whole list, in the words of OpenAI's API.
pub fn list(data: Vec<Value>) -> Value {
    json!({ "object": "list", "data": data, "has_more": false })
}
