//! A JSON number as the exact text that was sent.
//!
//! The text never goes through a number type on its way to a provider. Reading a value out of it is explicit, and
//! says what it can hold.

/// The text of a JSON number, known to be well formed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Number(Box<str>);

/// The text is no JSON number, or one that neither an integer nor a finite double can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a JSON number, or one too large for a double")]
pub struct InvalidNumber;

impl Number {
    /// The text as sent: `1e2` stays `1e2`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn from_u64(value: u64) -> Self {
        Number(value.to_string().into_boxed_str())
    }

    /// The value, where it is an integer of that range, however it is written (`50`, `50.0`, `5e1`).
    pub fn as_u64(&self) -> Option<u64> {
        self.as_i128()?.try_into().ok()
    }

    /// As [`Number::as_u64`].
    pub fn as_i64(&self) -> Option<i64> {
        self.as_i128()?.try_into().ok()
    }

    /// The nearest double; infinite only for integers of more than 308 digits.
    pub fn as_f64(&self) -> f64 {
        self.0.parse().expect("Rust reads every JSON number as a double")
    }

    fn as_i128(&self) -> Option<i128> {
        const DIGITS_THAT_FIT: i64 = 38;
        let decimal = Decimal::of(&self.0);
        if !decimal.is_integer() || decimal.digits.len() as i64 + decimal.exponent > DIGITS_THAT_FIT {
            return None;
        }
        let magnitude: i128 = if decimal.is_zero() { 0 } else { decimal.integer_digits().parse().ok()? };
        Some(if decimal.negative { -magnitude } else { magnitude })
    }

    /// For the parser, which has checked the text.
    pub(super) fn from_checked(text: &str) -> Self {
        Number(text.into())
    }
}

impl TryFrom<&str> for Number {
    type Error = InvalidNumber;

    fn try_from(text: &str) -> Result<Self, InvalidNumber> {
        match super::Json::parse(text.as_bytes()) {
            Ok(super::Json::Number(number)) if number.as_str() == text => Ok(number),
            _ => Err(InvalidNumber),
        }
    }
}

/// A number's text taken apart: ±digits × 10^exponent, with no zero at either end of `digits`. Two texts have the same
/// value exactly when their `Decimal`s are equal.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Decimal {
    pub negative: bool,
    /// Empty for zero.
    pub digits: String,
    pub exponent: i64,
}

impl Decimal {
    /// `text` must be a well-formed JSON number (or a double as Rust prints it).
    pub fn of(text: &str) -> Decimal {
        let (negative, text) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, read_exponent(exponent)),
            None => (text, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let mut digits = String::with_capacity(whole.len() + fraction.len());
        digits.push_str(whole);
        digits.push_str(fraction);
        let exponent = exponent.saturating_sub(fraction.len() as i64);
        let kept = digits.trim_end_matches('0').len();
        let exponent = exponent.saturating_add((digits.len() - kept) as i64);
        digits.truncate(kept);
        let digits = digits.trim_start_matches('0').to_owned();
        if digits.is_empty() {
            return Decimal { negative: false, digits, exponent: 0 };
        }
        Decimal { negative, digits, exponent }
    }

    pub fn is_zero(&self) -> bool {
        self.digits.is_empty()
    }

    pub fn is_integer(&self) -> bool {
        self.is_zero() || self.exponent >= 0
    }

    /// All the digits of an integer, without its sign.
    pub fn integer_digits(&self) -> String {
        let zeros = usize::try_from(self.exponent).unwrap_or(0);
        let mut out = String::with_capacity(self.digits.len() + zeros);
        out.push_str(&self.digits);
        out.extend(std::iter::repeat_n('0', zeros));
        out
    }
}

/// An exponent beyond 64 bits belongs to zero or to a value that rounds to it: saturating is exact enough.
fn read_exponent(text: &str) -> i64 {
    let digits = text.strip_prefix('+').unwrap_or(text);
    digits.parse().unwrap_or(if digits.starts_with('-') { i64::MIN / 2 } else { i64::MAX / 2 })
}
