// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The stored form of a list: one text with equivalent input files, followed by a line for each
//! circuit that has changed since.
//!
//! The first line has the direction, the rate of the link in bit/s, and the largest number of
//! queues, which older texts lack. The files follow, each after a line of `----`: sites, plans,
//! devices. A circuit is one line, so that one can be found without parsing the others. A line
//! of changes begins with a checksum. Then follows `+` and the circuit's line, or `-` and its
//! identifier. The last change of a circuit counts.

mod compared;
mod sent;

pub use compared::compared;
pub use sent::{Port, Ports, Sent};

use crate::files::plans::{GB, MB, MORE, Unit};
use crate::files::raw::RATES;
use crate::files::table::{Lines, Row};
use crate::files::{File, rate};
use crate::hash::Known;
use crate::keys::{Key, KeyKind, Prefix};
use crate::model::{Circuit, List, Pair, Plan, Site, Terms};
use crate::one::One;
use crate::read as read_files;
use std::fmt::Write as _;
use std::net::IpAddr;
use weirgate_document::Severity;
use weirgate_units::{Direction, Rate, Size, fnv1a_32};

/// The first word and the version of the format.
const FORMAT: &str = "circuits 1";

/// The separator of files.
const DIVIDES: &str = "\n----\n";

/// A list with everything that is needed to apply it to a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// The direction in which the device sends.
    pub direction: Direction,
    /// The rate of the whole device, if it has a limit.
    pub link: Option<Rate>,
    /// The largest number of the device's queues that get circuits; `None` for as many as the
    /// rate needs.
    pub queues: Option<u32>,
    /// The list.
    pub list: List,
}

impl Kept {
    /// Writes the list in the form that [`Kept::read`] parses.
    pub fn write(&self) -> String {
        let mut text = head(self.direction, self.link, self.queues);
        files(&self.list, &mut text);
        text
    }

    /// Parses a stored list and applies the changes. An error is the problem in words.
    pub fn read(text: &str, changes: &str) -> Result<Self, String> {
        let parts = Parts::of(text)?;
        let mut last: Known<&str, Option<&str>> = Known::default();
        for change in changes.lines() {
            let (id, circuit) = checked(change)?;
            last.insert(id, circuit);
        }
        let mut devices = String::new();
        if !last.is_empty() {
            let mut lines = parts.devices.lines();
            // Changes can have columns that did not exist when the list was stored.
            let (own, now) = (lines.next().unwrap_or_default(), columns());
            devices.push_str(if now.starts_with(own) { &now } else { own });
            let stays = |line: &&str| !identifier(line).is_some_and(|id| last.contains_key(id));
            for line in lines.filter(stays).chain(last.values().flatten().copied()) {
                devices.push('\n');
                devices.push_str(line);
            }
        }
        let devices = if last.is_empty() {
            parts.devices
        } else {
            &devices
        };
        Ok(Self {
            direction: parts.direction,
            link: parts.link,
            queues: parts.queues,
            list: whole(&[parts.network, parts.plans, devices])?,
        })
    }

    /// Finds one circuit and the plans without parsing the other circuits. The circuit is `None`
    /// if it does not exist.
    pub fn circuit(
        text: &str,
        changes: &str,
        id: &str,
    ) -> Result<(Option<One>, Vec<Plan>), String> {
        let parts = Parts::of(text)?;
        let mut own = String::new();
        quoted(id, &mut own);
        let mut last = None;
        for change in changes.lines() {
            let (whose, circuit) = checked(change)?;
            if whose == own {
                last = Some(circuit);
            }
        }
        let found = last.unwrap_or_else(|| {
            let begins = format!("\n{own},");
            let at = memchr::memmem::find(parts.devices.as_bytes(), begins.as_bytes())? + 1;
            parts.devices.get(at..)?.lines().next()
        });
        let columns = columns();
        let devices = match found {
            Some(line) => format!("{columns}\n{line}"),
            None => columns,
        };
        let mut read = whole(&[parts.plans, &devices])?;
        let circuit = read.circuits.pop();
        let one = circuit.map(|circuit| One {
            circuit,
            site: found.and_then(site),
        });
        Ok((one, read.plans))
    }
}

/// Returns the line that adds or changes a circuit.
pub fn put(one: &One) -> String {
    let mut text = String::new();
    line(&one.circuit, one.site.as_deref().unwrap_or(""), &mut text);
    sealed("+", text.trim_start_matches('\n'))
}

/// Returns the line that removes a circuit.
pub fn gone(id: &str) -> String {
    let mut own = String::new();
    quoted(id, &mut own);
    sealed("-", &own)
}

/// Returns whether this is a whole line of changes, without its newline.
pub fn is_change(line: &str) -> bool {
    checked(line).is_ok()
}

fn sealed(sign: &str, rest: &str) -> String {
    let text = format!("{sign}{rest}");
    format!("{:08x} {text}\n", fnv1a_32(text.bytes()))
}

/// Verifies a line of changes. Returns the identifier with its quotes, and the circuit's line
/// unless it is removed.
fn checked(line: &str) -> Result<(&str, Option<&str>), String> {
    let wrong = || "a change has another checksum than it says".to_owned();
    let (sum, text) = line.split_once(' ').ok_or_else(wrong)?;
    if u32::from_str_radix(sum, 16) != Ok(fnv1a_32(text.bytes())) {
        return Err(wrong());
    }
    let found = match (text.get(..1), text.get(1..)) {
        (Some("+"), Some(circuit)) => identifier(circuit).map(|id| (id, Some(circuit))),
        (Some("-"), Some(id)) => Some((id, None)),
        _ => None,
    };
    found.ok_or_else(|| "a change is neither of a circuit nor its end".to_owned())
}

/// Returns the first line.
fn head(direction: Direction, link: Option<Rate>, queues: Option<u32>) -> String {
    let link = link.map_or(0, Rate::as_bits_per_second);
    let queues = queues.unwrap_or(0);
    format!("{FORMAT} {direction} {link} {queues}")
}

/// Appends the files that follow the first line.
fn files(list: &List, text: &mut String) {
    text.push_str(DIVIDES);
    network(list, text);
    text.push_str(DIVIDES);
    let _ = write!(text, "Plan,{},{}", RATES.join(","), MORE.join(","));
    for plan in &list.plans {
        plan_lines(plan, text);
    }
    text.push_str(DIVIDES);
    text.push_str(&columns());
    for circuit in &list.circuits {
        line(circuit, site_of(list, circuit), text);
    }
}

/// Returns the name of a circuit's site; empty for the link.
fn site_of<'l>(list: &'l List, circuit: &Circuit) -> &'l str {
    let site = circuit.parent.and_then(|site| list.sites.get(site));
    site.map_or("", |site| &site.name)
}

/// The parts of a stored list.
struct Parts<'t> {
    direction: Direction,
    link: Option<Rate>,
    queues: Option<u32>,
    network: &'t str,
    plans: &'t str,
    devices: &'t str,
}

impl<'t> Parts<'t> {
    fn of(text: &'t str) -> Result<Self, String> {
        let wrong = || "it is no list of circuits, or one of another version".to_owned();
        let mut parts = text.splitn(4, DIVIDES);
        let mut part = || parts.next().ok_or_else(wrong);
        let [head, network, plans, devices] = [part()?, part()?, part()?, part()?];
        let words = head.strip_prefix(FORMAT).ok_or_else(wrong)?;
        let mut words = words.split_whitespace();
        let direction = words.next().ok_or_else(wrong)?;
        let mut number = || words.next().map(str::parse).transpose();
        let link = number().ok().flatten().ok_or_else(wrong)?;
        let queues: u64 = number().map_err(|_| wrong())?.unwrap_or(0);
        if words.next().is_some() {
            return Err(wrong());
        }
        Ok(Self {
            direction: match direction {
                "down" => Direction::Down,
                "up" => Direction::Up,
                _ => return Err(wrong()),
            },
            link: (link > 0).then(|| Rate::bits_per_second(link)),
            queues: u32::try_from(queues).ok().filter(|queues| *queues > 0),
            network,
            plans,
            devices,
        })
    }
}

/// Parses these files, which contain no errors.
fn whole(texts: &[&str]) -> Result<List, String> {
    let name = |text| File { name: "kept", text };
    let files: Vec<File<'_>> = texts.iter().copied().map(name).collect();
    let reading = read_files(&files);
    reading.list.ok_or_else(|| {
        let mut problems = reading.problems.into_iter();
        let first = problems.find(|one| one.problem.severity == Severity::Error);
        first.map_or_else(String::new, |first| first.to_string())
    })
}

/// Writes the tree of sites as `network.json`.
fn network(list: &List, text: &mut String) {
    let mut below: Vec<Vec<usize>> = vec![Vec::new(); list.sites.len()];
    let mut top = Vec::new();
    for (number, site) in list.sites.iter().enumerate() {
        match site.parent.and_then(|parent| below.get_mut(parent)) {
            Some(below) => below.push(number),
            None => top.push(number),
        }
    }
    sites(list, &top, &below, text);
}

fn sites(list: &List, own: &[usize], below: &[Vec<usize>], text: &mut String) {
    text.push('{');
    for (index, number) in own.iter().enumerate() {
        let (Some(site), Some(children)) = (list.sites.get(*number), below.get(*number)) else {
            continue;
        };
        if index > 0 {
            text.push_str(",\n");
        }
        site_begins(site, text);
        if !children.is_empty() {
            text.push_str(",\"children\":");
            sites(list, children, below, text);
        }
        text.push('}');
    }
    text.push('}');
}

/// Writes the beginning of a site, without its children and its end.
fn site_begins(site: &Site, text: &mut String) {
    json(&site.name, text);
    if let Some(most) = site.most {
        text.push_str(":{\"downloadBandwidthMbps\":");
        rate::write(most.down, text);
        text.push_str(",\"uploadBandwidthMbps\":");
        rate::write(most.up, text);
    } else {
        text.push_str(":{\"virtual\":true");
    }
}

/// Writes a name, which has no control characters, as a JSON string (RFC 8259, section 7).
fn json(name: &str, text: &mut String) {
    text.push('"');
    text.push_str(&name.replace('\\', "\\\\").replace('"', "\\\""));
    text.push('"');
}

/// The kinds of keys in the last columns.
const LAST: [KeyKind; 3] = [KeyKind::Session, KeyKind::Vlan, KeyKind::Mac];

/// Returns the first line of the devices. New columns must be added at its end.
fn columns() -> String {
    let rates = RATES.join(",");
    format!("Circuit ID,Parent Node,IPv4,IPv6,{rates},Plan,Suspended,PPPoE Session,VLAN,MAC")
}

/// Writes a circuit, preceded by a line break.
fn line(circuit: &Circuit, site: &str, text: &mut String) {
    text.push('\n');
    quoted(&circuit.id, text);
    text.push(',');
    quoted(site, text);
    let addresses = |six: bool, text: &mut String| {
        let own = circuit.keys.iter().filter_map(|key| match key {
            Key::Address(prefix) if prefix.address().is_ipv6() == six => Some(prefix),
            _ => None,
        });
        field(own, address, text);
    };
    addresses(false, text);
    addresses(true, text);
    rates(circuit.least, circuit.most, circuit.of_plan, text);
    text.push(',');
    if let Some(plan) = &circuit.plan {
        quoted(plan, text);
    }
    text.push_str(if circuit.suspended { ",yes" } else { "," });
    // Fast path: most circuits have only addresses.
    if circuit
        .keys
        .iter()
        .all(|key| key.kind() == KeyKind::Address)
    {
        return;
    }
    for kind in LAST {
        let own = circuit.keys.iter().filter(|key| key.kind() == kind);
        let write = |key: &Key, text: &mut String| {
            let _ = write!(text, "{key}");
        };
        field(own, write, text);
    }
}

/// Writes a field with several values, preceded by a comma.
fn field<'k, T: 'k>(
    values: impl Iterator<Item = &'k T>,
    write: impl Fn(&T, &mut String),
    text: &mut String,
) {
    text.push(',');
    for (number, value) in values.enumerate() {
        if number > 0 {
            text.push(' ');
        }
        write(value, text);
    }
}

fn address(prefix: &Prefix, text: &mut String) {
    match prefix.address() {
        IpAddr::V4(own) => {
            for (number, byte) in own.octets().into_iter().enumerate() {
                if number > 0 {
                    text.push('.');
                }
                rate::digits::<10>(byte.into(), text);
            }
        }
        IpAddr::V6(own) => {
            let groups = own.segments();
            let zeros = groups.iter().rev().take_while(|group| **group == 0);
            // `::` replaces the zeros at the end of a prefix; it never omits other digits.
            let zeros = Some(zeros.count()).filter(|zeros| *zeros > 1);
            for (number, group) in groups.iter().take(8 - zeros.unwrap_or(0)).enumerate() {
                if number > 0 {
                    text.push(':');
                }
                rate::digits::<16>((*group).into(), text);
            }
            if zeros.is_some() {
                text.push_str("::");
            }
        }
    }
    if !prefix.is_host() {
        text.push('/');
        rate::digits::<10>(prefix.length().into(), text);
    }
}

/// Writes the lines of a plan.
fn plan_lines(plan: &Plan, text: &mut String) {
    plan_line(plan, &plan.terms, None, text);
    for times in &plan.times {
        plan_line(plan, &times.terms, Some(&times.written), text);
    }
}

/// Writes one line of a plan, preceded by a line break. Only the line without times has the
/// quotas.
fn plan_line(plan: &Plan, terms: &Terms, times: Option<&[String; 3]>, text: &mut String) {
    text.push('\n');
    quoted(&plan.name, text);
    rates(terms.least, terms.most, [false; 4], text);
    let sizes = |sizes: Pair<Size>, unit: Unit, text: &mut String| {
        for size in [sizes.down, sizes.up] {
            text.push(',');
            if size != Size::default() {
                unit.write(size, text);
            }
        }
    };
    sizes(terms.burst, MB, text);
    let none = <[String; 3]>::default();
    for word in times.unwrap_or(&none) {
        text.push(',');
        quoted(word, text);
    }
    let quota = Some(&plan.quota).filter(|_| times.is_none());
    sizes(
        quota.map_or_else(Pair::default, |quota| quota.most),
        GB,
        text,
    );
    text.push(',');
    if let Some(beyond) = quota.and_then(|quota| quota.beyond.as_ref()) {
        quoted(beyond, text);
    }
}

/// Writes the four rates, except those that come from the plan.
fn rates(least: Pair, most: Pair, of_plan: [bool; 4], text: &mut String) {
    let own = [least.down, least.up, most.down, most.up];
    for (rate, is_plans) in own.into_iter().zip(of_plan) {
        text.push(',');
        if !is_plans {
            rate::write(rate, text);
        }
    }
}

/// Writes a quoted field (RFC 4180).
fn quoted(field: &str, text: &mut String) {
    text.push('"');
    if field.contains('"') {
        text.push_str(&field.replace('"', "\"\""));
    } else {
        text.push_str(field);
    }
    text.push('"');
}

/// Returns the first field of a line, with its quotes.
fn identifier(line: &str) -> Option<&str> {
    let rest = line.strip_prefix('"')?;
    let mut from = 0;
    loop {
        let at = from + rest.get(from..)?.find('"')?;
        if rest.get(at + 1..)?.starts_with('"') {
            from = at + 2;
            continue;
        }
        return line.get(..at + 2);
    }
}

/// Returns the site in a line.
fn site(line: &str) -> Option<String> {
    let mut row = Row::default();
    Lines::new(line).next(&mut row);
    Some(row.get(1).text.to_owned()).filter(|site| !site.is_empty())
}
