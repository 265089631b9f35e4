// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Shared code of all quantities: a number, a suffix, an error with a hint.

use thiserror::Error;

/// The error of a text that is not a quantity of the expected kind.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{problem}; {hint}")]
pub struct ParseError {
    /// What is wrong, with the offending text quoted.
    pub problem: String,
    /// What would be right.
    pub hint: String,
}

impl ParseError {
    pub(crate) fn new(problem: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            problem: problem.into(),
            hint: hint.into(),
        }
    }
}

/// A unit: accepted suffix (lower case) and its factor.
pub(crate) type Unit = (&'static str, u64);

/// Parses `<decimal number><space*><suffix>` exactly, in integers.
///
/// At most nine fraction digits are accepted. A value that is not whole in the base unit (for
/// example `0.5` of a unit with factor 1) is refused rather than rounded.
pub(crate) fn scaled(
    text: &str,
    units: &[Unit],
    what: &str,
    hint: &str,
) -> Result<u64, ParseError> {
    let text = text.trim();
    let digits = text
        .find(|c: char| !(c.is_ascii_digit() || c == '.'))
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(digits);
    let suffix = suffix.trim_start().to_ascii_lowercase();
    let bad = || ParseError::new(format!("`{text}` is not {what}"), hint);
    let factor = units
        .iter()
        .find(|unit| unit.0 == suffix)
        .ok_or_else(bad)?
        .1;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return Err(bad());
    }
    if fraction.len() > 9 {
        let problem = format!("`{text}` has more than nine digits after the point");
        return Err(ParseError::new(problem, hint));
    }
    let large = || ParseError::new(format!("`{text}` is too large for {what}"), hint);
    let whole: u128 = if whole.is_empty() {
        0
    } else {
        whole.parse().map_err(|_| large())?
    };
    let scale = 10u128.pow(fraction.len() as u32);
    let fraction: u128 = if fraction.is_empty() {
        0
    } else {
        fraction.parse().map_err(|_| bad())?
    };
    let value = whole
        .checked_mul(scale)
        .and_then(|v| v.checked_add(fraction))
        .and_then(|v| v.checked_mul(u128::from(factor)))
        .ok_or_else(large)?;
    if value % scale != 0 {
        return Err(ParseError::new(
            format!("`{text}` is finer than {what} can be"),
            hint,
        ));
    }
    u64::try_from(value / scale).map_err(|_| large())
}

/// Prints `value` with the largest unit that divides it.
pub(crate) fn canonical(
    f: &mut std::fmt::Formatter<'_>,
    value: u64,
    units: &[Unit],
) -> std::fmt::Result {
    let (suffix, factor) = units
        .iter()
        .filter(|unit| unit.1 != 0 && value != 0 && value.is_multiple_of(unit.1))
        .max_by_key(|unit| unit.1)
        .copied()
        .unwrap_or(units[0]);
    write!(f, "{}{suffix}", value / factor)
}

/// Implements serde's traits for a quantity by its text form.
macro_rules! serde_by_text {
    ($type:ty) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.collect_str(self)
            }
        }
        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                let text = <std::borrow::Cow<'de, str>>::deserialize(d)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}
pub(crate) use serde_by_text;
