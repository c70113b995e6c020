//! Money stays exact, and what is not known is not zero.

use super::*;

fn rate(price: &str) -> Rate {
    Rate::per_million(Amount::parse(price).unwrap()).unwrap()
}

/// 3 in, 15 out, 0.3 read, 3.75 written, as one vendor has it.
fn price() -> Price {
    Price {
        input: rate("3"),
        output: rate("15"),
        cached_input: Some(rate("0.3")),
        cache_write: Some(rate("3.75")),
        cache_write_1h: None,
        reasoning: None,
        up_to_input_tokens: Some(200_000),
        currency: "USD".into(),
        identity: "settings".into(),
    }
}

fn cost(price: &Price, usage: Usage) -> Option<String> {
    price.cost(&usage).map(|cost| cost.amount.to_string())
}

#[test]
fn amounts_are_read_and_written_with_every_digit() {
    for text in ["0", "2.5", "0.000123", "0.000000000001", "18446744.073709551615"] {
        assert_eq!(Amount::parse(text).unwrap().to_string(), text);
    }
    assert_eq!(Amount::parse("1.50").unwrap().to_string(), "1.5");
    for wrong in ["", ".5", "-1", "1e3", "1.0000000000001", "18446744.073709551616", "1,5", "NaN"] {
        assert_eq!(Amount::parse(wrong), None, "{wrong}");
    }
    assert_eq!(Amount::from_number(0.075), Amount::parse("0.075"), "the decimal that was written");
    for wrong in [-0.1, f64::NAN, f64::INFINITY, 1e300] {
        assert_eq!(Amount::from_number(wrong), None, "{wrong}");
    }
    assert_eq!(Rate::per_million(Amount::parse("0.0000001").unwrap()), None, "finer than a token's price can be");
}

#[test]
fn each_kind_of_token_costs_its_own_and_nothing_is_rounded() {
    let usage = Usage {
        input_tokens: 1_007,
        output_tokens: 3,
        cached_input_tokens: 900,
        cache_write_tokens: 100,
        ..Usage::default()
    };
    // 7 × 3 + 900 × 0.3 + 100 × 3.75 + 3 × 15 = 711 millionths.
    assert_eq!(cost(&price(), usage).as_deref(), Some("0.000711"));
    let one = Usage { input_tokens: 1, cached_input_tokens: 1, ..Usage::default() };
    assert_eq!(cost(&price(), one).as_deref(), Some("0.0000003"));
    assert_eq!(cost(&price(), Usage::default()).as_deref(), Some("0"), "nothing used costs nothing");
    let apart = Price { reasoning: Some(rate("1")), ..price() };
    let thought = Usage { output_tokens: 10, reasoning_tokens: 4, ..Usage::default() };
    assert_eq!(
        (cost(&apart, thought).unwrap(), cost(&price(), thought).unwrap()),
        ("0.000094".into(), "0.00015".into())
    );
}

#[test]
fn what_the_price_does_not_cover_is_unknown_and_never_zero() {
    let unknown = |price: Price, usage: Usage| assert_eq!(cost(&price, usage), None, "{usage:?}");
    let read = Usage { input_tokens: 9, cached_input_tokens: 1, ..Usage::default() };
    unknown(Price { cached_input: None, ..price() }, read);
    let hour = Usage { input_tokens: 9, cache_write_tokens: 2, cache_write_1h_tokens: 1, ..Usage::default() };
    unknown(price(), hour);
    unknown(price(), Usage { input_tokens: 200_001, ..Usage::default() });
    unknown(price(), Usage { input_tokens: 1, billed_apart: true, ..Usage::default() });
    unknown(price(), Usage { input_tokens: 1, cached_input_tokens: 2, ..Usage::default() });
    unknown(Price { up_to_input_tokens: None, ..price() }, Usage { input_tokens: u64::MAX, ..Usage::default() });
}

#[test]
fn every_listed_price_is_plausible() {
    for (model, price) in read(include_str!("../prices.toml")).unwrap().all() {
        assert!(price.cached_input.is_none_or(|cached| cached <= price.input), "{model}: the cache costs more");
        assert!(price.input <= price.output && price.currency.len() == 3, "{model}");
    }
}

#[test]
fn a_listed_price_holds_at_its_vendors_address_only() {
    let here = listed("https://api.anthropic.com/v1", "claude-sonnet-4-5").unwrap();
    assert_eq!((here.input, here.output), (rate("3"), rate("15")));
    for elsewhere in ["https://api.anthropic.com.evil.example/v1", "http://127.0.0.1:9001/v1", "https://example.com"] {
        assert_eq!(listed(elsewhere, "claude-sonnet-4-5"), None, "{elsewhere}");
    }
    assert_eq!(listed("https://api.anthropic.com/v1", "no-such-model"), None);
}

#[test]
fn a_list_with_a_price_that_is_none_is_refused() {
    let list = |price: &str| {
        read(&format!(
            "[pages.x]\nbase_url='https://x'\ncurrency='USD'\nsource='https://x'\ndate='2026-12-01'\n[pages.x.models.m]\n{price}"
        ))
    };
    assert!(list("input = 1\noutput = 2").is_ok());
    for wrong in
        ["input = 1", "input = -1\noutput = 2", "input = 0.0000001\noutput = 2", "input = 1\noutput = 2\nin = 3"]
    {
        assert!(list(wrong).is_err(), "{wrong}");
    }
}
