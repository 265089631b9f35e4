// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The words of a packet's text after its two ends: properties of the packet, and what is known
//! about it.

use crate::build::Blueprint;
use crate::packet::{GivenConnection, GivenState, Packet};
use crate::sender::{self, SenderValue};
use crate::text::words::{self, Word};
use crate::text::{MOST_REPEATED, PacketLine, PacketTime, Reading, number, span};
use std::collections::BTreeMap;
use weirgate_state::{DeviceName, Field, ICMP, ICMPV6, SenderWord, TCP};
use weirgate_units::{Direction, Dscp, Size};

/// What follows the two ends.
struct Rest<'a> {
    line: PacketLine,
    blueprint: Blueprint,
    length: Option<(Word<'a>, usize)>,
    payload: Option<usize>,
    data: Option<(Word<'a>, Vec<u8>)>,
    given: GivenConnection,
    mark: u32,
    sender: BTreeMap<&'static str, SenderValue>,
    mac: Option<u64>,
    /// Whether it is within a PPPoE session.
    session: bool,
}

/// Reads a MAC address such as `02:00:5e:10:00:01` as a number.
fn mac(text: &str) -> Option<u64> {
    let parts: Vec<&str> = text.split(':').collect();
    let six = parts.len() == 6 && parts.iter().all(|part| part.len() == 2);
    let bytes = parts.iter().map(|part| u8::from_str_radix(part, 16));
    let plain = text.chars().all(|c| c == ':' || c.is_ascii_hexdigit());
    let bytes: Vec<u8> = bytes.collect::<Result<_, _>>().ok()?;
    let fold = |all, byte: &u8| all << 8 | u64::from(*byte);
    (six && plain).then(|| bytes.iter().fold(0, fold))
}

/// Reads bytes as text, with `\xNN` for any byte and `\\` for a backslash.
fn data(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        match rest.next()? {
            b'\\' => out.push(b'\\'),
            b'x' => {
                let pair = [rest.next()?, rest.next()?];
                let digits = std::str::from_utf8(&pair).ok()?;
                let plain = pair.iter().all(u8::is_ascii_hexdigit);
                out.push(u8::from_str_radix(digits, 16).ok().filter(|_| plain)?);
            }
            _ => return None,
        }
    }
    Some(out)
}

/// Reads a multiple of `step` up to `most`.
fn multiple(text: &str, step: u32, most: u32) -> Option<usize> {
    let value = number(text)?;
    (value % step == 0 && value <= most).then_some(value as usize)
}

/// Reads the value after a word.
fn sender_value(word: SenderWord, text: &str) -> Option<SenderValue> {
    if !word.is_path {
        return number(text).map(SenderValue::Number);
    }
    let plain = |part: &str| !["", ".", ".."].contains(&part);
    text.split('/')
        .all(plain)
        .then(|| SenderValue::Path(text.to_owned()))
}

/// Returns the correction for an invalid value.
fn sender_right(word: SenderWord, field: Field) -> String {
    let what = field.words();
    if word.is_path {
        format!(
            "write the path of the {what} without a `/` before it, such as \
             `system.slice/backup.service`"
        )
    } else {
        format!("write the {what}'s number, such as `1000`")
    }
}

/// Reads the words after the ends of a packet, and builds it.
pub(crate) fn rest(
    reading: &mut Reading<'_>,
    (when, direction): (Option<PacketTime>, Option<Direction>),
    blueprint: Blueprint,
) -> Option<PacketLine> {
    let mut rest = Rest {
        line: PacketLine {
            when,
            direction,
            own: false,
            device: None,
            packet: Packet::whole(0, Vec::new()),
            repeat: (1, 0),
            expected: None,
        },
        blueprint,
        length: None,
        payload: None,
        data: None,
        given: GivenConnection::default(),
        mark: 0,
        sender: BTreeMap::new(),
        mac: None,
        session: false,
    };
    while let Some(word) = reading.next() {
        rest.word(reading, &word);
    }
    rest.finish(reading)
}

impl<'a> Rest<'a> {
    fn word(&mut self, reading: &mut Reading<'a>, word: &Word<'a>) {
        let one = &mut self.blueprint;
        if one.protocol == TCP
            && let Some(flags) = words::flags(word.text)
        {
            one.flags = flags;
            return;
        }
        let six = one.protocol == ICMPV6;
        if [ICMP, ICMPV6].contains(&one.protocol)
            && let Some(kind) = words::icmp(word.text, six)
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
                one.ecn = reading.value(word, right, words::ecn).unwrap_or(0);
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
                self.payload = reading
                    .value(word, right, read)
                    .map(|length| length as usize);
                one.payload = self.payload.unwrap_or(0);
            }
            "data" => {
                let right = "write what the payload begins with, such as \
                             `\\x13BitTorrent\\x20protocol`: no spaces, bytes as `\\x20`";
                let found = reading.value(word, right, data);
                self.data = found.map(|bytes| (word.clone(), bytes));
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

    /// Reads words that do not concern the packet's own bytes.
    fn about(&mut self, reading: &mut Reading<'a>, word: &Word<'a>) {
        if let Some((known, field)) = sender::word(word.text) {
            let right = sender_right(known, field);
            let value = reading.value(word, &right, |text| sender_value(known, text));
            self.sender.extend(value.map(|value| (known.word, value)));
            return;
        }
        match word.text {
            "own" => self.line.own = true,
            "pppoe" => self.session = true,
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
            "established" => self.given.state = Some(GivenState::Established),
            "related" => self.given.state = Some(GivenState::Related),
            "helper" => {
                let right = "write the helper's name, such as `ftp`";
                let read = |text: &str| (text.len() < 16).then(|| text.to_owned());
                self.given.helper = reading.value(word, right, read);
            }
            "ct-mark" => {
                let right = "write a number, such as `0x100`";
                self.given.mark = reading.value(word, right, number);
            }
            "ct-bytes" => {
                let right = "write a size, such as `3MB`";
                let read = |text: &str| text.parse::<Size>().ok().map(Size::as_bytes);
                self.given.bytes = reading.value(word, right, read);
            }
            "ct-packets" => {
                let right = "write a number of packets";
                self.given.packets = reading.value(word, right, number).map(u64::from);
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
                let right = words::near(unknown, self.blueprint.protocol);
                reading.wrong(Some(word), format!("`{unknown}` is not known here"), right);
            }
        }
    }

    fn finish(mut self, reading: &mut Reading<'_>) -> Option<PacketLine> {
        let headers = self.blueprint.header_length();
        if let (None, Some((_, data))) = (self.payload, &self.data) {
            self.blueprint.payload = data.len();
        }
        if let Some((word, length)) = &self.length {
            if let Some(payload) = length.checked_sub(headers) {
                self.blueprint.payload = payload;
            } else {
                let wrong = format!("the packet's headers alone have {headers} bytes");
                let right = format!("write `len {headers}` or more");
                reading.wrong(Some(word), wrong, right);
            }
        }
        if let Some((word, data)) = self.data.take() {
            if data.len() > self.blueprint.payload {
                let (wanted, room) = (data.len(), self.blueprint.payload);
                let wrong = format!("the payload has {room} bytes, and these are {wanted}");
                reading.wrong(Some(&word), wrong, "write less data, or a longer packet");
            }
            self.blueprint.content = data;
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
            sender: self.sender,
            given: self.given,
            ..Packet::whole(self.blueprint.ethertype(), bytes)
        };
        if self.session {
            self.line.packet = self.line.packet.in_session();
        }
        Some(self.line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_takes_what_its_field_is() {
        for (word, field) in sender::words() {
            assert_eq!(word.is_path, field.level().is_some(), "{field:?}");
            assert!(sender_value(word, "1000").is_some(), "{field:?}");
            assert_eq!(
                sender_value(word, "a/b").is_some(),
                word.is_path,
                "{field:?}"
            );
            assert_eq!(sender_value(word, "/a"), None, "{field:?}");
        }
    }
}
