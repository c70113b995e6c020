//! What owners may use.

use std::collections::BTreeMap;

use super::Checker;
use crate::config::{Limits, raw};
use crate::domain::limits::Limit;

/// More than anybody uses, and sums of it still fit.
const MOST: i64 = 1_000_000_000_000;

impl Checker {
    pub(super) fn limits(&mut self, everyone: &raw::Limits, owners: &BTreeMap<String, raw::Limits>) -> Limits {
        let everyone = self.limit("limits", everyone, Limit::default());
        let mut of_owners = BTreeMap::new();
        for (name, raw) in owners {
            let limit = self.limit(&format!("owners.{name}"), raw, everyone);
            of_owners.insert(name.clone(), limit);
        }
        Limits { everyone, owners: of_owners }
    }

    fn limit(&mut self, table: &str, raw: &raw::Limits, default: Limit) -> Limit {
        let mut amount = |field: &str, value: Option<&toml::Value>, default: Option<u64>| match value {
            None => default,
            Some(toml::Value::String(word)) if word == "unlimited" => None,
            Some(toml::Value::Integer(n @ 1..=MOST)) => Some(n.unsigned_abs()),
            Some(other) => {
                let what = format!("`{other}` is no limit; write a whole number from 1 to {MOST}, or \"unlimited\"");
                self.problem(format!("{table}.{field}"), what);
                None
            }
        };
        Limit {
            requests_per_minute: amount(
                "requests_per_minute",
                raw.requests_per_minute.as_ref(),
                default.requests_per_minute,
            ),
            tokens_per_minute: amount("tokens_per_minute", raw.tokens_per_minute.as_ref(), default.tokens_per_minute),
            concurrent_jobs: amount("concurrent_jobs", raw.concurrent_jobs.as_ref(), default.concurrent_jobs),
        }
    }
}
