// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the packets of `weirgate explain`.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::net::IpAddr;
use std::path::Path;
use weirgate_console::exit::Failure;
use weirgate_explain::{
    Direction, Packet, PacketLine, PacketTime, is_capture, parse_line, read_capture,
};
use weirgate_state::DeviceName;

/// The largest file of packets, in bytes.
const LARGEST: u64 = 256 << 20;

/// The most packets in all, repetitions included.
const MOST: u64 = 1_000_000;

/// A packet, or several equal ones.
pub struct Item {
    /// Its name in the output: its text, or its number in a capture.
    pub title: String,
    /// The time since the first packet, in nanoseconds.
    pub at: u64,
    /// The time in seconds since 1970, if the file has it.
    pub clock: Option<i64>,
    pub direction: Direction,
    pub own: bool,
    pub device: Option<DeviceName>,
    pub packet: Packet,
    /// The number of packets, and the nanoseconds between them.
    pub repeat: (u32, u64),
    pub expected: Option<String>,
    /// The assumptions about the packet.
    pub taken: Vec<String>,
}

/// An address prefix.
#[derive(Clone, Copy)]
pub struct Prefix {
    address: IpAddr,
    length: u32,
}

impl Prefix {
    fn contains(self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let differ = u32::from(own) ^ u32::from(other);
                differ.checked_shr(32 - self.length).unwrap_or(0) == 0
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let differ = u128::from(own) ^ u128::from(other);
                differ.checked_shr(128 - self.length).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

const PRIVATE: [&str; 6] = [
    "10.0.0.0/8",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "100.64.0.0/10",
    "fc00::/7",
    "fe80::/10",
];

fn prefix(text: &str) -> Option<Prefix> {
    let (address, length) = text
        .split_once('/')
        .map_or((text, None), |(a, l)| (a, Some(l)));
    let address: IpAddr = address.parse().ok()?;
    let bits = if address.is_ipv4() { 32 } else { 128 };
    let length = match length {
        Some(length) => length.parse().ok().filter(|length| *length <= bits)?,
        None => bits,
    };
    Some(Prefix { address, length })
}

/// Returns the inside prefixes: the given ones, or else the private ones.
pub fn prefixes(named: &[String]) -> Result<Vec<Prefix>, String> {
    if named.is_empty() {
        return Ok(PRIVATE.iter().filter_map(|text| prefix(text)).collect());
    }
    let each = named.iter().map(|text| {
        prefix(text).ok_or_else(|| {
            format!(
                "weirgate: --inside {text}: is no prefix; write an address with its length, such \
                 as `192.0.2.0/24`"
            )
        })
    });
    each.collect()
}

/// The names of days in `--time`.
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// Parses `2026-03-01T22:30[:15]` or `sat 22:30` in UTC. Returns seconds since 1970.
pub fn time(text: &str) -> Result<i64, String> {
    let wrong = || {
        format!(
            "weirgate: --time {text}: is no time; write `2026-03-01T22:30` or a day and a time, \
             such as `sat 22:30`"
        )
    };
    let (day, clock) = text.split_once(['T', ' ']).ok_or_else(wrong)?;
    let parts: Vec<i64> = clock
        .split(':')
        .map(|part| part.parse::<u8>().map(i64::from))
        .collect::<Result<_, _>>()
        .map_err(|_| wrong())?;
    let seconds = match parts.as_slice() {
        [hour @ 0..=23, minute @ 0..=59] => hour * 3600 + minute * 60,
        [hour @ 0..=23, minute @ 0..=59, second @ 0..=59] => hour * 3600 + minute * 60 + second,
        _ => return Err(wrong()),
    };
    let lower = day.to_ascii_lowercase();
    if let Some(at) = DAYS.iter().position(|name| *name == lower) {
        // 1 January 2023 was a Sunday.
        return Ok((19_358 + at as i64) * 86_400 + seconds);
    }
    let date: Vec<i64> = day
        .split('-')
        .map(|part| part.parse::<u16>().map(i64::from))
        .collect::<Result<_, _>>()
        .map_err(|_| wrong())?;
    let [year @ 1970..=9999, month @ 1..=12, day @ 1..=31] = date.as_slice() else {
        return Err(wrong());
    };
    Ok(days(*year, *month, *day) * 86_400 + seconds)
}

/// Returns the days from 1 January 1970 to a date of the Gregorian calendar.
fn days(year: i64, month: i64, day: i64) -> i64 {
    // Count years from March, so that the leap day is the last day of a year.
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let before = year * 365 + year / 4 - year / 100 + year / 400;
    before + (month * 153 + 2) / 5 + day - 1 - 719_468
}

/// Returns all packets: those of the command line, then those of the file. `bridged` means that
/// they pass a bridge, where rules see behind some headers.
pub fn items(
    packets: &[String],
    from: Option<&Path>,
    inside: &[Prefix],
    bridged: bool,
) -> Result<Vec<Item>, Failure> {
    let mut reading = Reading {
        inside,
        bridged,
        items: Vec::new(),
        directions: BTreeMap::new(),
        now: 0,
        problems: Vec::new(),
        total: 0,
    };
    for (index, text) in packets.iter().enumerate() {
        reading.line(text, &format!("packet {}", index + 1));
    }
    if let Some(path) = from {
        let (name, bytes) = read(path)?;
        if is_capture(&bytes) {
            reading.capture(&name, &bytes);
        } else {
            let text = String::from_utf8(bytes).map_err(|error| {
                let at = error.utf8_error().valid_up_to();
                Failure::Input(format!(
                    "weirgate: {name}: is neither a capture (pcap, pcapng) nor UTF-8 text: byte \
                     {at} is wrong"
                ))
            })?;
            for (index, line) in text.lines().enumerate() {
                reading.line(line, &format!("{name}:{}", index + 1));
            }
        }
    }
    if reading.problems.is_empty() {
        return Ok(reading.items);
    }
    Err(Failure::Input(reading.problems.join("\n\n")))
}

fn read(path: &Path) -> Result<(String, Vec<u8>), Failure> {
    let name = path.display().to_string();
    let refused = |why: String| Failure::Input(format!("weirgate: {name}: {why}"));
    let mut bytes = Vec::new();
    let read = if name == "-" {
        std::io::stdin().take(LARGEST + 1).read_to_end(&mut bytes)
    } else {
        std::fs::File::open(path).and_then(|file| file.take(LARGEST + 1).read_to_end(&mut bytes))
    };
    read.map_err(|error| refused(error.to_string()))?;
    if bytes.len() as u64 > LARGEST {
        return Err(refused(format!("has more than {LARGEST} bytes")));
    }
    Ok((name, bytes))
}

struct Reading<'a> {
    inside: &'a [Prefix],
    bridged: bool,
    items: Vec<Item>,
    /// The direction of packets between two addresses so far, by source and destination.
    directions: BTreeMap<(u128, u128), Direction>,
    now: u64,
    problems: Vec<String>,
    total: u64,
}

impl Reading<'_> {
    fn line(&mut self, text: &str, place: &str) {
        match parse_line(text) {
            Ok(None) => {}
            Ok(Some(line)) => self.add(line, text, place),
            Err(mistakes) => {
                for one in mistakes {
                    let mark = "^".repeat(one.length.max(1));
                    let indent = " ".repeat(one.column - 1);
                    self.problems.push(format!(
                        "{place}: column {}: {}\n  {text}\n  {indent}{mark}\n  {}",
                        one.column, one.wrong, one.right
                    ));
                }
            }
        }
    }

    fn add(&mut self, line: PacketLine, text: &str, place: &str) {
        let at = match line.when {
            Some(PacketTime::At(at)) => at,
            Some(PacketTime::After(span)) => self.now.saturating_add(span),
            None => self.now,
        };
        if at < self.now {
            self.problems.push(format!(
                "{place}: column 1: the packet comes before the one above it\n  {text}\n  ^\n  \
                 write packets in the order of their times"
            ));
            return;
        }
        self.total += u64::from(line.repeat.0);
        if self.total > MOST {
            self.problems.push(format!(
                "{place}: more than {MOST} packets in all; repeat fewer"
            ));
            return;
        }
        let (direction, taken) = self.direction(&line.packet, line.direction);
        let span = line.repeat.1.saturating_mul(u64::from(line.repeat.0 - 1));
        self.now = at.saturating_add(span);
        self.items.push(Item {
            title: text.trim().to_owned(),
            at,
            clock: None,
            direction,
            own: line.own,
            device: line.device,
            packet: line.packet,
            repeat: line.repeat,
            expected: line.expected,
            taken,
        });
    }

    /// Returns the direction of a packet, and the assumptions for it.
    ///
    /// The first of these that is known decides: the given direction, that of earlier packets
    /// between the two addresses, the opposite of the answered packets, and an inside address.
    /// Otherwise it is up.
    fn direction(&mut self, packet: &Packet, given: Option<Direction>) -> (Direction, Vec<String>) {
        let carried = packet.carried();
        let packet = carried.as_ref().unwrap_or(packet);
        let Some((source, destination)) = packet.addresses() else {
            return (given.unwrap_or(Direction::Up), Vec::new());
        };
        let address = |value: u128| match packet.ethertype {
            weirgate_explain::IPV4 => IpAddr::V4((value as u32).into()),
            _ => IpAddr::V6(value.into()),
        };
        let inside = |value| self.inside.iter().any(|one| one.contains(address(value)));
        let known = self.directions.get(&(source, destination)).copied();
        let answered = self.directions.get(&(destination, source)).copied();
        let mut taken = Vec::new();
        let direction = given
            .or(known)
            .or(answered.map(Direction::reversed))
            .or_else(|| inside(source).then_some(Direction::Up))
            .or_else(|| inside(destination).then_some(Direction::Down))
            .unwrap_or_else(|| {
                taken.push(
                    "neither address is known to be inside; counts as upstream (write `up` or \
                     `down`)"
                        .to_owned(),
                );
                Direction::Up
            });
        self.directions.insert((source, destination), direction);
        (direction, taken)
    }

    fn capture(&mut self, name: &str, bytes: &[u8]) {
        let capture = read_capture(bytes);
        if let Some(trouble) = &capture.trouble {
            weirgate_console::output::note(&format!(
                "weirgate: warning: {name}: read up to packet {}: {trouble}",
                capture.packets.len()
            ));
        }
        if capture.packets.is_empty() {
            self.problems.push(format!(
                "weirgate: {name}: holds no packet that can be read"
            ));
        }
        let first = capture.packets.first().map_or(0, |packet| packet.time);
        for one in capture.packets {
            let carried = one.carried;
            let bridged = carried.bridged.filter(|_| self.bridged);
            let as_it_is = bridged.is_some() || carried.inside.is_empty();
            let Some(packet) = bridged.or(carried.packet) else {
                continue;
            };
            let (direction, mut taken) = self.direction(&packet, one.direction);
            if !as_it_is {
                taken.push(format!(
                    "taken out of {}: rules are evaluated on the device of the inner packet",
                    carried.inside.join(" in ")
                ));
            }
            // The packets of a capture that was merged from several devices may be out of order.
            self.now = self.now.max(one.time.saturating_sub(first));
            self.items.push(Item {
                title: format!("packet {} of {name}", one.number),
                at: self.now,
                clock: i64::try_from(one.time / weirgate_explain::SECOND).ok(),
                direction,
                own: false,
                device: None,
                packet,
                repeat: (1, 0),
                expected: None,
                taken,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read() {
        assert_eq!(time("1970-01-02T00:01"), Ok(86_460));
        assert_eq!(time("2026-03-01T22:30:15"), Ok(1_772_404_215));
        // Saturday is day 6 in the kernel's count.
        let saturday = time("sat 22:30").map(|t| (t.div_euclid(86_400) + 4).rem_euclid(7));
        assert_eq!(saturday, Ok(6));
        assert!(time("tomorrow").is_err());
        assert!(time("sat 24:00").is_err());
    }
}
