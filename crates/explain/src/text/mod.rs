// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packets as text, one a line:
//!
//! ```text
//! [@TIME | +TIME] [up | down] PROTOCOL SOURCE > DESTINATION [WORD...] [=> CLASS] [# remark]
//! ```
//!
//! `docs/explain.md` lists the words. All mistakes of a line are found at once,
//! each with its place and with what would be right.

mod rest;
mod words;

use crate::build::Blueprint;
use crate::packet::Packet;
use std::net::IpAddr;
use weirgate_state::{DeviceName, ICMP, ICMPV6, TCP};
use weirgate_units::{Direction, Span};
use words::Word;

/// The maximum number of packets that a line may represent.
pub const MOST_REPEATED: u32 = 100_000;

/// The time of a packet, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PacketTime {
    /// Since the beginning of the sequence.
    At(u64),
    /// Since the packet before.
    After(u64),
}

/// A packet as a line of text describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PacketLine {
    /// Its time; `None` for immediately.
    pub when: Option<PacketTime>,
    /// Its direction; `None` if none is given.
    pub direction: Option<Direction>,
    /// Whether the router created it or, downstream, whether it is for the router itself.
    pub own: bool,
    /// The device through which it arrives, if one is given.
    pub device: Option<DeviceName>,
    /// The packet; its `input` is not set yet.
    pub packet: Packet,
    /// The number of packets, and their distance in nanoseconds.
    pub repeat: (u32, u64),
    /// The expected class; `-` for none.
    pub expected: Option<String>,
}

/// A mistake in a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// The column of its first character, from 1.
    pub column: usize,
    /// Its length in characters; 0 at the end of the line.
    pub length: usize,
    /// What is wrong.
    pub wrong: String,
    /// The correction.
    pub right: String,
}

/// The words of a line, and the mistakes so far.
pub(crate) struct Reading<'a> {
    words: Vec<Word<'a>>,
    at: usize,
    end: usize,
    pub(crate) mistakes: Vec<Mistake>,
}

impl<'a> Reading<'a> {
    pub(crate) fn peek(&self) -> Option<&Word<'a>> {
        self.words.get(self.at)
    }

    pub(crate) fn next(&mut self) -> Option<Word<'a>> {
        let word = self.words.get(self.at).cloned();
        self.at += usize::from(word.is_some());
        word
    }

    pub(crate) fn wrong(
        &mut self,
        word: Option<&Word<'_>>,
        wrong: impl Into<String>,
        right: impl Into<String>,
    ) {
        let (column, length) = word.map_or((self.end, 0), |w| (w.column, w.text.chars().count()));
        self.mistakes.push(Mistake {
            column,
            length,
            wrong: wrong.into(),
            right: right.into(),
        });
    }

    /// Reads the word after one that takes a value, by `read`.
    pub(crate) fn value<T>(
        &mut self,
        of: &Word<'_>,
        right: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Option<T> {
        let Some(word) = self.next() else {
            self.wrong(None, format!("`{}` has no value", of.text), right);
            return None;
        };
        let value = read(word.text);
        if value.is_none() {
            let wrong = format!("`{}` is no value of `{}`", word.text, of.text);
            self.wrong(Some(&word), wrong, right);
        }
        value
    }
}

/// Reads a decimal or, with `0x`, hexadecimal number without sign.
pub(crate) fn number(text: &str) -> Option<u32> {
    let (digits, radix) = match text.strip_prefix("0x") {
        Some(digits) => (digits, 16),
        None => (text, 10),
    };
    let plain = !digits.is_empty() && digits.chars().all(|c| c.is_ascii_hexdigit());
    plain.then(|| u32::from_str_radix(digits, radix).ok())?
}

pub(crate) fn span(text: &str) -> Option<u64> {
    if text == "0" {
        return Some(0);
    }
    text.parse::<Span>().ok().map(Span::as_nanos)
}

/// Reads a line; `None` if it is empty except for a remark.
pub fn parse_line(text: &str) -> Result<Option<PacketLine>, Vec<Mistake>> {
    let words = words::split(text);
    if words.is_empty() {
        return Ok(None);
    }
    let mut reading = Reading {
        words,
        at: 0,
        end: text.chars().count() + 1,
        mistakes: Vec::new(),
    };
    let line = line(&mut reading);
    match line {
        Some(line) if reading.mistakes.is_empty() => Ok(Some(line)),
        _ => Err(reading.mistakes),
    }
}

fn time(reading: &mut Reading<'_>) -> Option<PacketTime> {
    let word = reading.peek()?.clone();
    let (sign, rest) = word.text.split_at_checked(1)?;
    let make = match sign {
        "@" => PacketTime::At,
        "+" => PacketTime::After,
        _ => return None,
    };
    reading.next();
    let found = span(rest).map(make);
    if found.is_none() {
        reading.wrong(
            Some(&word),
            format!("`{rest}` is not a time"),
            "write a number with ns, us, ms, s or min, such as `@1.5s` or `+20ms`",
        );
    }
    found
}

fn direction(reading: &mut Reading<'_>) -> Option<Direction> {
    let direction = match reading.peek()?.text {
        "up" => Direction::Up,
        "down" => Direction::Down,
        _ => return None,
    };
    reading.next();
    Some(direction)
}

const PROTOCOLS: [(&str, u8); 10] = [
    ("tcp", TCP),
    ("udp", 17),
    ("icmp", ICMP),
    ("icmpv6", ICMPV6),
    ("esp", 50),
    ("ah", 51),
    ("gre", 47),
    ("sctp", 132),
    ("dccp", 33),
    ("igmp", 2),
];

fn protocol(reading: &mut Reading<'_>) -> Option<u8> {
    let right = "begin with the protocol: tcp, udp, icmp, esp, ah, gre, sctp, dccp or a number, \
                 such as `tcp 192.168.1.10:40000 > 203.0.113.5:22`";
    let Some(word) = reading.next() else {
        reading.wrong(None, "there is no packet", right);
        return None;
    };
    let named = PROTOCOLS.iter().find(|known| known.0 == word.text);
    let by_number = || number(word.text).and_then(|n| u8::try_from(n).ok());
    let found = named.map(|known| known.1).or_else(by_number);
    if found.is_none() {
        reading.wrong(
            Some(&word),
            format!("`{}` is no protocol", word.text),
            right,
        );
    }
    found
}

/// Reads an address, with a port if the protocol has ports.
fn end(reading: &mut Reading<'_>, ports: bool) -> Option<(IpAddr, u16)> {
    let right = if ports {
        "write an address and a port, such as `192.168.1.10:40000` or `[2001:db8::1]:443`"
    } else {
        "write an address, such as `192.168.1.10` or `2001:db8::1`"
    };
    let word = match reading.peek() {
        Some(word) if !["=>", ">", "->"].contains(&word.text) => word.clone(),
        _ => {
            let word = reading.peek().cloned();
            reading.wrong(word.as_ref(), "an address is missing", right);
            return None;
        }
    };
    reading.next();
    let text = word.text;
    let with_port = || {
        let (address, port) = text.rsplit_once(':')?;
        let address: IpAddr = match address.strip_prefix('[') {
            Some(inner) => IpAddr::V6(inner.strip_suffix(']')?.parse().ok()?),
            None => IpAddr::V4(address.parse().ok()?),
        };
        Some((address, u16::try_from(number(port)?).ok()?))
    };
    let alone = || {
        let inner = text
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'));
        inner.unwrap_or(text).parse::<IpAddr>().ok()
    };
    let found = if ports {
        with_port()
    } else {
        alone().map(|address| (address, 0))
    };
    if found.is_none() {
        let wrong = match (ports, alone(), with_port()) {
            (true, Some(_), _) => format!("`{text}` has no port"),
            (false, _, Some(_)) => format!("`{text}` has a port, and the protocol has none"),
            _ => format!("`{text}` is no address"),
        };
        reading.wrong(Some(&word), wrong, right);
    }
    found
}

fn line(reading: &mut Reading<'_>) -> Option<PacketLine> {
    let when = time(reading);
    let direction = direction(reading);
    let protocol = protocol(reading)?;
    let ports = [TCP, 17, 33, 132].contains(&protocol);
    let source = end(reading, ports);
    match reading.peek().cloned() {
        Some(word) if [">", "->"].contains(&word.text) => {
            reading.next();
        }
        other => reading.wrong(
            other.as_ref(),
            "between source and destination stands `>`",
            "write `SOURCE > DESTINATION`",
        ),
    }
    let second = reading.peek().cloned();
    let destination = end(reading, ports);
    let pair = source.zip(destination);
    if let Some(((source, _), (destination, _))) = pair
        && source.is_ipv4() != destination.is_ipv4()
    {
        reading.wrong(
            second.as_ref(),
            "source and destination are of different IP versions",
            "write both as IPv4 or both as IPv6",
        );
        return None;
    }
    // If the ends are wrong, still read the words to find their mistakes.
    let nobody = (IpAddr::from([0, 0, 0, 0]), 0);
    let ((source, from), (destination, to)) = pair.unwrap_or((nobody, nobody));
    let mut blueprint = Blueprint::new(source, destination, protocol);
    if !source.is_ipv4() && protocol == ICMP {
        blueprint.protocol = ICMPV6;
    }
    blueprint.ports = (from, to);
    // The flags of most segments.
    blueprint.flags = 0x10;
    rest::rest(reading, (when, direction), blueprint)
}
