//! What a provider's settings come to: how it is asked about lost answers, and the digest that its permits rest on.

use std::collections::BTreeMap;
use std::time::Duration;

use providers::compatible;
use providers::lookup::Way;
use providers::prices::{Amount, Price, Rate, SETTINGS};
use providers::transport::Endpoint;
use providers::transport::Signing;
use sha2::{Digest, Sha256};

use crate::domain::hex::hex;

use super::{Checker, raw};

impl Checker {
    /// The way of asking, where one is switched on and the adapter has it.
    pub(super) fn lookup(&mut self, name: &str, raw: &raw::Provider) -> Option<Way> {
        let word = raw.lookup.as_deref()?;
        let ways = compatible::row_named(&raw.adapter)?.lookup_ways;
        let way = Way::from_word(word).filter(|way| ways.contains(way));
        if way.is_none() {
            let words: Vec<String> = ways.iter().map(|way| format!("`{}`", way.as_str())).collect();
            let can = match words.is_empty() {
                true => "which cannot be asked about lost answers: leave it out".to_owned(),
                false => format!("which knows {}", words.join(" and ")),
            };
            let what = format!("`{word}` is nothing that the adapter `{}` can do, {can}", raw.adapter);
            self.problem(format!("providers.{name}.lookup"), what);
        }
        way
    }

    /// The version of its API, where the adapter's requests carry one. It goes into an address as it is.
    pub(super) fn api_version(&mut self, name: &str, raw: &raw::Provider) -> Option<String> {
        let version = raw.api_version.as_deref()?;
        let setting = format!("providers.{name}.api_version");
        if compatible::row_named(&raw.adapter)?.api_version.is_none() {
            self.problem(setting, format!("the adapter `{}` sends none: leave it out", raw.adapter));
        } else if version.is_empty() || !version.bytes().all(|b| b.is_ascii_alphanumeric() || b"-.".contains(&b)) {
            self.problem(setting, "must be a version like 2024-10-21 or 2025-04-01-preview");
        }
        Some(version.to_owned())
    }

    /// Who signs the requests, where access keys are set. Half of them is an error, and so is a key beside them.
    pub(super) fn signing(&mut self, name: &str, raw: &raw::Provider) -> Option<Signing> {
        let setting = |field: &str| format!("providers.{name}.{field}");
        let keys = [
            ("region", &raw.region),
            ("access_key_id", &raw.access_key_id),
            ("secret_access_key", &raw.secret_access_key),
            ("session_token", &raw.session_token),
        ];
        let (first, _) = keys.iter().find(|(_, value)| value.is_some())?;
        let Some(service) = compatible::row_named(&raw.adapter)?.signing else {
            self.problem(setting(first), format!("the adapter `{}` signs nothing: leave it out", raw.adapter));
            return None;
        };
        if raw.api_key.is_some() {
            self.problem(setting("api_key"), format!("stands beside `{first}`: requests carry a key or are signed"));
        }
        for (field, value) in &keys[..3] {
            if value.is_none() {
                self.problem(setting(field), format!("is missing: `{first}` is set, and signing needs them together"));
            }
        }
        let region = raw.region.clone().unwrap_or_default();
        if raw.region.is_some() && !is_region(&region) {
            self.problem(setting("region"), "must be a region like eu-central-1");
        }
        let mut secret = |field: &str, value: &Option<String>| self.secret(&setting(field), value.as_deref());
        let session_token = secret("session_token", &raw.session_token);
        let access_key_id = secret("access_key_id", &raw.access_key_id);
        let secret_access_key = secret("secret_access_key", &raw.secret_access_key)?;
        Some(Signing { service, region, access_key_id: access_key_id?, secret_access_key, session_token })
    }

    /// Google Cloud's addresses name the project and the place.
    pub(super) fn base_of_project(&mut self, name: &str, raw: &raw::Provider) {
        if raw.adapter == "vertex" && !raw.base_url.trim_end_matches('/').ends_with("/publishers/google") {
            let cure = "must end with /v1/projects/PROJECT/locations/REGION/publishers/google";
            self.problem(format!("providers.{name}.base_url"), cure);
        }
    }

    /// How long an absent record must be absent; `None`: what is safe with these timeouts.
    pub(super) fn lookup_grace(&mut self, name: &str, raw: &raw::Provider, endpoint: &Endpoint) -> Option<Duration> {
        let setting = format!("providers.{name}.lookup_grace");
        let grace = self.optional(&setting, raw.lookup_grace.as_deref())?;
        if raw.lookup.is_none() {
            self.problem(setting, "says nothing without `lookup`: set both, or leave it out");
        } else if grace < endpoint.connect_timeout + Duration::from_secs(30) {
            let risk = "a request that is still on its way may pass for absent";
            tracing::warn!(provider = name, ?grace, risk, "lookup_grace is shorter than connect_timeout and 30 s");
        }
        Some(grace)
    }

    /// Prices by model; each is a plain amount.
    pub(super) fn prices(&mut self, name: &str, raw: &raw::Provider) -> BTreeMap<String, Price> {
        let priced = raw.prices.iter().map(|(model, price)| {
            let setting = format!("providers.{name}.prices.{model:?}");
            (model.clone(), self.price(&setting, price))
        });
        priced.collect::<Vec<_>>().into_iter().filter_map(|(model, price)| Some((model, price?))).collect()
    }

    /// `None`: something of it is wrong, and has been said.
    fn price(&mut self, setting: &str, raw: &raw::Price) -> Option<Price> {
        let currency = raw.currency.as_deref().unwrap_or("USD");
        if !(2..=8).contains(&currency.len()) || !currency.bytes().all(|b| b.is_ascii_alphanumeric()) {
            self.problem(format!("{setting}.currency"), format!("`{currency}` is no currency: write its code, as USD"));
        }
        let mut rate = |field: &str, amount: f64| {
            let rate = Amount::from_number(amount).and_then(Rate::per_million);
            if rate.is_none() {
                let cure = "an amount per million tokens with at most six decimals, as 2.5";
                self.problem(format!("{setting}.{field}"), format!("{amount} is no price: {cure}"));
            }
            rate
        };
        let (input, output) = (rate("input", raw.input), rate("output", raw.output));
        let mut optional = |field: &str, amount: Option<f64>| amount.and_then(|amount| rate(field, amount));
        Some(Price {
            cached_input: optional("cached_input", raw.cached_input),
            cache_write: optional("cache_write", raw.cache_write),
            cache_write_1h: optional("cache_write_1h", raw.cache_write_1h),
            reasoning: optional("reasoning", raw.reasoning),
            input: input?,
            output: output?,
            up_to_input_tokens: raw.up_to_input_tokens,
            currency: currency.into(),
            identity: SETTINGS.into(),
        })
    }
}

fn is_region(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

/// Everything about a provider that could change its answers; not its key, so that rotating one ends no permit.
pub(super) fn settings_digest(raw: &raw::Provider, endpoint: &Endpoint) -> String {
    let mut hash = Sha256::new();
    let mut part = |text: &str| {
        hash.update(text.as_bytes());
        hash.update([0]);
    };
    part(&raw.adapter);
    part(&endpoint.base_url);
    part(raw.error_500.as_deref().unwrap_or_default());
    part(&raw.default_max_tokens.map(|n| n.to_string()).unwrap_or_default());
    // Only where they are set: permits earned before there were these settings stay.
    if let Some(lookup) = &raw.lookup {
        part(lookup);
    }
    if let Some(version) = &raw.api_version {
        part("api_version");
        part(version);
    }
    if let Some(region) = &raw.region {
        part("region");
        part(region);
    }
    hex(&hash.finalize())
}
