//! What tokens cost: exact money, a model's price, and the price list that lies in the binary (`prices.toml`).
//!
//! No amount is ever a float. A price is stated per million tokens with at most six decimals, so a token costs a whole
//! number of 10^-12 of the currency, and no product or sum of those is ever rounded. What the list does not name, or a
//! usage that it does not cover, has no cost that could be known: `None`, never zero.

use std::fmt;
use std::sync::{Arc, LazyLock};

use serde::Deserialize;

use crate::canonical::Usage;
use crate::pages::{Common, Listed};

/// One unit of a currency, in [`Amount`]'s own.
const ONE: u64 = 1_000_000_000_000;
/// Digits behind the point.
const DECIMALS: usize = 12;
const MILLION: u64 = 1_000_000;

/// The identity of a price that the settings state.
pub const SETTINGS: &str = "settings";

/// Money, exact: in 10^-12 of its currency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Amount(u64);

impl Amount {
    pub const ZERO: Amount = Amount(0);

    /// In 10^-12 of the currency.
    pub fn from_pico(pico: u64) -> Self {
        Amount(pico)
    }

    pub fn pico(self) -> u64 {
        self.0
    }

    /// A plain decimal of at most twelve decimals, as `0.25`. `None`: it is none, or does not fit.
    pub fn parse(text: &str) -> Option<Self> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
        if whole.is_empty() || !digits(whole) || !digits(fraction) || fraction.len() > DECIMALS {
            return None;
        }
        let fraction: u64 = format!("{fraction:0<DECIMALS$}").parse().ok()?;
        whole.parse::<u64>().ok()?.checked_mul(ONE)?.checked_add(fraction).map(Amount)
    }

    /// A number of a settings file: the decimal that was written there, which is the shortest one that reads as this.
    pub fn from_number(number: f64) -> Option<Self> {
        (number.is_finite() && number >= 0.0).then(|| Amount::parse(&number.abs().to_string()))?
    }

    /// The largest there is where the sum does not fit.
    #[must_use]
    pub fn plus(self, other: Amount) -> Amount {
        Amount(self.0.saturating_add(other.0))
    }

    /// For those who cannot read decimals (a JSON number, a metric): near it, not it.
    pub fn approximate(self) -> f64 {
        self.0 as f64 / ONE as f64
    }
}

/// Every digit, none of them idle: `0.000123`.
impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, fraction) = (self.0 / ONE, format!("{:012}", self.0 % ONE));
        match fraction.trim_end_matches('0') {
            "" => write!(f, "{whole}"),
            fraction => write!(f, "{whole}.{fraction}"),
        }
    }
}

/// What a token costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate(Amount);

impl Rate {
    /// Of a price per million tokens, which has six decimals at most.
    pub fn per_million(price: Amount) -> Option<Self> {
        price.0.is_multiple_of(MILLION).then_some(Rate(Amount(price.0 / MILLION)))
    }

    fn times(self, tokens: u64) -> Option<u64> {
        self.0.0.checked_mul(tokens)
    }
}

/// What a model costs. A kind of token without a rate of its own makes a call that used it a call of unknown cost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Price {
    /// Tokens of the prompt that no cache was involved in.
    pub input: Rate,
    pub output: Rate,
    /// Read from the cache.
    pub cached_input: Option<Rate>,
    /// Written to the cache, for its usual time.
    pub cache_write: Option<Rate>,
    /// Written to the cache for an hour.
    pub cache_write_1h: Option<Rate>,
    /// Reasoning, where it is not billed as output.
    pub reasoning: Option<Rate>,
    /// Longer prompts are billed by another price, which is not here.
    pub up_to_input_tokens: Option<u64>,
    pub currency: Arc<str>,
    /// Which price this is, as it is kept with what was computed by it: `settings`, or the day and the page it was read.
    pub identity: Arc<str>,
}

/// What a call has cost, and by which price.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cost {
    pub amount: Amount,
    pub currency: Arc<str>,
    /// [`Price::identity`].
    pub price: Arc<str>,
}

impl Price {
    /// One for input and one for output, per million tokens, stated by the settings. `None`: that is no price.
    pub fn plain(input: &str, output: &str, currency: &str) -> Option<Self> {
        let rate = |text: &str| Rate::per_million(Amount::parse(text)?);
        Some(Price {
            input: rate(input)?,
            output: rate(output)?,
            cached_input: None,
            cache_write: None,
            cache_write_1h: None,
            reasoning: None,
            up_to_input_tokens: None,
            currency: currency.into(),
            identity: SETTINGS.into(),
        })
    }

    /// What this usage costs; `None` where this price does not say it.
    pub fn cost(&self, usage: &Usage) -> Option<Cost> {
        let too_long = self.up_to_input_tokens.is_some_and(|most| usage.input_tokens > most);
        if usage.billed_apart || too_long {
            return None;
        }
        let short_writes = usage.cache_write_tokens.checked_sub(usage.cache_write_1h_tokens)?;
        let cached = usage.cached_input_tokens.checked_add(usage.cache_write_tokens)?;
        let uncached = usage.input_tokens.checked_sub(cached)?;
        let reasoning = if self.reasoning.is_some() { usage.reasoning_tokens } else { 0 };
        let parts = [
            (uncached, Some(self.input)),
            (usage.cached_input_tokens, self.cached_input),
            (short_writes, self.cache_write),
            (usage.cache_write_1h_tokens, self.cache_write_1h),
            (usage.output_tokens.checked_sub(reasoning)?, Some(self.output)),
            (reasoning, self.reasoning),
        ];
        let mut pico: u64 = 0;
        for (tokens, rate) in parts {
            if tokens > 0 {
                pico = pico.checked_add(rate?.times(tokens)?)?;
            }
        }
        // What the database can hold.
        i64::try_from(pico).ok()?;
        Some(Cost { amount: Amount(pico), currency: Arc::clone(&self.currency), price: Arc::clone(&self.identity) })
    }

    /// What so many tokens cost at most where no cache is used, to be set aside before a call. The largest amount there
    /// is where it does not fit.
    pub fn at_most(&self, input_tokens: u64, output_tokens: u64) -> Amount {
        let output = self.reasoning.map_or(self.output, |reasoning| reasoning.max(self.output));
        let part = |rate: Rate, tokens: u64| Amount(rate.times(tokens).unwrap_or(u64::MAX));
        part(self.input, input_tokens).plus(part(output, output_tokens))
    }
}

/// Prices as a file states them, per million tokens.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stated {
    input: f64,
    output: f64,
    cached_input: Option<f64>,
    cache_write: Option<f64>,
    cache_write_1h: Option<f64>,
    reasoning: Option<f64>,
    up_to_input_tokens: Option<u64>,
}

static LIST: LazyLock<Listed<Price>> = LazyLock::new(|| {
    read(include_str!("prices.toml")).expect("the price list in the binary is sound: a test reads it")
});

/// The listed price of a model of the vendor at this address. The same model elsewhere has another price.
pub fn listed(base_url: &str, model: &str) -> Option<&'static Price> {
    LIST.find(base_url, model)
}

fn read(text: &str) -> Result<Listed<Price>, String> {
    Listed::read(text, |_, stated, common| price(stated, common))
}

fn price(stated: Stated, common: &Common) -> Option<Price> {
    let rate = |number: f64| Rate::per_million(Amount::from_number(number)?);
    let optional = |number: Option<f64>| match number {
        None => Some(None),
        Some(number) => rate(number).map(Some),
    };
    Some(Price {
        input: rate(stated.input)?,
        output: rate(stated.output)?,
        cached_input: optional(stated.cached_input)?,
        cache_write: optional(stated.cache_write)?,
        cache_write_1h: optional(stated.cache_write_1h)?,
        reasoning: optional(stated.reasoning)?,
        up_to_input_tokens: stated.up_to_input_tokens,
        currency: common.currency.clone()?,
        identity: Arc::clone(&common.identity),
    })
}

#[cfg(test)]
mod tests;
