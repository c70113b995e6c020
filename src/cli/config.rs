//! `interlock config check`: whether the settings can be served, and everything that is wrong with them.

use clap::Subcommand;
use contracts::suite::Suite;
use serde_json::json;

use super::{Answer, Context, Failure, output};
use crate::config::Config;

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Check the settings file and the suites that its routes name.
    Check,
}

pub fn run(context: &Context, command: Command) -> Result<Answer, Failure> {
    let Command::Check = command;
    let config = Config::load(context.config.as_deref())?;
    let mut rows = Vec::new();
    for route in config.routes.values() {
        if let Some(contract) = &route.contract {
            Suite::find(Some(&config.contracts_dir), contract)
                .map_err(|error| format!("routes.{}.contract: {error}", route.name))?;
        }
        let targets: Vec<String> = route.targets.iter().map(|t| t.target.to_string()).collect();
        rows.push(vec![route.name.clone(), targets.join(" → "), route.contract.clone().unwrap_or_default()]);
    }
    let routes: Vec<&String> = config.routes.keys().collect();
    let value = json!({ "ok": true, "routes": routes, "providers": config.providers.keys().collect::<Vec<_>>() });
    output::print(context, &value, &["route", "targets", "contract"], rows)?;
    Ok(Answer::Yes)
}
