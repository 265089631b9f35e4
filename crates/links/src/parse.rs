// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses the text of a file of links to checked [`Links`], and reports all problems in one run.

use crate::codes;
use crate::health::Timing;
use crate::model::{Link, Links, Rule, Use};
use std::collections::BTreeSet;
use std::net::IpAddr;
use weirgate_document::{Kind, Problem, Problems, Reader, Value, did_you_mean};
use weirgate_policy::{Ports, Prefix, Protocol};
use weirgate_state::{DeviceName, MOST_LINKS};
use weirgate_units::{Inserted as _, Span};

/// The only version of the format so far.
const VERSION: i64 = 1;
/// The default bits of marks, which a policy without `[marks]` does not use.
const MARKS: u32 = 0x0000_0f00;
/// The maximum number of rules, and of hosts that are probed over one link.
const MOST_RULES: usize = 64;
const MOST_PROBES: usize = 4;
/// The maximum number of protocols, and of port ranges, in one rule.
const MOST_ELEMENTS: usize = 16;
/// The maximum number of pairs of both; each pair is a rule of nftables.
const MOST_PAIRS: usize = 32;
/// The limits of the health check's times.
const FASTEST: Span = Span::from_millis(100);
const SLOWEST: Span = Span::from_secs(60);
/// Three rounds, and time for the reply to the last one.
const ROUNDS: u64 = 4;
const LEAST_SILENCE: Span = Span::from_millis(100 * ROUNDS);
const LONGEST: Span = Span::from_secs(3_600);

/// Parses a file of links. Returns the links if no problem is an error.
#[must_use]
pub fn parse(source: &str) -> (Option<Links>, Vec<Problem>) {
    let problems = Problems::default();
    let links = weirgate_document::parse(source, &problems, |mut root| read(&mut root));
    let links = links.filter(|_| !problems.has_errors());
    (links, problems.into_sorted())
}

fn read(root: &mut Reader<'_, '_>) -> Option<Links> {
    version(root);
    let usage = usage(root);
    let marks = marks(root);
    let timing = timing(root);
    let links = links(root);
    let rules = rules(root, &links);
    Some(Links {
        usage: usage?,
        marks: marks?,
        timing: timing?,
        links,
        rules,
    })
}

fn version(root: &mut Reader<'_, '_>) {
    let hint = "write `version = 1`";
    let Some(version) = root.integer("version", 0..=i64::MAX) else {
        if !root.has("version") {
            root.missing::<()>("version", hint);
        }
        return;
    };
    if version.value != VERSION {
        let message = format!(
            "this weirgate does not read version {} of the file",
            version.value
        );
        let problems = root.problems();
        problems.error(codes::VERSION, version.span, message, hint);
    }
}

fn usage(root: &mut Reader<'_, '_>) -> Option<Use> {
    if !root.has("use") {
        return Some(Use::default());
    }
    let word = root.text("use")?;
    match word.value.as_str() {
        "failover" => Some(Use::Failover),
        "balance" => Some(Use::Balance),
        other => {
            let message = format!("`{other}` is not a way to use several links");
            let hint = "write `use = \"failover\"` or `use = \"balance\"`";
            root.problems().error(codes::WORD, word.span, message, hint);
            None
        }
    }
}

fn marks(root: &mut Reader<'_, '_>) -> Option<u32> {
    if !root.has("marks") {
        return Some(MARKS);
    }
    let text = root.text("marks")?;
    let digits = text.value.strip_prefix("0x");
    let mask = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
    // Numbers from 1 to 8 need four bits.
    let fits = |mask: &u32| *mask != 0 && mask >> mask.trailing_zeros() == 0xf;
    let fitting = mask.filter(fits);
    if fitting.is_none() {
        let message = format!("`{}` is not four contiguous bits", text.value);
        let hint = "write a mask such as `0x00000f00`";
        root.problems()
            .error(codes::MARKS, text.span, message, hint);
    }
    fitting
}

fn timing(root: &mut Reader<'_, '_>) -> Option<Timing> {
    let mut timing = Timing::default();
    if !root.has("health") {
        return Some(timing);
    }
    let mut table = root.table("health")?;
    let limits = [
        ("every", &mut timing.every, FASTEST, SLOWEST),
        ("silence", &mut timing.silence, LEAST_SILENCE, LONGEST),
        ("steady", &mut timing.steady, FASTEST, LONGEST),
    ];
    let mut in_range = true;
    for (key, member, least, most) in limits {
        let Some(span) = table.parsed::<Span>(key) else {
            continue;
        };
        if span.value < least || span.value > most {
            let hint = format!("write a time from {least} to {most}");
            let message = format!("`{key}` is out of range");
            let problems = table.problems();
            problems.error(codes::TIMING, span.span, message, hint);
            in_range = false;
        }
        *member = span.value;
    }
    // A time out of range would make this advice contradict the range.
    let rounds = Span::from_nanos(timing.every.as_nanos().saturating_mul(ROUNDS));
    if in_range && timing.silence < rounds {
        let stated = if table.has("silence") {
            ""
        } else {
            " by default"
        };
        let message = format!(
            "`silence` is {}{stated}, shorter than four times `every`",
            timing.silence
        );
        let hint = format!("write `silence = \"{rounds}\"` or more");
        let span = table.span_of("silence");
        table.problems().error(codes::TIMING, span, message, hint);
    }
    Some(timing)
}

fn links(root: &mut Reader<'_, '_>) -> Vec<Link> {
    let (tables, excess) = root.tables_up_to("link", MOST_LINKS);
    if let Some(span) = excess {
        let message = format!("there are more than {MOST_LINKS} links");
        let hint = "take one away";
        root.problems().error(codes::COUNT, span, message, hint);
    }
    if tables.is_empty() {
        let hint = "add a table `[[link]]` for each link, the most preferred first";
        root.missing::<()>("link", hint);
    }
    let (mut devices, mut names) = (BTreeSet::new(), BTreeSet::new());
    let mut links = Vec::new();
    for mut table in tables {
        links.extend(link(&mut table, &mut devices, &mut names));
    }
    links
}

fn link(
    table: &mut Reader<'_, '_>,
    devices: &mut BTreeSet<DeviceName>,
    names: &mut BTreeSet<String>,
) -> Option<Link> {
    let device = table.text("device").or_else(|| {
        let hint = "name the device through which packets leave, such as `device = \"wan0\"`";
        (!table.has("device")).then(|| table.missing::<()>("device", hint));
        None
    });
    let name = table.text("name");
    let gateways = addresses(table, "gateway", 2);
    let weight = table.integer("weight", 1..=100);
    let probe = addresses(table, "probe", MOST_PROBES);
    let versions: BTreeSet<bool> = gateways.iter().map(|one| one.value.is_ipv4()).inserted();
    if let (true, Some(second)) = (versions.len() < gateways.len(), gateways.get(1)) {
        let message = "two next hops are of one IP version";
        let hint = "write one address of IPv4, one of IPv6, or one of each";
        let problems = table.problems();
        problems.error(codes::ADDRESS, second.span.clone(), message, hint);
    }
    let device = device?;
    let Some(known) = DeviceName::new(device.value.as_str()) else {
        let message = format!("`{}` is not a device name", device.value);
        let hint = "write 1 to 15 bytes without spaces, `/` and `:`";
        let problems = table.problems();
        problems.error(codes::DEVICE, device.span, message, hint);
        return None;
    };
    let title = name.as_ref().map_or(known.as_str(), |name| &name.value);
    let span = name.as_ref().unwrap_or(&device).span.clone();
    if !devices.insert(known.clone()) {
        let message = format!("`{known}` is the device of two links");
        let hint = "write each link once";
        let problems = table.problems();
        problems.error(codes::DEVICE, device.span, message, hint);
    } else if title.is_empty() || !names.insert(title.to_owned()) {
        let message = format!("`{title}` cannot be the name of this link");
        let hint = "give each link a name of its own";
        table.problems().error(codes::DEVICE, span, message, hint);
    }
    Some(Link {
        name: title.to_owned(),
        device: known,
        gateways: gateways.into_iter().map(|one| one.value).collect(),
        weight: weight.map_or(1, |weight| weight.value as u32),
        probe: probe.into_iter().map(|one| one.value).collect(),
    })
}

/// Reads addresses of single hosts, at most `most`.
fn addresses(table: &mut Reader<'_, '_>, key: &'static str, most: usize) -> Vec<Value<IpAddr>> {
    let found = table.parsed_list::<IpAddr>(key).unwrap_or_default();
    let wrong = |one: &&Value<IpAddr>| one.value.is_unspecified() || one.value.is_multicast();
    let report = |one: &Value<IpAddr>, message: String, hint: String| {
        let problems = table.problems();
        problems.error(codes::ADDRESS, one.span.clone(), message, hint);
    };
    for one in found.iter().filter(wrong) {
        let message = format!("`{key}` cannot be {}", one.value);
        report(one, message, "write the address of one host".to_owned());
    }
    if let Some(one) = found.get(most) {
        let message = format!("`{key}` has {} addresses", found.len());
        report(one, message, format!("write at most {most}"));
    }
    found
}

fn rules(root: &mut Reader<'_, '_>, links: &[Link]) -> Vec<Rule> {
    let (tables, excess) = root.tables_up_to("rule", MOST_RULES);
    if let Some(span) = excess {
        let message = format!("there are more than {MOST_RULES} rules");
        let hint = "merge networks";
        root.problems().error(codes::COUNT, span, message, hint);
    }
    let mut tables = tables;
    tables.iter_mut().map(|table| rule(table, links)).collect()
}

fn rule(table: &mut Reader<'_, '_>, links: &[Link]) -> Rule {
    let from = prefix(table, "from");
    let to = prefix(table, "to");
    if let (Some(source), Some(destination)) = (from, to)
        && source.is_v4() != destination.is_v4()
    {
        let message = "`from` and `to` are of different IP versions";
        let hint = "write a rule for each version";
        let span = table.span_of("to");
        table.problems().error(codes::ADDRESS, span, message, hint);
    }
    let (protocols, to_ports) = transport(table);
    if let Some(net) = from.or(to) {
        let other = if net.is_v4() {
            Protocol::ICMPV6
        } else {
            Protocol::ICMP
        };
        if protocols[..] == [other] {
            let message = format!("{other} is not of the rule's IP version");
            let hint = "write `icmp` with addresses of IPv4, `icmpv6` with those of IPv6";
            let span = table.span_of("protocol");
            table.problems().error(codes::PROTOCOL, span, message, hint);
        }
    }
    let is_list = table.kind("use") == Some(Kind::List);
    let names = table.text_list("use").unwrap_or_default();
    let is_empty = is_list && names.is_empty();
    let hint = "name the links, the most preferred first, such as `use = [\"lte\"]`";
    if !table.has("use") {
        table.missing::<()>("use", hint);
    } else if is_empty {
        let span = table.span_of("use");
        let message = "`use` names no link";
        table.problems().error(codes::UNKNOWN, span, message, hint);
    }
    let mut numbers = Vec::new();
    for name in names {
        let number = links.iter().position(|link| link.name == name.value);
        if number.is_none() {
            let known = links.iter().map(|link| link.name.as_str());
            let message = format!("there is no link `{}`", name.value);
            let hint = did_you_mean(&name.value, known, || {
                "name one of the links of this file".to_owned()
            });
            table
                .problems()
                .error(codes::UNKNOWN, name.span, message, hint);
        }
        numbers.extend(number);
    }
    Rule {
        from,
        to,
        protocols,
        to_ports,
        links: numbers,
    }
}

/// Reads protocols and destination ports of a rule. Ports without a protocol are those of TCP and
/// UDP.
fn transport(table: &mut Reader<'_, '_>) -> (Vec<Protocol>, Vec<Ports>) {
    let protocols = elements(table, "protocol", codes::PROTOCOL, Protocol::read);
    let ports = elements(table, "to-port", codes::PORT, Ports::read);
    let ports: Vec<Ports> = ports.into_iter().map(|one| one.value).collect();
    let without = protocols.iter().find(|one| !one.value.has_ports());
    if let (Some(one), false) = (without, ports.is_empty()) {
        let message = format!("{} has no ports", one.value);
        let hint = "leave `to-port` out, or write a rule for each";
        let problems = table.problems();
        problems.error(codes::PROTOCOL, one.span.clone(), message, hint);
    }
    let mut protocols: Vec<Protocol> = protocols.into_iter().map(|one| one.value).collect();
    if protocols.is_empty() && !ports.is_empty() {
        protocols = vec![Protocol::TCP, Protocol::UDP];
    }
    if protocols.len() * ports.len() > MOST_PAIRS {
        let message = format!("protocols and ports make more than {MOST_PAIRS} pairs");
        let hint = "divide it into several rules";
        let span = table.span_of("to-port");
        table.problems().error(codes::COUNT, span, message, hint);
    }
    (protocols, ports)
}

/// Reads a list of words, with at most [`MOST_ELEMENTS`] elements.
fn elements<T>(
    table: &mut Reader<'_, '_>,
    key: &'static str,
    code: &'static str,
    read: impl Fn(&str) -> Result<T, (String, String)>,
) -> Vec<Value<T>> {
    let words = table.text_list(key).unwrap_or_default();
    if let Some(one) = words.get(MOST_ELEMENTS) {
        let message = format!("`{key}` has more than {MOST_ELEMENTS} elements");
        let hint = "divide it into several rules";
        let problems = table.problems();
        problems.error(codes::COUNT, one.span.clone(), message, hint);
    }
    let mut found = Vec::new();
    for word in words {
        match read(&word.value) {
            Ok(value) => found.push(word.map(|_| value)),
            Err((message, hint)) => table.problems().error(code, word.span, message, hint),
        }
    }
    found
}

fn prefix(table: &mut Reader<'_, '_>, key: &'static str) -> Option<Prefix> {
    let text = table.text(key)?;
    match Prefix::of_text(&text.value) {
        Ok(prefix) => Some(prefix),
        Err((message, hint)) => {
            let problems = table.problems();
            problems.error(codes::ADDRESS, text.span, message, hint);
            None
        }
    }
}
