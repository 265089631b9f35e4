// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The three questions, and their permitted answers.

use crate::line::{AccessLine, LINES};
use crate::purpose::{PURPOSES, Purpose, USUAL_PORTS};
use weirgate_units::{Arrange as _, Rate};

/// A question, with the options that answer it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// The text of the question.
    pub title: String,
    /// The choices, numbered from 1; empty if the answer is a text.
    pub choices: Vec<&'static str>,
    /// The meaning of an empty answer.
    pub default: Option<String>,
    /// The options that answer it.
    pub options: &'static str,
}

/// The rates of the line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rates {
    /// These rates, up and down.
    Given(Rate, Rate),
    /// To be measured with this host.
    Measure(String),
}

/// Returns the index of an answer that is a number from 1.
fn number(text: &str, most: usize) -> Option<usize> {
    let number: usize = text.parse().ok()?;
    number.checked_sub(1).filter(|at| *at < most)
}

fn listed<'a>(keys: impl Iterator<Item = &'a str>) -> String {
    let keys: Vec<String> = keys.map(|key| format!("`{key}`")).collect();
    keys.join(", ")
}

impl Question {
    /// Returns the question about the kind of line.
    #[must_use]
    pub fn line(guess: &AccessLine) -> Self {
        Self {
            title: "What kind of line is it?".to_owned(),
            choices: LINES.iter().map(|line| line.words).collect(),
            default: LINES
                .iter()
                .position(|line| line == guess)
                .map(|at| (at + 1).to_string()),
            options: "--line",
        }
    }

    /// Returns the question about the rates.
    #[must_use]
    pub fn rates(line: &AccessLine) -> Self {
        Self {
            title: format!(
                "How fast is it up and down ({}; such as `40M 100M`)? Or `measure HOST`, a host \
                 outside where `weirgate probe --serve` runs.",
                line.rates
            ),
            choices: Vec::new(),
            default: None,
            options: "--up and --down, or --measure",
        }
    }

    /// Returns the question about the purpose.
    #[must_use]
    pub fn purpose() -> Self {
        Self {
            title: "What matters most?".to_owned(),
            choices: PURPOSES.iter().map(|one| one.words).collect(),
            default: Some("1".to_owned()),
            options: "--for",
        }
    }
}

/// Parses a kind of line: a number, its key or another name.
///
/// # Errors
/// Fails with the permitted answers.
pub fn line(text: &str) -> Result<&'static AccessLine, String> {
    let text = text.trim();
    let found = number(text, LINES.len()).and_then(|at| LINES.get(at));
    found.or_else(|| AccessLine::named(text)).ok_or_else(|| {
        format!(
            "`{text}` is not a kind of line; write one of {}",
            listed(LINES.iter().map(|line| line.key))
        )
    })
}

/// Parses two rates, or `measure HOST`.
///
/// # Errors
/// Fails with the mistake.
pub fn rates(text: &str) -> Result<Rates, String> {
    let words: Vec<&str> = text
        .split(|c: char| c.is_whitespace() || c == '/' || c == ',')
        .filter(|word| !word.is_empty())
        .collect();
    let rate = |word: &str| -> Result<Rate, String> {
        if word.parse::<f64>().is_ok() {
            return Err(format!("`{word}` has no unit; write `{word}M` for Mbit/s"));
        }
        word.parse()
            .map_err(|error: weirgate_units::ParseError| error.to_string())
    };
    match words[..] {
        ["measure", host] => Ok(Rates::Measure(host.to_owned())),
        [up, down] => Ok(Rates::Given(rate(up)?, rate(down)?)),
        _ => Err("write two rates, upstream first, such as `40M 100M`".to_owned()),
    }
}

/// Parses a purpose: a number or its key; after `server`, its ports.
///
/// # Errors
/// Fails with the permitted answers.
pub fn purpose(text: &str) -> Result<(&'static Purpose, Vec<u16>), String> {
    let mut words = text
        .split(|c: char| c.is_whitespace() || c == ':' || c == ',')
        .filter(|word| !word.is_empty());
    let first = words.next().unwrap_or_default();
    let found = number(first, PURPOSES.len()).and_then(|at| PURPOSES.get(at));
    let purpose = found.or_else(|| Purpose::named(first)).ok_or_else(|| {
        format!(
            "`{first}` is not a choice; write one of {}",
            listed(PURPOSES.iter().map(|one| one.key))
        )
    })?;
    let port = |word: &str| {
        let port = word.parse::<u16>().ok().filter(|port| *port > 0);
        port.ok_or_else(|| format!("`{word}` is not a port"))
    };
    let mut ports: Vec<u16> = words.map(port).collect::<Result<_, _>>()?;
    ports.arrange();
    ports.dedup();
    match (purpose.serves, ports.len()) {
        (true, 0) => ports.extend(USUAL_PORTS),
        (true, 9..) => return Err("at most 8 ports".to_owned()),
        (false, 1..) => return Err("only `server` takes ports".to_owned()),
        _ => {}
    }
    Ok((purpose, ports))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_numbers_or_words() {
        assert_eq!(line("1").map(|line| line.key), Ok("fibre"));
        assert_eq!(line(" FTTH ").map(|line| line.key), Ok("fibre"));
        for wrong in ["0", "7", "isdn", ""] {
            assert!(line(wrong).is_err_and(|why| why.contains("`cable`")));
        }
        let given = Rates::Given(Rate::kbit(40_000), Rate::kbit(100_000));
        for text in ["40M 100M", "40mbit/100mbit", "40M, 100M"] {
            assert_eq!(rates(text), Ok(given.clone()), "{text}");
        }
        let host = Rates::Measure("192.0.2.1:7887".to_owned());
        assert_eq!(rates("measure 192.0.2.1:7887"), Ok(host));
        for (wrong, part) in [
            ("40 100", "write `40M`"),
            ("40M", "two rates"),
            ("40Mbps 100Mbps", "40Mbps"),
            ("", "two rates"),
        ] {
            assert!(rates(wrong).is_err_and(|why| why.contains(part)), "{wrong}");
        }
        let read = |text| purpose(text).map(|(one, ports)| (one.key, ports));
        assert_eq!(read("1"), Ok(("calls", Vec::new())));
        assert_eq!(read("server"), Ok(("server", USUAL_PORTS.to_vec())));
        assert_eq!(read("3 443 25"), Ok(("server", vec![25, 443])));
        assert_eq!(read("server:8080"), Ok(("server", vec![8080])));
        for wrong in ["calls 80", "server 0", "server http", "", "4"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
