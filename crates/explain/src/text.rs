// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packets as text, one a line:
//!
//! ```text
//! [@TIME | +TIME] [up | down] PROTOCOL SOURCE > DESTINATION [WORD...] [=> CLASS] [# remark]
//! ```
//!
//! `docs/explain.md` lists the words. All mistakes of a line are found at once,
//! each with its place and with what would be right.

use crate::build::Blueprint;
use crate::packet::{Packet, Told, ToldState};
use crate::text_words::{self, Word};
use std::net::IpAddr;
use weirgate_state::{DeviceName, ICMP, ICMPV6, TCP};
use weirgate_units::{Dscp, Size, Span};

/// The most packets that a line may stand for.
pub const MOST_REPEATED: u32 = 100_000;

/// Which way a packet goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// From the inside to the outside.
    Up,
    /// From the outside to the inside.
    Down,
}

/// When a packet comes, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// Since the beginning of the sequence.
    At(u64),
    /// Since the packet before.
    After(u64),
}

/// What a line says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// When; `None` at once.
    pub when: Option<When>,
    /// Which way; `None` where it is not said.
    pub way: Option<Way>,
    /// Whether it is the router's own packet.
    pub own: bool,
    /// The device it comes in through, where it is said.
    pub device: Option<DeviceName>,
    /// The packet; its `input` is not set yet.
    pub packet: Packet,
    /// How many of it, so many nanoseconds apart.
    pub repeat: (u32, u64),
    /// The class that it should get; `-` for none.
    pub expected: Option<String>,
}

/// Something wrong in a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// The column of its first character, from 1.
    pub column: usize,
    /// Its length in characters; 0 at the end of the line.
    pub length: usize,
    /// What is wrong.
    pub wrong: String,
    /// What would be right.
    pub right: String,
}

/// What the words of a line have said so far.
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

    /// The word after one that takes a value, read by `read`.
    fn value<T>(
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

/// A number in decimal or, with `0x`, hexadecimal; no sign.
fn number(text: &str) -> Option<u32> {
    let (digits, radix) = match text.strip_prefix("0x") {
        Some(digits) => (digits, 16),
        None => (text, 10),
    };
    let plain = !digits.is_empty() && digits.chars().all(|c| c.is_ascii_hexdigit());
    plain.then(|| u32::from_str_radix(digits, radix).ok())?
}

fn span(text: &str) -> Option<u64> {
    if text == "0" {
        return Some(0);
    }
    text.parse::<Span>().ok().map(Span::as_nanos)
}

/// Reads a line; `None` for one that is empty but for a remark.
pub fn parse_line(text: &str) -> Result<Option<Line>, Vec<Mistake>> {
    let words = text_words::split(text);
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

fn time(reading: &mut Reading<'_>) -> Option<When> {
    let word = reading.peek()?.clone();
    let (sign, rest) = word.text.split_at_checked(1)?;
    let make = match sign {
        "@" => When::At,
        "+" => When::After,
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

fn way(reading: &mut Reading<'_>) -> Option<Way> {
    let way = match reading.peek()?.text {
        "up" => Way::Up,
        "down" => Way::Down,
        _ => return None,
    };
    reading.next();
    Some(way)
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

/// An address with a port, where the protocol has some.
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

fn line(reading: &mut Reading<'_>) -> Option<Line> {
    let when = time(reading);
    let way = way(reading);
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
    // Where the ends are wrong, the words are still read for their mistakes.
    let nobody = (IpAddr::from([0, 0, 0, 0]), 0);
    let ((source, from), (destination, to)) = pair.unwrap_or((nobody, nobody));
    let mut blueprint = Blueprint::new(source, destination, protocol);
    if !source.is_ipv4() && protocol == ICMP {
        blueprint.protocol = ICMPV6;
    }
    blueprint.ports = (from, to);
    // What a segment has most often.
    blueprint.flags = 0x10;
    let mut rest = Rest {
        line: Line {
            when,
            way,
            own: false,
            device: None,
            packet: Packet::whole(0, Vec::new()),
            repeat: (1, 0),
            expected: None,
        },
        blueprint,
        length: None,
        told: Told::default(),
        mark: 0,
        mac: None,
    };
    while let Some(word) = reading.next() {
        rest.word(reading, &word);
    }
    rest.finish(reading)
}

/// What comes after the two ends.
struct Rest<'a> {
    line: Line,
    blueprint: Blueprint,
    length: Option<(Word<'a>, usize)>,
    told: Told,
    mark: u32,
    mac: Option<u64>,
}

/// `02:00:5e:10:00:01` as a number.
fn mac(text: &str) -> Option<u64> {
    let parts: Vec<&str> = text.split(':').collect();
    let six = parts.len() == 6 && parts.iter().all(|part| part.len() == 2);
    let bytes = parts.iter().map(|part| u8::from_str_radix(part, 16));
    let plain = text.chars().all(|c| c == ':' || c.is_ascii_hexdigit());
    let bytes: Vec<u8> = bytes.collect::<Result<_, _>>().ok()?;
    let fold = |all, byte: &u8| all << 8 | u64::from(*byte);
    (six && plain).then(|| bytes.iter().fold(0, fold))
}

/// A multiple of `step` up to `most`.
fn multiple(text: &str, step: u32, most: u32) -> Option<usize> {
    let value = number(text)?;
    (value % step == 0 && value <= most).then_some(value as usize)
}

impl<'a> Rest<'a> {
    fn word(&mut self, reading: &mut Reading<'a>, word: &Word<'a>) {
        let one = &mut self.blueprint;
        if one.protocol == TCP
            && let Some(flags) = text_words::flags(word.text)
        {
            one.flags = flags;
            return;
        }
        let six = one.protocol == ICMPV6;
        if [ICMP, ICMPV6].contains(&one.protocol)
            && let Some(kind) = text_words::icmp(word.text, six)
        {
            one.icmp = kind;
            return;
        }
        let byte = |text: &str| number(text).and_then(|n| u8::try_from(n).ok());
        let short = |text: &str| number(text).and_then(|n| u16::try_from(n).ok());
        match word.text {
            "dscp" => {
                let right = "write a name such as `EF` or a number from 0 to 63";
                let found = reading.value(word, right, |text| text.parse::<Dscp>().ok());
                one.dscp = found.map_or(0, Dscp::value);
            }
            "tos" => {
                let right = "write a number from 0 to 255, such as `0x10`";
                if let Some(tos) = reading.value(word, right, byte) {
                    one.dscp = tos >> 2;
                    one.ecn = tos & 3;
                }
            }
            "ecn" => {
                let right = "write `not-ect`, `ect1`, `ect0`, `ce` or 0 to 3";
                one.ecn = reading.value(word, right, text_words::ecn).unwrap_or(0);
            }
            "len" => {
                let right = "write the length of the IP packet, from 20 to 65535";
                let read = |text: &str| number(text).filter(|n| (20..=65_535).contains(n));
                let found = reading.value(word, right, read);
                self.length = found.map(|length| (word.clone(), length as usize));
            }
            "payload" => {
                let right = "write a number of bytes, up to 65000";
                let read = |text: &str| number(text).filter(|n| *n <= 65_000);
                one.payload = reading.value(word, right, read).unwrap_or(0) as usize;
            }
            "options" => {
                let right = "write a multiple of 4 up to 40";
                let found = reading.value(word, right, |text| multiple(text, 4, 40));
                one.tcp_options = found.unwrap_or(0);
            }
            "ip-options" => {
                let (step, right) = if one.source.is_ipv4() {
                    (4, "write a multiple of 4 up to 40")
                } else {
                    (8, "write a multiple of 8 up to 40")
                };
                let found = reading.value(word, right, |text| multiple(text, step, 40));
                one.ip_options = found.unwrap_or(0);
            }
            "id" => {
                let right = "write a number up to 65535";
                one.identifier = reading.value(word, right, short).unwrap_or(0);
            }
            "type" => {
                let found = reading.value(word, "write a number up to 255", byte);
                one.icmp.0 = found.unwrap_or(0);
            }
            "code" => {
                let found = reading.value(word, "write a number up to 255", byte);
                one.icmp.1 = found.unwrap_or(0);
            }
            "frag" => {
                let right = "write where the fragment begins, a multiple of 8 up to 65528, with \
                             `+` where more follow, such as `0+`, `1480+` or `2960`";
                one.fragment = reading.value(word, right, |text| {
                    let (digits, more) = match text.strip_suffix('+') {
                        Some(digits) => (digits, true),
                        None => (text, false),
                    };
                    Some((multiple(digits, 8, 65_528)? as u16, more))
                });
            }
            _ => self.about(reading, word),
        }
    }

    /// Words that are not of the packet's own bytes.
    fn about(&mut self, reading: &mut Reading<'a>, word: &Word<'a>) {
        match word.text {
            "own" => self.line.own = true,
            "in" => {
                let right = "write the name of a device";
                self.line.device = reading.value(word, right, |text: &str| DeviceName::new(text));
            }
            "mac" => {
                let right = "write six bytes, such as `02:00:5e:10:00:01`";
                self.mac = reading.value(word, right, mac);
            }
            "mark" => {
                let right = "write a number, such as `0x10`";
                self.mark = reading.value(word, right, number).unwrap_or(0);
            }
            "established" => self.told.state = Some(ToldState::Established),
            "related" => self.told.state = Some(ToldState::Related),
            "helper" => {
                let right = "write the helper's name, such as `ftp`";
                let read = |text: &str| (text.len() < 16).then(|| text.to_owned());
                self.told.helper = reading.value(word, right, read);
            }
            "ct-mark" => {
                let right = "write a number, such as `0x100`";
                self.told.mark = reading.value(word, right, number);
            }
            "ct-bytes" => {
                let right = "write a size, such as `3MB`";
                let read = |text: &str| text.parse::<Size>().ok().map(Size::as_bytes);
                self.told.bytes = reading.value(word, right, read);
            }
            "ct-packets" => {
                let right = "write a number of packets";
                self.told.packets = reading.value(word, right, number).map(u64::from);
            }
            "x" => {
                let right = "write how many, from 1 to 100000";
                let read = |text: &str| number(text).filter(|n| (1..=MOST_REPEATED).contains(n));
                self.line.repeat.0 = reading.value(word, right, read).unwrap_or(1);
            }
            "every" => {
                let right = "write a time, such as `50ms`";
                self.line.repeat.1 = reading.value(word, right, span).unwrap_or(0);
            }
            "=>" => {
                let right = "write the name of a class, or `-` for none";
                let read = |text: &str| Some(text.to_owned());
                self.line.expected = reading.value(word, right, read);
                if let Some(more) = reading.peek().cloned() {
                    reading.wrong(
                        Some(&more),
                        "nothing stands behind the class",
                        "write `=> CLASS` at the end of the line",
                    );
                    while reading.next().is_some() {}
                }
            }
            unknown => {
                let right = text_words::near(unknown, self.blueprint.protocol);
                reading.wrong(Some(word), format!("`{unknown}` is not known here"), right);
            }
        }
    }

    fn finish(mut self, reading: &mut Reading<'_>) -> Option<Line> {
        let headers = self.blueprint.header_length();
        if let Some((word, length)) = &self.length {
            match length.checked_sub(headers) {
                Some(payload) => self.blueprint.payload = payload,
                None => {
                    let wrong = format!("the packet's headers alone have {headers} bytes");
                    let right = format!("write `len {headers}` or more");
                    reading.wrong(Some(word), wrong, right);
                }
            }
        }
        if headers + self.blueprint.payload > 65_535 {
            reading.wrong(
                None,
                "the packet is longer than 65535 bytes",
                "give it less payload",
            );
        }
        if !reading.mistakes.is_empty() {
            return None;
        }
        let bytes = self.blueprint.bytes();
        self.line.packet = Packet {
            source_mac: self.mac,
            mark: self.mark,
            told: self.told,
            ..Packet::whole(self.blueprint.ethertype(), bytes)
        };
        Some(self.line)
    }
}
