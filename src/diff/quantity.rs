//! Kubernetes quantities in the canonical form of the API server.
//!
//! The server keeps some texts verbatim although they are not canonical (`12.345`, `+5`). A hash of its output depends on
//! them, so this parser keeps the same ones.

use std::fmt;

/// A quantity such as `500m`, `1.5Gi` or `1e3`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quantity {
    /// The value in billionths, the finest unit of Kubernetes.
    nanos: i128,
    format: Format,
    /// The text, if the server keeps it verbatim.
    verbatim: Option<Box<str>>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a quantity")]
pub struct QuantityError(Box<str>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    DecimalSi,
    DecimalExponent,
    BinarySi,
}

const NANOS: i128 = 1_000_000_000;
/// The server parses numbers with up to this many digits as int64 and may keep their text. It never keeps longer ones.
const MAX_INT64_DIGITS: usize = 18;

impl Quantity {
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        let invalid = || QuantityError(text.chars().take(64).collect());
        if text == "0" {
            return Ok(Self { nanos: 0, format: Format::DecimalSi, verbatim: Some("0".into()) });
        }
        let parts = QuantityParts::split(text).ok_or_else(invalid)?;
        let (format, exponent) = parse_suffix(parts.suffix).ok_or_else(invalid)?;
        let nanos = parts.nanos(format, exponent).ok_or_else(invalid)?;
        let verbatim = parts.is_kept_verbatim(format, exponent).then(|| text.into());
        let format =
            if format == Format::BinarySi && nanos > 0 && nanos < NANOS { Format::DecimalSi } else { format };
        Ok(Self { nanos, format, verbatim })
    }

    /// Whether two texts are the same amount; `false` unless both are quantities.
    pub fn are_same(one: &str, other: &str) -> bool {
        matches!((Self::parse(one), Self::parse(other)), (Ok(one), Ok(other)) if one.nanos == other.nanos)
    }

    /// Whether two texts are the same amount after the server rounds them up to thousandths, as it does in resource lists;
    /// `false` unless both are quantities.
    pub fn are_same_in_thousandths(one: &str, other: &str) -> bool {
        let thousandths = |text| Self::parse(text).map(|quantity| div_up(quantity.nanos, NANOS / 1000));
        matches!((thousandths(one), thousandths(other)), (Ok(one), Ok(other)) if one == other)
    }

    pub(super) fn nanos(&self) -> i128 {
        self.nanos
    }

    /// The value in thousandths, rounded up.
    pub fn millis(&self) -> u64 {
        saturating_u64(div_up(self.nanos, NANOS / 1000))
    }

    /// The value in whole units, rounded up.
    pub fn units(&self) -> u64 {
        saturating_u64(div_up(self.nanos, NANOS))
    }
}

/// Writes the canonical form.
impl fmt::Display for Quantity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(text) = &self.verbatim {
            return formatter.write_str(text);
        }
        if self.nanos == 0 {
            return formatter.write_str("0");
        }
        let small = self.nanos.abs() < 1024 * NANOS;
        let binary = self.format == Format::BinarySi && !small && self.nanos % NANOS == 0;
        if binary {
            let (amount, times) = strip_factor(self.nanos / NANOS, 1024);
            return write!(formatter, "{amount}{}", BINARY_SUFFIXES[times]);
        }
        let (mut amount, times) = strip_factor(self.nanos, 10);
        let mut exponent = i32::try_from(times).unwrap_or(i32::MAX) - 9;
        while exponent % 3 != 0 {
            amount *= 10;
            exponent -= 1;
        }
        match self.format {
            Format::DecimalExponent if exponent == 0 => write!(formatter, "{amount}"),
            Format::DecimalExponent => write!(formatter, "{amount}e{exponent}"),
            Format::DecimalSi | Format::BinarySi => write!(formatter, "{amount}{}", decimal_suffix(exponent)),
        }
    }
}

struct QuantityParts<'a> {
    negative: bool,
    /// Digits before the point, without leading zeros; `0` if none remain.
    whole: &'a str,
    fraction: &'a str,
    suffix: &'a str,
}

impl<'a> QuantityParts<'a> {
    fn split(text: &'a str) -> Option<Self> {
        let negative = text.starts_with('-');
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        if unsigned.is_empty() {
            return if text.is_empty() {
                None
            } else {
                Some(Self { negative, whole: "0", fraction: "", suffix: "" })
            };
        }
        let trimmed = unsigned.trim_start_matches('0');
        let (whole, rest) = split_digits(trimmed);
        let (fraction, suffix) = match rest.strip_prefix('.') {
            Some(rest) => split_digits(rest),
            None => ("", rest),
        };
        if trimmed.len() == unsigned.len() && whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let whole = if whole.is_empty() { "0" } else { whole };
        Some(Self { negative, whole, fraction, suffix })
    }

    /// The value in billionths, rounded away from zero; [`None`] if it does not fit.
    fn nanos(&self, format: Format, exponent: i32) -> Option<i128> {
        let digits: i128 = [self.whole, self.fraction].concat().parse().ok()?;
        let fraction_digits = i32::try_from(self.fraction.len()).ok()?;
        let magnitude = if format == Format::BinarySi {
            let scaled = digits.checked_mul(1_i128.checked_shl(u32::try_from(exponent).ok()?)?)?;
            let nanos = shift_decimal(scaled, 9 - fraction_digits)?;
            nanos.min(i128::from(i64::MAX) * NANOS)
        } else {
            shift_decimal(digits, exponent.checked_add(9)?.checked_sub(fraction_digits)?)?
        };
        Some(if self.negative { -magnitude } else { magnitude })
    }

    /// Whether the fast path of the server accepts this number and has nothing to shorten.
    fn is_kept_verbatim(&self, format: Format, exponent: i32) -> bool {
        let digits = self.whole.len() + self.fraction.len();
        match format {
            Format::BinarySi => {
                let size = self.whole.len() + usize::try_from(exponent * 3 / 10).unwrap_or(usize::MAX) + 1;
                // A number with one of its three lowest bits set has no factor of 1024.
                let has_low_bit = self.whole.parse::<i64>().is_ok_and(|value| value & 0x07 != 0);
                self.fraction.is_empty() && size <= 15 && has_low_bit
            }
            Format::DecimalSi | Format::DecimalExponent => {
                let scale = exponent.saturating_sub(i32::try_from(self.fraction.len()).unwrap_or(i32::MAX));
                let shifted = [self.whole, self.fraction].concat();
                digits <= MAX_INT64_DIGITS
                    && scale >= -9
                    && scale % 3 == 0
                    && !shifted.ends_with("000")
                    && !shifted.starts_with('0')
            }
        }
    }
}

fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

/// From 10⁻⁹, in steps of 10³.
const DECIMAL_SUFFIXES: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
/// From 2⁰, in steps of 2¹⁰.
const BINARY_SUFFIXES: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

fn parse_suffix(suffix: &str) -> Option<(Format, i32)> {
    let index_in = |suffixes: &[&str]| suffixes.iter().position(|known| *known == suffix);
    if let Some(at) = index_in(&DECIMAL_SUFFIXES) {
        return Some((Format::DecimalSi, i32::try_from(at).ok()? * 3 - 9));
    }
    if let Some(at) = index_in(&BINARY_SUFFIXES) {
        return Some((Format::BinarySi, i32::try_from(at).ok()? * 10));
    }
    Some((Format::DecimalExponent, suffix.strip_prefix(['e', 'E'])?.parse().ok()?))
}

fn decimal_suffix(exponent: i32) -> &'static str {
    usize::try_from((exponent + 9) / 3).ok().and_then(|at| DECIMAL_SUFFIXES.get(at)).unwrap_or(&"")
}

/// `value × 10^places`, rounded up.
fn shift_decimal(value: i128, places: i32) -> Option<i128> {
    if value == 0 {
        return Some(0);
    }
    let power = places.unsigned_abs();
    if places >= 0 {
        value.checked_mul(10_i128.checked_pow(power)?)
    } else {
        Some(10_i128.checked_pow(power).map_or(1, |divisor| div_up(value, divisor)))
    }
}

fn saturating_u64(value: i128) -> u64 {
    u64::try_from(value.max(0)).unwrap_or(u64::MAX)
}

fn div_up(value: i128, divisor: i128) -> i128 {
    value.div_euclid(divisor) + i128::from(value.rem_euclid(divisor) != 0)
}

fn strip_factor(mut value: i128, factor: i128) -> (i128, usize) {
    let mut times = 0;
    while value % factor == 0 {
        value /= factor;
        times += 1;
    }
    (value, times)
}
