//! Every setting, parsed once into types. Nothing else reads the environment or a settings file.
//!
//! [`raw`] is the file as written (an unknown setting is an error), `check` turns it into a [`Config`] or into a list
//! of everything that is wrong with it, each problem naming its setting and the cure.

mod check;
pub mod raw;

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use providers::adapter::{Adapter, Secret};
use providers::prices::{self, Price};
use providers::transport::Endpoint;
use providers::windows::{self, Window};

use crate::domain::limits::Limit;
use crate::domain::notice::SigningKey;
use crate::domain::route::Route;

/// The file looked for in the working folder when neither `--config` nor `INTERLOCK_CONFIG` names one.
pub const DEFAULT_FILE: &str = "interlock.toml";

/// All settings, checked.
#[derive(Debug, Clone)]
pub struct Config {
    pub server: Server,
    pub database: Database,
    pub providers: BTreeMap<String, Provider>,
    pub routes: BTreeMap<String, Arc<Route>>,
    /// How long a finished job's payloads are kept; its key is refused for ever after.
    pub retention: Duration,
    pub limits: Limits,
    pub callbacks: Callbacks,
    /// The folder that holds suites by name; the shipped ones are in the binary.
    pub contracts_dir: PathBuf,
}

#[derive(Debug, Clone)]
pub struct Server {
    pub listen: SocketAddr,
    pub operator_listen: SocketAddr,
    /// Without one, every operator route but health and metrics is refused.
    pub operator_token: Option<Secret>,
    /// How long running attempts are waited for at shutdown.
    pub drain: Duration,
    pub max_connections: usize,
    /// Jobs at work in this process at once.
    pub max_jobs: usize,
    pub body_limit: usize,
    /// From the connection's first byte to the end of the request's head.
    pub header_timeout: Duration,
    /// From the head to the end of the request's body.
    pub body_timeout: Duration,
}

#[derive(Debug, Clone)]
pub struct Database {
    /// `None`: a private Postgres under `data_dir`.
    pub url: Option<Secret>,
    pub data_dir: PathBuf,
    pub max_connections: u32,
}

/// What owners may use.
#[derive(Debug, Clone, Default)]
pub struct Limits {
    pub everyone: Limit,
    /// By the owner's name.
    pub owners: BTreeMap<String, Limit>,
}

impl Limits {
    pub fn of(&self, owner: &str) -> Limit {
        self.owners.get(owner).copied().unwrap_or(self.everyone)
    }
}

/// How owners are told that their jobs are over.
#[derive(Debug, Clone)]
pub struct Callbacks {
    /// Without one, jobs with a callback are refused and nothing is sent.
    pub key: Option<SigningKey>,
    /// Whether notices may go into our own network, and over plain http.
    pub allow_private: bool,
}

/// An upstream as configured.
#[derive(Debug, Clone)]
pub struct Provider {
    pub name: String,
    pub adapter: Arc<dyn Adapter>,
    pub endpoint: Endpoint,
    pub api_key: Option<Secret>,
    /// How long a record must be absent there before that proves anything; `None`: what its timeouts demand.
    pub lookup_grace: Option<Duration>,
    /// What its models cost, where the settings say so.
    pub prices: BTreeMap<String, Price>,
    /// How much its models hold, where the settings say so.
    pub windows: BTreeMap<String, Window>,
    /// Changes with every setting that could change this provider's answers. A rotated key, a price or a window does not.
    pub settings_digest: String,
}

impl Provider {
    /// What a model costs here: by the settings, else by the list of prices at the vendors' own addresses.
    pub fn price(&self, model: &str) -> Option<&Price> {
        self.prices.get(model).or_else(|| prices::listed(&self.endpoint.base_url, model))
    }

    /// How much a model holds here: by the settings, else by the list of windows at the vendors' own addresses.
    pub fn window(&self, model: &str) -> Option<&Window> {
        self.windows.get(model).or_else(|| windows::listed(&self.endpoint.base_url, model))
    }
}

/// What is wrong with the settings: all of it, so that one start shows the whole list.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error(
        "no settings: {path} does not exist. Pass --config FILE, set INTERLOCK_CONFIG, or write {DEFAULT_FILE} here"
    )]
    NoFile { path: String },
    #[error("settings file {path} cannot be read: {source}")]
    Unreadable { path: String, source: std::io::Error },
    #[error("settings file {path} does not parse: {source}")]
    Syntax { path: String, source: Box<toml::de::Error> },
    #[error("settings file {path} has {} problem(s):\n{}", .problems.len(), list(.problems))]
    Invalid { path: String, problems: Vec<Problem> },
}

/// One setting that is wrong, and how to mend it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub setting: String,
    pub what: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.setting, self.what)
    }
}

fn list(problems: &[Problem]) -> String {
    problems.iter().map(|p| format!("  {p}")).collect::<Vec<_>>().join("\n")
}

impl Config {
    /// Reads and checks the settings that `explicit`, `INTERLOCK_CONFIG` or the working folder names, in this order.
    pub fn load(explicit: Option<&Path>) -> Result<Config, ConfigError> {
        let path = match (explicit, environment("INTERLOCK_CONFIG")) {
            (Some(path), _) => path.to_owned(),
            (None, Some(path)) => PathBuf::from(path),
            (None, None) => PathBuf::from(DEFAULT_FILE),
        };
        let shown = path.display().to_string();
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Err(ConfigError::NoFile { path: shown }),
            Err(source) => return Err(ConfigError::Unreadable { path: shown, source }),
        };
        Config::parse(&text, &shown)
    }

    /// Checks settings given as text; `path` is for messages.
    pub fn parse(text: &str, path: &str) -> Result<Config, ConfigError> {
        let raw: raw::Settings = toml::from_str(text)
            .map_err(|source| ConfigError::Syntax { path: path.to_owned(), source: Box::new(source) })?;
        check::check(raw).map_err(|problems| ConfigError::Invalid { path: path.to_owned(), problems })
    }
}

/// The one place that reads the environment.
#[expect(clippy::disallowed_methods, reason = "settings are read here and nowhere else")]
pub fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
