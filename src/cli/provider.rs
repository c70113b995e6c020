//! `interlock provider`: the configured providers, and whether they answer at all. Answering proves no contract.

use std::time::Duration;

use clap::Subcommand;
use providers::adapter::UpstreamRequest;
use serde_json::{Value, json};

use super::{Answer, Context, Failure, output};
use crate::config::{Config, Provider};
use crate::engine::upstreams::Upstream;

const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Debug, Subcommand)]
pub enum Command {
    /// List the configured providers.
    List,
    /// See whether each can be reached. No work is asked for.
    Check,
}

pub async fn run(context: &Context, command: Command) -> Result<Answer, Failure> {
    let config = Config::load(context.config.as_deref())?;
    let mut values = Vec::new();
    let mut answer = Answer::Yes;
    for provider in config.providers.values() {
        let mut value = json!({
            "name": provider.name,
            "adapter": provider.adapter.name(),
            "adapter_version": provider.adapter.version(),
            "base_url": provider.endpoint.base_url,
        });
        if let (Command::Check, Value::Object(value)) = (&command, &mut value) {
            let reached = reach(provider).await?;
            if reached.is_err() {
                answer = Answer::No;
            }
            value.insert("reachable".to_owned(), reached.is_ok().into());
            value.insert("detail".to_owned(), reached.unwrap_or_else(|why| why).into());
        }
        values.push(value);
    }
    let members: &[&str] = match command {
        Command::List => &["name", "adapter", "adapter_version", "base_url"],
        Command::Check => &["name", "adapter", "base_url", "reachable", "detail"],
    };
    let rows = output::rows(&values, members);
    output::print(context, &Value::Array(values), members, rows)?;
    Ok(answer)
}

/// Sends an empty object to a path that takes no work: any answer at all shows that somebody is there.
async fn reach(provider: &Provider) -> Result<Result<String, String>, Failure> {
    let upstream = Upstream::new(provider)?;
    let probe = UpstreamRequest { path: "/".to_owned(), headers: Vec::new(), body: "{}".into() };
    Ok(match tokio::time::timeout(PATIENCE, upstream.transport.send(probe)).await {
        Ok(Ok(response)) => Ok(format!("answers (status {})", response.head.status.as_u16())),
        Ok(Err(failure)) => Err(format!("{}: {}", failure.reason, failure.message)),
        Err(_) => Err(format!("no answer within {PATIENCE:?}")),
    })
}
