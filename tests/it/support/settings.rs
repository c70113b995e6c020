//! Settings files for tests: short clocks, no retries, free ports; each test says only what it is about.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use super::upstream::{ScriptedUpstream, Wire};

/// What the operator of every test gateway presents.
pub const OPERATOR_TOKEN: &str = "the-operators-own-token";

/// A settings file in the making.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    server: BTreeMap<String, String>,
    providers: BTreeMap<String, BTreeMap<String, String>>,
    routes: BTreeMap<String, BTreeMap<String, String>>,
    rest: String,
}

impl Settings {
    pub fn new() -> Settings {
        let mut settings = Settings::default();
        set(&mut settings.server, "drain = \"2s\"");
        settings
    }

    /// One provider `alpha` and a route `support` to its model `m1`; `lines` are the route's further settings.
    pub fn one(alpha: &ScriptedUpstream, lines: &str) -> Settings {
        Settings::new().upstream("alpha", alpha).route("support", &["alpha/m1"], lines)
    }

    /// Providers `alpha` and `beta`, and a route `support` to `alpha/m1`, then `beta/m2`.
    pub fn two(alpha: &ScriptedUpstream, beta: &ScriptedUpstream, lines: &str) -> Settings {
        Settings::new().upstream("alpha", alpha).upstream("beta", beta).route(
            "support",
            &["alpha/m1", "beta/m2"],
            lines,
        )
    }

    /// Lines of `[server]`.
    pub fn server(mut self, lines: &str) -> Settings {
        set(&mut self.server, lines);
        self
    }

    pub fn upstream(self, name: &str, upstream: &ScriptedUpstream) -> Settings {
        let adapter = match upstream.wire() {
            Wire::OpenAi => "openai",
            Wire::Anthropic => "anthropic",
        };
        self.provider(name, adapter, &upstream.base_url(), "")
    }

    pub fn provider(mut self, name: &str, adapter: &str, base_url: &str, lines: &str) -> Settings {
        let provider = self.providers.entry(name.to_owned()).or_default();
        set(provider, &format!("adapter = \"{adapter}\"\nbase_url = \"{base_url}\""));
        set(provider, lines);
        self
    }

    /// A route, or further lines for one that is there. Attempts take 10 s and are not retried unless `lines` say so.
    pub fn route(mut self, name: &str, targets: &[&str], lines: &str) -> Settings {
        let route = self.routes.entry(name.to_owned()).or_default();
        let targets = targets.iter().map(|target| format!("\"{target}\"")).collect::<Vec<_>>().join(", ");
        set(route, "contract = \"support-triage\"\nattempt_timeout = \"10s\"\nsettle_timeout = \"60s\"\nretries = 0");
        set(route, &format!("targets = [{targets}]"));
        set(route, lines);
        self
    }

    /// Anything else, as written.
    pub fn raw(mut self, text: &str) -> Settings {
        self.rest.push_str(text);
        self.rest.push('\n');
        self
    }

    /// The file. `folder` is where the operator's token is kept.
    pub fn to_toml(&self, folder: &Path, database_url: &str) -> String {
        let token = folder.join("operator-token");
        std::fs::write(&token, OPERATOR_TOKEN).expect("the operator's token is written");
        let mut server = self.server.clone();
        for line in ["listen = \"127.0.0.1:0\"", "operator_listen = \"127.0.0.1:0\""] {
            let (name, value) = line.split_once(" = ").expect("a setting");
            server.entry(name.to_owned()).or_insert_with(|| value.to_owned());
        }
        server.entry("operator_token".to_owned()).or_insert_with(|| format!("\"file:{}\"", token.display()));
        let mut out = String::new();
        table(&mut out, "server", &server);
        let _ = writeln!(out, "[database]\nurl = \"{database_url}\"\nmax_connections = 8\n");
        for (name, provider) in &self.providers {
            table(&mut out, &format!("providers.{name}"), provider);
        }
        for (name, route) in &self.routes {
            table(&mut out, &format!("routes.{name}"), route);
        }
        out.push_str(&self.rest);
        out
    }
}

/// `name = value` lines; a later one replaces an earlier one.
fn set(table: &mut BTreeMap<String, String>, lines: &str) {
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (name, value) = line.split_once('=').unwrap_or_else(|| panic!("no setting: {line}"));
        table.insert(name.trim().to_owned(), value.trim().to_owned());
    }
}

fn table(out: &mut String, name: &str, lines: &BTreeMap<String, String>) {
    let _ = writeln!(out, "[{name}]");
    for (name, value) in lines {
        let _ = writeln!(out, "{name} = {value}");
    }
    out.push('\n');
}
