//! The settings file as written. Every field is documented with its default; an unknown one is an error.

use std::collections::BTreeMap;

use serde::Deserialize;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    #[serde(default)]
    pub server: Server,
    #[serde(default)]
    pub database: Database,
    #[serde(default)]
    pub providers: BTreeMap<String, Provider>,
    #[serde(default)]
    pub routes: BTreeMap<String, Route>,
    #[serde(default)]
    pub jobs: Jobs,
    /// Every owner's limits.
    #[serde(default)]
    pub limits: Limits,
    /// Limits of single owners, by the name that `key create --owner` was given; what they leave out is as in `[limits]`.
    #[serde(default)]
    pub owners: BTreeMap<String, Limits>,
    #[serde(default)]
    pub callbacks: Callbacks,
    #[serde(default)]
    pub contracts: Contracts,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// Where applications connect. Default `127.0.0.1:8080`; port 0 picks a free one.
    pub listen: Option<String>,
    /// Where operators connect. Default `127.0.0.1:8081`.
    pub operator_listen: Option<String>,
    /// `env:NAME` or `file:PATH`. Default: none, operator routes are closed.
    pub operator_token: Option<String>,
    /// How long running attempts are waited for at shutdown. Default `30s`.
    pub drain: Option<String>,
    /// Open client connections at once. Default 1024.
    pub max_connections: Option<usize>,
    /// Jobs at work in this process at once; beyond, new ones are refused with 503. Default 10000.
    pub max_jobs: Option<usize>,
    /// Bytes of a request's body. Default 8388608 (8 MiB).
    pub body_limit: Option<usize>,
    /// For the request's head. Default `10s`.
    pub header_timeout: Option<String>,
    /// For the request's body. Default `30s`.
    pub body_timeout: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Database {
    /// `env:NAME`, `file:PATH` or a `postgres://` address. Default: a private Postgres under `data_dir`.
    pub url: Option<String>,
    /// Default `interlock-data`.
    pub data_dir: Option<String>,
    /// Connections of this process. Default 16.
    pub max_connections: Option<u32>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provider {
    /// `openai`, `openai-responses`, `anthropic`, `gemini`, `vertex`, `bedrock`, `cohere`, `ollama`, or the name of a
    /// compatible row.
    pub adapter: String,
    /// With the version part, as `https://api.openai.com/v1`.
    pub base_url: String,
    /// `env:NAME` or `file:PATH`. Default: none is sent.
    pub api_key: Option<String>,
    /// Default `5s`.
    pub connect_timeout: Option<String>,
    /// What a 500 in the provider's own error shape proves: `failed` or `unknown`. Default: the adapter's row.
    pub error_500: Option<String>,
    /// The output limit sent where the protocol demands one and the client gave none. Default: the adapter's row.
    pub default_max_tokens: Option<u64>,
    /// The version of the provider's API, for adapters whose requests carry one (`azure-openai`, `azure-models`).
    /// Default: the adapter's row.
    pub api_version: Option<String>,
    /// The region that requests are signed for (`bedrock`), as `eu-central-1`. Needed with `access_key_id`.
    pub region: Option<String>,
    /// `env:NAME` or `file:PATH`, with `secret_access_key`: requests are signed (adapter `bedrock`) instead of carrying
    /// an `api_key`. Default: they are not.
    pub access_key_id: Option<String>,
    /// `env:NAME` or `file:PATH`.
    pub secret_access_key: Option<String>,
    /// `env:NAME` or `file:PATH`, of temporary credentials. Read once: a process lives no longer than its credentials.
    pub session_token: Option<String>,
    /// How this provider is asked what became of a request whose answer was lost. Default: it is not asked.
    ///
    /// `stored` (adapter `openai`): completions are stored at the provider (`store: true`) with the attempt's id in
    /// their metadata, and listed by it. Requests with `store: false` or 16 metadata pairs of their own are refused.
    /// `conversation` (adapter `llama-cpp`): streams carry `X-Conversation-Id`; llama-server keeps and replays them.
    /// `background` (adapter `openai-responses`): responses run in background mode, are stored there, and are asked for
    /// by the id that their first event brings. Requests with `store: false` are refused.
    /// A provider that can be told so also stops working on what was cancelled.
    pub lookup: Option<String>,
    /// How long "no such request" must have been true of an attempt that nobody can still be sending, before it counts
    /// as proof that it never arrived. Default: `connect_timeout` + 30 s, at least twice the lease (30 s).
    pub lookup_grace: Option<String>,
    /// What a model costs, by its name: what each attempt's cost is computed by, and what a live contract run is
    /// estimated and bounded by. Default: `providers/prices.toml`, where that lists the model at this address; else
    /// unknown. A price here takes the place of the whole listed one.
    #[serde(default)]
    pub prices: BTreeMap<String, Price>,
    /// How much a model holds, by its name: a prompt that certainly does not fit is not sent there. Default:
    /// `providers/windows.toml`, where that lists the model at this address; else it holds everything. A window here
    /// takes the place of the whole listed one.
    #[serde(default)]
    pub windows: BTreeMap<String, Window>,
}

/// In tokens. `context_window`, `max_input_tokens` or both.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Window {
    /// Prompt and answer together. Default: without bound.
    pub context_window: Option<u64>,
    /// The prompt alone; each text, where vectors are asked for. Default: without bound but `context_window`.
    pub max_input_tokens: Option<u64>,
    /// The longest answer: no more room is kept for one, whatever the request asks for. Default: unknown.
    pub max_output_tokens: Option<u64>,
    /// Whether the provider refuses a request whose prompt and `max_tokens` are together above `context_window`, as vLLM
    /// does; others let the answer end there. Default false: only the prompt counts.
    pub answer_counts: Option<bool>,
    /// How its tokens are counted: `o200k_base`, `o200k_harmony`, `cl100k_base`, `p50k_base`, `p50k_edit`, `r50k_base`,
    /// or `none`: not at all, and every prompt fits. Default: tiktoken's, by the model's name, where that is OpenAI's; of
    /// an Azure deployment, whose name says nothing, none.
    pub tokenizer: Option<String>,
}

/// Per million tokens, six decimals at most. What is written is taken exactly: no amount is rounded. A call that used a
/// kind of token without a price here has no known cost.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    pub input: f64,
    pub output: f64,
    /// Tokens read from the provider's cache. Default: unknown.
    pub cached_input: Option<f64>,
    /// Tokens written to it. Default: unknown.
    pub cache_write: Option<f64>,
    /// Tokens written to it to be kept for an hour. Default: unknown.
    pub cache_write_1h: Option<f64>,
    /// Reasoning tokens. Default: they are output.
    pub reasoning: Option<f64>,
    /// Longer prompts have another price: their cost is unknown. Default: none have.
    pub up_to_input_tokens: Option<u64>,
    /// Default `USD`.
    pub currency: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Route {
    /// The suite whose passed run a fallback needs. Default: none, fallbacks stay closed.
    pub contract: Option<String>,
    /// `provider/model`, the primary first.
    #[serde(default)]
    pub targets: Vec<String>,
    /// Default `30s`.
    pub attempt_timeout: Option<String>,
    /// Until the first content. Default: `20s` for a stream; a whole answer has `attempt_timeout` alone.
    pub first_byte_timeout: Option<String>,
    /// Between two pieces of content. Default: `15s` for a stream; a whole answer has `attempt_timeout` alone.
    pub idle_timeout: Option<String>,
    /// Default `10m`.
    pub settle_timeout: Option<String>,
    /// Default 2.
    pub retries: Option<u32>,
    /// `hold` (default) or `fail_over`.
    pub on_unknown: Option<String>,
    /// `live` (default): a stream's bytes go out as they come. `settled`: once the attempt has won.
    pub stream: Option<String>,
    /// `required` (default) or `generate`.
    pub idempotency: Option<String>,
    /// Default 10.
    pub max_attempts: Option<u32>,
    /// Default `24h`.
    pub job_deadline: Option<String>,
    /// `live` (default) or `replay`: the kind of run that a permit must rest on.
    pub evidence: Option<String>,
    /// Default `7d`.
    pub permit_ttl: Option<String>,
    /// How old a permit's run may grow before any instance runs the suite of that fallback again, live: passed renews
    /// the permit, failed revokes it at once. It costs the suite's calls each time. Default: never.
    pub recheck: Option<String>,
    /// Holds live answers against the schema of the route's contract. Default: none are. `drift = {}` takes every
    /// default; only for routes whose every answer is one that the schema describes.
    pub drift: Option<Drift>,
    /// Whether an account without credit may send the work elsewhere. Default false.
    pub fail_over_on_billing: Option<bool>,
    /// Members of a request, as a refusal names them, that are left out for a target that has no place for them, as
    /// `["seed", "logit_bias"]`; each attempt says which fell. Can be listed: what steers how an answer is made or is said
    /// beside it (`providers/dropping.rs` has the list); never the conversation, tools, limits or the answer's form. There
    /// is no word for all: what is new there should be seen first. No permit ends when this changes: what falls never
    /// reaches the target, whose suite was passed without it. Default: none, they are refused by name.
    #[serde(default)]
    pub drop_unsupported: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Drift {
    /// The share of the primary's answers that is judged, 0 to 1. Default 0.05.
    pub sample: Option<f64>,
    /// The share of the fallbacks' answers. Default 1.
    pub fallback_sample: Option<f64>,
    /// The answers that count: the newest so many, as 200, or a time, as `1h`. Default 200.
    pub window: Option<DriftWindow>,
    /// The share of broken answers that is borne, above 0 and below 1. Default: what the suite's `pass_rate` leaves, at
    /// least 0.05. It is exceeded only when the lower end of the Wilson interval (3 sigma) is above it.
    pub max_violation_rate: Option<f64>,
    /// Fewer judged answers decide nothing. Default 20.
    pub min_answers: Option<u32>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub enum DriftWindow {
    Answers(u32),
    Time(String),
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Jobs {
    /// How long a finished job's payloads are kept. Default `90d`.
    pub retention: Option<String>,
}

/// Each a whole number of at least 1, or `"unlimited"` (default).
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// New jobs in any minute.
    pub requests_per_minute: Option<toml::Value>,
    /// Tokens in any minute, input and output: an estimate from admission on, what the provider tells once it has ended.
    pub tokens_per_minute: Option<toml::Value>,
    /// Jobs at work or unknown at once.
    pub concurrent_jobs: Option<toml::Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Callbacks {
    /// `env:NAME` or `file:PATH`: `whsec_` and 24 to 64 bytes in base64, as Standard Webhooks writes it. Default: none,
    /// jobs with a `callback` are refused.
    pub secret: Option<String>,
    /// Whether notices may go to loopback and private addresses, and over plain http. Default false.
    pub allow_private: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contracts {
    /// Default `contracts/suites`.
    pub dir: Option<String>,
}
