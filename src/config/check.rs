//! From the file as written to a [`Config`], or to everything that is wrong with it.

mod callbacks;
mod dropping;
mod evidence;
mod limits;
mod provider;
mod windows;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use providers::adapter::{Adapter, Secret};
use providers::compatible::{self, Overrides};
use providers::transport::{Endpoint, Transport};

use super::{Config, Database, Problem, Provider, Server, environment, raw};
use crate::domain::route::{Evidence, KeyPolicy, OnUnknown, Route, RouteTarget, StreamDelivery, Target};

/// Below the keep-alive of the servers met so far, so that a connection is seldom found dead on reuse.
const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(20);

/// Postgres keeps no value of 1 GiB or more, and the body is kept whole.
const LARGEST_BODY: usize = 512 << 20;

/// Collects problems instead of stopping at the first.
#[derive(Default)]
struct Checker {
    problems: Vec<Problem>,
}

pub fn check(raw: raw::Settings) -> Result<Config, Vec<Problem>> {
    let mut c = Checker::default();
    let server = c.server(&raw.server);
    let database = c.database(&raw.database);
    let mut providers = BTreeMap::new();
    for (name, provider) in &raw.providers {
        let shortest = shortest_attempt(&raw, name);
        if let Some(provider) = c.provider(name, provider, shortest) {
            providers.insert(name.clone(), provider);
        }
    }
    let mut routes = BTreeMap::new();
    for (name, route) in &raw.routes {
        let known = |provider: &str| raw.providers.contains_key(provider);
        if let Some(route) = c.route(name, route, &providers, known) {
            routes.insert(name.clone(), Arc::new(route));
        }
    }
    let retention = c.duration("jobs.retention", raw.jobs.retention.as_deref(), "90d");
    let limits = c.limits(&raw.limits, &raw.owners);
    let callbacks = c.callbacks(&raw.callbacks);
    let contracts_dir = PathBuf::from(raw.contracts.dir.as_deref().unwrap_or("contracts/suites"));
    if c.problems.is_empty() {
        Ok(Config { server, database, providers, routes, retention, limits, callbacks, contracts_dir })
    } else {
        Err(c.problems)
    }
}

impl Checker {
    fn problem(&mut self, setting: impl Into<String>, what: impl Into<String>) {
        self.problems.push(Problem { setting: setting.into(), what: what.into() });
    }

    fn server(&mut self, raw: &raw::Server) -> Server {
        Server {
            listen: self.address("server.listen", raw.listen.as_deref(), 8080),
            operator_listen: self.address("server.operator_listen", raw.operator_listen.as_deref(), 8081),
            operator_token: self.secret("server.operator_token", raw.operator_token.as_deref()),
            drain: self.duration("server.drain", raw.drain.as_deref(), "30s"),
            max_connections: self.positive("server.max_connections", raw.max_connections, 1024, 1_000_000),
            max_jobs: self.positive("server.max_jobs", raw.max_jobs, 10_000, 1_000_000),
            body_limit: self.positive("server.body_limit", raw.body_limit, 8 << 20, LARGEST_BODY),
            header_timeout: self.duration("server.header_timeout", raw.header_timeout.as_deref(), "10s"),
            body_timeout: self.duration("server.body_timeout", raw.body_timeout.as_deref(), "30s"),
        }
    }

    fn database(&mut self, raw: &raw::Database) -> Database {
        let url = match raw.url.as_deref() {
            Some(url) if url.starts_with("postgres://") || url.starts_with("postgresql://") => {
                Some(Secret::new(url.to_owned()))
            }
            other => self.secret("database.url", other),
        };
        if let Some(url) = &url
            && url.expose().parse::<sqlx::postgres::PgConnectOptions>().is_err()
        {
            self.problem("database.url", "is no Postgres address; write postgres://USER@HOST/DATABASE");
        }
        let max_connections = raw.max_connections.unwrap_or(16);
        if max_connections < 2 {
            self.problem("database.max_connections", "must be at least 2, so that the lease can be renewed under load");
        } else if max_connections > 10_000 {
            self.problem("database.max_connections", "must be at most 10000; room for each is set aside at the start");
        }
        Database { url, data_dir: PathBuf::from(raw.data_dir.as_deref().unwrap_or("interlock-data")), max_connections }
    }

    fn provider(&mut self, name: &str, raw: &raw::Provider, shortest: Option<Duration>) -> Option<Provider> {
        let setting = |field: &str| format!("providers.{name}.{field}");
        let before = self.problems.len();
        if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b)) {
            self.problem(format!("providers.{name}"), "a provider's name holds letters, digits, `-`, `_` and `.` only");
        }
        let error_500_unknown = match raw.error_500.as_deref() {
            None | Some("failed") => false,
            Some("unknown") => true,
            Some(other) => {
                self.problem(setting("error_500"), format!("`{other}` is neither `failed` nor `unknown`"));
                false
            }
        };
        let (lookup, api_version) = (self.lookup(name, raw), self.api_version(name, raw));
        let overrides =
            Overrides { error_500_unknown, default_max_tokens: raw.default_max_tokens, lookup, api_version };
        let adapter = compatible::adapter_with(&raw.adapter, overrides);
        if adapter.is_none() {
            let known = compatible::names().join(", ");
            self.problem(setting("adapter"), format!("`{}` is no adapter; known are {known}", raw.adapter));
        }
        let wanted = self.duration(&setting("connect_timeout"), raw.connect_timeout.as_deref(), "5s");
        let connect_timeout = shortest.map_or(wanted, |shortest| wanted.min(shortest.mul_f64(0.8)));
        if connect_timeout < wanted && raw.connect_timeout.is_some() {
            tracing::warn!(
                provider = name,
                ?connect_timeout,
                "connect_timeout shortened to stay below the routes' attempt_timeout"
            );
        }
        let endpoint = Endpoint {
            base_url: raw.base_url.trim_end_matches('/').to_owned(),
            connect_timeout,
            pool_idle_timeout: POOL_IDLE_TIMEOUT,
            signing: self.signing(name, raw),
        };
        if let Err(e) = Transport::new(&endpoint) {
            self.problem(setting("base_url"), e.to_string());
        }
        self.base_of_project(name, raw);
        let api_key = self.secret(&setting("api_key"), raw.api_key.as_deref());
        let lookup_grace = self.lookup_grace(name, raw, &endpoint);
        let (prices, windows) = (self.prices(name, raw), self.windows(name, raw));
        let settings_digest = provider::settings_digest(raw, &endpoint);
        let adapter: Arc<dyn Adapter> = adapter?;
        (self.problems.len() == before).then(|| Provider {
            name: name.to_owned(),
            adapter,
            endpoint,
            api_key,
            lookup_grace,
            prices,
            windows,
            settings_digest,
        })
    }

    fn route(
        &mut self,
        name: &str,
        raw: &raw::Route,
        providers: &BTreeMap<String, Provider>,
        known: impl Fn(&str) -> bool,
    ) -> Option<Route> {
        let setting = |field: &str| format!("routes.{name}.{field}");
        let before = self.problems.len();
        let targets = self.targets(&setting("targets"), raw, providers, known);
        let attempt_timeout = self.duration(&setting("attempt_timeout"), raw.attempt_timeout.as_deref(), "30s");
        if raw.targets.len() > 1 && raw.contract.is_none() {
            tracing::warn!(route = name, "the route has fallbacks but no contract: none of them can be enabled");
        }
        let max_attempts =
            self.positive(&setting("max_attempts"), raw.max_attempts.map(|n| n as usize), 10, 10_000) as u32;
        let route = Route {
            name: name.to_owned(),
            contract: raw.contract.clone(),
            targets,
            attempt_timeout,
            first_byte_timeout: self.optional(&setting("first_byte_timeout"), raw.first_byte_timeout.as_deref()),
            idle_timeout: self.optional(&setting("idle_timeout"), raw.idle_timeout.as_deref()),
            settle_timeout: self.duration(&setting("settle_timeout"), raw.settle_timeout.as_deref(), "10m"),
            retries: raw.retries.unwrap_or(2),
            on_unknown: self.choice(
                &setting("on_unknown"),
                raw.on_unknown.as_deref(),
                &[("hold", OnUnknown::Hold), ("fail_over", OnUnknown::FailOver)],
            ),
            stream: self.choice(
                &setting("stream"),
                raw.stream.as_deref(),
                &[("live", StreamDelivery::Live), ("settled", StreamDelivery::Settled)],
            ),
            idempotency: self.choice(
                &setting("idempotency"),
                raw.idempotency.as_deref(),
                &[("required", KeyPolicy::Required), ("generate", KeyPolicy::Generate)],
            ),
            max_attempts,
            job_deadline: self.duration(&setting("job_deadline"), raw.job_deadline.as_deref(), "24h"),
            evidence: self.choice(
                &setting("evidence"),
                raw.evidence.as_deref(),
                &[("live", Evidence::Live), ("replay", Evidence::Replay)],
            ),
            permit_ttl: self.duration(&setting("permit_ttl"), raw.permit_ttl.as_deref(), "7d"),
            recheck: self.recheck(name, raw),
            drift: self.drift(name, raw),
            fail_over_on_billing: raw.fail_over_on_billing.unwrap_or(false),
            drop_unsupported: self.drop_unsupported(name, raw),
        };
        (self.problems.len() == before).then_some(route)
    }

    fn targets(
        &mut self,
        setting: &str,
        raw: &raw::Route,
        providers: &BTreeMap<String, Provider>,
        known: impl Fn(&str) -> bool,
    ) -> Vec<RouteTarget> {
        if raw.targets.is_empty() {
            self.problem(setting, "is empty; name at least the primary, as \"provider/model\"");
        }
        let mut out: Vec<RouteTarget> = Vec::new();
        for text in &raw.targets {
            let Some(target) = Target::parse(text) else {
                self.problem(setting, format!("`{text}` is not of the form provider/model"));
                continue;
            };
            if !known(&target.provider) {
                let what = format!("`{text}` names a provider that [providers.{}] does not define", target.provider);
                self.problem(setting, what);
            } else if out.iter().any(|t| t.target == target) {
                self.problem(setting, format!("`{text}` stands twice; a silent target is never asked twice"));
            } else if let Some(provider) = providers.get(&target.provider) {
                out.push(RouteTarget {
                    window: provider.window(&target.model).cloned(),
                    target,
                    adapter_version: provider.adapter.version(),
                    settings_digest: provider.settings_digest.clone(),
                });
            }
        }
        out
    }

    fn address(&mut self, setting: &str, text: Option<&str>, port: u16) -> SocketAddr {
        let default = SocketAddr::from(([127, 0, 0, 1], port));
        match text.map(str::parse) {
            None => default,
            Some(Ok(address)) => address,
            Some(Err(_)) => {
                let text = text.unwrap_or_default();
                self.problem(setting, format!("`{text}` is no address; write IP:PORT, as 127.0.0.1:{port}"));
                default
            }
        }
    }

    /// A secret by reference. Written out in the file it would end up in backups and tickets.
    fn secret(&mut self, setting: &str, reference: Option<&str>) -> Option<Secret> {
        let reference = reference?;
        let value = match reference.split_once(':') {
            Some(("env", name)) => match environment(name) {
                Some(value) => value,
                None => {
                    self.problem(setting, format!("the environment variable {name} is not set"));
                    return None;
                }
            },
            Some(("file", path)) => match std::fs::read_to_string(path) {
                Ok(value) => value,
                Err(e) => {
                    self.problem(setting, format!("the file {path} cannot be read: {e}"));
                    return None;
                }
            },
            Some(_) | None => {
                self.problem(setting, "a secret is named, not written out: use env:NAME or file:PATH");
                return None;
            }
        };
        let value = value.trim();
        if value.is_empty() {
            self.problem(setting, format!("{reference} is empty; an empty secret would let anybody in"));
            return None;
        }
        if value.bytes().any(|b| b.is_ascii_control()) {
            self.problem(setting, format!("{reference} holds control characters"));
            return None;
        }
        Some(Secret::new(value.to_owned()))
    }

    fn duration(&mut self, setting: &str, text: Option<&str>, default: &str) -> Duration {
        let text = text.unwrap_or(default);
        match humantime::parse_duration(text) {
            Ok(duration) if duration.is_zero() => {
                self.problem(setting, "must be longer than nothing");
                duration
            }
            // A century: far beyond any use, far below what Postgres and Instant can add.
            Ok(duration) if duration > Duration::from_secs(100 * 365 * 86_400) => {
                self.problem(setting, format!("`{text}` is longer than a hundred years"));
                Duration::ZERO
            }
            Ok(duration) => duration,
            Err(_) => {
                self.problem(
                    setting,
                    format!("`{text}` is no duration; write a number with a unit, as 500ms, 30s, 10m, 24h, 7d"),
                );
                Duration::ZERO
            }
        }
    }

    fn optional(&mut self, setting: &str, text: Option<&str>) -> Option<Duration> {
        text.map(|text| self.duration(setting, Some(text), "1s"))
    }

    fn positive(&mut self, setting: &str, value: Option<usize>, default: usize, most: usize) -> usize {
        match value {
            Some(0) => self.problem(setting, "must be at least 1"),
            Some(n) if n > most => self.problem(setting, format!("must be at most {most}")),
            Some(_) | None => {}
        }
        value.unwrap_or(default)
    }

    /// One of a few words; the first is the default.
    fn choice<T: Copy>(&mut self, setting: &str, text: Option<&str>, choices: &[(&str, T)]) -> T {
        let Some(text) = text else { return choices[0].1 };
        match choices.iter().find(|(word, _)| *word == text) {
            Some((_, value)) => *value,
            None => {
                let words = choices.iter().map(|(word, _)| format!("`{word}`")).collect::<Vec<_>>().join(" or ");
                self.problem(setting, format!("`{text}` is not {words}"));
                choices[0].1
            }
        }
    }
}

/// The shortest time that a route gives an attempt at this provider. Connecting must take less: a hung connect proves
/// that nothing was sent, a hung attempt proves nothing.
fn shortest_attempt(raw: &raw::Settings, provider: &str) -> Option<Duration> {
    let uses =
        |route: &&raw::Route| route.targets.iter().any(|t| t.split_once('/').is_some_and(|(p, _)| p == provider));
    let attempts = raw.routes.values().filter(uses).map(|route| route.attempt_timeout.as_deref().unwrap_or("30s"));
    attempts.filter_map(|text| humantime::parse_duration(text).ok()).min()
}
