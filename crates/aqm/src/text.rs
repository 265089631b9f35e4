// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parameter values in human-readable form: `20ms`, `64KiB`, `0.1`, `on`.

use crate::discipline::{BYTES, Row, WIRE_BYTES};
use crate::presets::PRESET;
use crate::settings::{Settings, SettingsError};
use std::fmt::Write as _;
use weirgate_units::{Size, Span};

/// Names for the most common definitions of a flow, with their bits (`enum aqm_part`,
/// aqm/include/aqm.h).
const FLOWS: [(&str, u64); 4] = [
    ("connections", 31),
    ("pairs", 3),
    ("senders", 1),
    ("receivers", 2),
];

/// The largest number of decimal places for printing a fixed-point number.
const PLACES: usize = 6;

impl Row {
    /// Parses a value in the row's unit: `5ms` or nanoseconds, `64KiB` or bytes, `0.1` or `10%`
    /// for fixed point, or a word. Words that stand for bits can be joined by `+`. Returns
    /// `None` if the text is malformed.
    pub fn parse(&self, text: &str) -> Option<u64> {
        let text = text.trim();
        if let Some(place) = self.unit.split('|').position(|word| word == text) {
            return self.unit.contains('|').then_some(place as u64);
        }
        if let Some(binary) = self.binary_places() {
            return fixed(text, binary);
        }
        if self.unit.contains('+') {
            return self.parts(text);
        }
        if let Ok(number) = text.parse() {
            return Some(number);
        }
        match self.unit {
            "ns" => Some(text.parse::<Span>().ok()?.as_nanos()),
            BYTES | WIRE_BYTES => Some(text.parse::<Size>().ok()?.as_bytes()),
            _ => None,
        }
    }

    /// Formats a value so that [`Row::parse`] accepts it; a plain number is followed by its
    /// unit.
    pub fn format(&self, value: u64) -> String {
        if self.unit.contains('|') {
            let word = self.unit.split('|').nth(value as usize);
            return word.map_or_else(|| value.to_string(), str::to_owned);
        }
        if self.unit.contains('+') {
            return self.format_parts(value);
        }
        if let Some(binary) = self.binary_places() {
            let word = self.unit.split('/').next().unwrap_or_default();
            let number = decimal(value, binary);
            return match word {
                "ratio" => number,
                word => format!("{number} {word}"),
            };
        }
        match self.unit {
            "ns" => Span::from_nanos(value).to_string(),
            "" | "number" => value.to_string(),
            unit => format!("{value} {unit}"),
        }
    }

    /// Describes the accepted values, for a message.
    pub fn expected(&self) -> String {
        if self.unit.contains('|') {
            return self.unit.replace('|', ", ");
        }
        if self.unit.contains('+') {
            let names = FLOWS.map(|(name, _)| name).join(", ");
            return format!(
                "{names}, or any of {} joined by +",
                self.unit.replace('+', ", ")
            );
        }
        let (least, most) = (self.format(self.least), self.format(self.most));
        format!("{least} to {most}")
    }

    /// Parses words joined by `+`, or a name of [`FLOWS`].
    fn parts(&self, text: &str) -> Option<u64> {
        if let Some((_, bits)) = FLOWS.iter().find(|(name, _)| *name == text) {
            return Some(*bits);
        }
        text.split('+').try_fold(0, |bits, word| {
            let place = self
                .unit
                .split('+')
                .position(|known| known == word.trim())?;
            Some(bits | 1 << place)
        })
    }

    /// Formats a set of bits as a name of [`FLOWS`] or as words joined by `+`.
    fn format_parts(&self, value: u64) -> String {
        if let Some((name, _)) = FLOWS.iter().find(|(_, bits)| *bits == value) {
            return (*name).to_owned();
        }
        let words = self.unit.split('+').enumerate();
        let own: Vec<&str> = words
            .filter(|(place, _)| value >> place & 1 == 1)
            .map(|(_, word)| word)
            .collect();
        own.join("+")
    }

    /// Returns the number of binary places of a fixed-point unit such as `ratio/2^32`.
    fn binary_places(&self) -> Option<u32> {
        let (_, rest) = self.unit.split_once("/2^")?;
        rest.split(' ').next()?.parse().ok()
    }
}

impl Settings {
    /// Sets a parameter from a text in the form of [`Row::parse`]. The name [`PRESET`] applies
    /// all settings of a preset.
    pub fn set_text(&mut self, name: &str, text: &str) -> Result<(), SettingsError> {
        if name == PRESET {
            return self.set_preset(text.trim());
        }
        let rows = self.discipline().params();
        let Some(row) = rows.iter().find(|row| row.name == name) else {
            return self.set(name, 0);
        };
        match row.parse(text) {
            Some(value) if (row.least..=row.most).contains(&value) => self.set(name, value),
            _ => Err(SettingsError::Text {
                name: row.name,
                text: text.to_owned(),
                expected: row.expected(),
            }),
        }
    }
}

/// Parses a decimal number or a percentage as fixed point, rounded to the nearest value.
fn fixed(text: &str, binary: u32) -> Option<u64> {
    let (text, divisor) = match text.strip_suffix('%') {
        Some(text) => (text.trim_end(), 100),
        None => (text, 1),
    };
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if (whole.is_empty() && part.is_empty()) || !digits(whole) || !digits(part) || part.len() > 18 {
        return None;
    }
    let scale = 10_u128.pow(part.len() as u32);
    let number = |text: &str| match text {
        "" => Some(0),
        text => text.parse::<u64>().ok().map(u128::from),
    };
    let numerator = number(whole)?.checked_mul(scale)? + number(part)?;
    let scaled = numerator.checked_mul(1 << binary)?;
    let whole = scale * divisor;
    u64::try_from((scaled + whole / 2) / whole).ok()
}

/// Formats a fixed-point number in decimal, without trailing zeros.
fn decimal(value: u64, binary: u32) -> String {
    let scale = 10_u128.pow(PLACES as u32);
    let shown = (u128::from(value) * scale + (1 << binary >> 1)) >> binary;
    let mut text = (shown / scale).to_string();
    let part = shown % scale;
    if part > 0 {
        let digits = format!("{part:0PLACES$}");
        // Writing to a String cannot fail.
        let _ = write!(text, ".{}", digits.trim_end_matches('0'));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Discipline;
    use proptest::prelude::*;

    fn row(unit: &'static str) -> Row {
        Row {
            name: "x",
            unit,
            help: "",
            default: 0,
            least: 0,
            most: u64::MAX,
        }
    }

    #[test]
    fn units_are_understood() {
        assert_eq!(row("ns").parse("5ms"), Some(5_000_000));
        assert_eq!(row("ns").parse("5"), Some(5));
        assert_eq!(row("bytes").parse("64KiB"), Some(65_536));
        assert_eq!(row("off|on").parse("on"), Some(1));
        assert_eq!(row("off|on").parse("perhaps"), None);
        assert_eq!(row("ratio/2^32").parse("0.5"), Some(1 << 31));
        assert_eq!(row("ratio/2^32").parse("25%"), Some(1 << 30));
        assert_eq!(row("ratio/2^4 per s").parse("1.25"), Some(20));
        assert_eq!(row("red+green+blue").parse("blue+red"), Some(5));
        assert_eq!(row("red+green+blue").parse("pink"), None);
        assert_eq!(row("red+green+blue").parse(""), None);
        assert_eq!(row("red+green+blue").format(6), "green+blue");
        for wrong in ["", ".", "-1", "1e3", "0x1", "5 parsecs"] {
            assert_eq!(row("ratio/2^32").parse(wrong), None, "{wrong}");
            assert_eq!(row("packets").parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn every_default_survives_printing() {
        for discipline in Discipline::all() {
            for row in discipline.params() {
                let text = row.format(row.default);
                let word = text.split(' ').next().expect("a word");
                let back = row.parse(word).unwrap_or_else(|| panic!("{row:?}: {text}"));
                // Printing six decimal places loses precision of a ratio with 32 binary places.
                assert!(back.abs_diff(row.default) < 4_300, "{row:?}: {text}");
            }
        }
    }

    #[test]
    fn flows_have_names() {
        for name in ["mered", "meredt", "fq_codel"] {
            let discipline = Discipline::named(name).expect("a discipline");
            let row = discipline.params().pop().expect("a parameter");
            assert_eq!(
                (row.name, &*row.format(row.default)),
                ("flows", "connections")
            );
            assert_eq!(row.parse("pairs"), row.parse("source+destination"));
            for bits in row.least..=row.most {
                assert_eq!(row.parse(&row.format(bits)), Some(bits));
            }
            assert!(row.expected().contains("receivers"));
        }
    }

    #[test]
    fn a_wrong_value_is_answered_with_what_is_right() {
        let mut codel = Settings::new(Discipline::named("codel").expect("codel"));
        codel.set_text("target_ns", "7ms").expect("a value");
        let error = codel.set_text("ecn", "maybe").expect_err("no value");
        assert_eq!(error.to_string(), "ecn is `maybe`; write off, on");
        let error = codel.set_text("targt_ns", "7ms").expect_err("no name");
        assert!(error.to_string().contains("target_ns"), "{error}");
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".{0,24}") {
            for unit in ["ns", "bytes", "off|on", "ratio/2^32", "number", "bytes/2^16", "one+two"] {
                let _ = row(unit).parse(&text);
            }
        }
    }
}
