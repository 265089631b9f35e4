// SPDX-License-Identifier: Apache-2.0 OR MIT
//! LibreQoS: the circuits of `ShapedDevices.csv`, and the link of `lqos.conf`
//! (version 1.5 and later) or `ispConfig.py` (before).

use crate::{Imported, begun, codes, finished};
use std::collections::{BTreeMap, BTreeSet};
use toml::de::{DeTable, DeValue};
use weirgate_document::{Draft, Problem, Problems, SourceSpan, quoted};

/// The most circuits that fit into a policy of 200 classes: each circuit takes two, and the default
/// class one.
const MOST: usize = 99;

/// The part of the configuration that a policy can express, each with its place.
#[derive(Debug, Default)]
struct Link {
    device: Option<(String, SourceSpan)>,
    lan: Option<(String, SourceSpan)>,
    /// Whether it routes on one interface, with VLANs for the two directions.
    on_a_stick: bool,
    up: Option<(f64, SourceSpan)>,
    down: Option<(f64, SourceSpan)>,
}

/// One circuit: all devices with the same id.
#[derive(Debug)]
struct Circuit {
    line: usize,
    /// The place of its id.
    span: SourceSpan,
    name: String,
    addresses: Vec<(String, SourceSpan)>,
    /// The least and greatest rates in Mbit/s, each as (down, up).
    least: (f64, f64),
    most: (f64, f64),
    /// The places of the greatest rates.
    rates: (SourceSpan, SourceSpan),
}

/// Converts the devices and the configuration to a policy.
///
/// # Errors
///
/// Fails if a file has another format, or if a policy cannot have one of its values. All mistakes
/// are returned: those of the devices, and those of the configuration.
pub fn import(devices: &str, configuration: &str) -> Result<Imported, [Vec<Problem>; 2]> {
    let mut left_out = Vec::new();
    let problems = Problems::default();
    // Places in the configuration are counted as if it followed the devices.
    let base = devices.len() + 1;
    let link = configuration_of(configuration, base, &mut left_out, &problems);
    let circuits = circuits(devices, &mut left_out, &problems);
    let mut draft = begun();
    policy(&mut draft, &link, &circuits, &mut left_out);
    finished("LibreQoS", &draft, left_out, problems).map_err(|all| {
        let (first, mut second): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|one| one.span.start < base);
        for one in &mut second {
            one.span = one.span.start - base..one.span.end - base;
        }
        [first, second]
    })
}

/// Returns a rate in Mbit/s; reports what is none.
fn rate(text: &str, span: &SourceSpan, problems: &Problems) -> Option<f64> {
    let number = text.trim().parse::<f64>().ok();
    let number = number.filter(|rate| rate.is_finite() && *rate > 0.0);
    if number.is_none() {
        problems.error(
            codes::VALUE,
            span.clone(),
            format!("`{text}` is no rate"),
            "write Mbit/s as a number above 0",
        );
    }
    number
}

/// Reads `lqos.conf`, which is TOML, or `ispConfig.py`, line by line.
fn configuration_of(
    text: &str,
    base: usize,
    left_out: &mut Vec<String>,
    problems: &Problems,
) -> Link {
    let mut link = Link::default();
    // A simple ispConfig.py may also be valid TOML, but without sections.
    let is_section = |line: &str| line.starts_with('[') && line.trim_end().ends_with(']');
    if text.lines().any(is_section) {
        let (table, errors) = DeTable::parse_recoverable(text);
        for error in errors {
            let span = error.span().unwrap_or(0..0);
            let span = base + span.start..base + span.end;
            let right = "lqos.conf is TOML, such as: uplink_bandwidth_mbps = 500";
            problems.error(codes::FORM, span, error.message(), right);
        }
        for (section, values) in table.get_ref() {
            let Some(values) = values.get_ref().as_table() else {
                continue;
            };
            for (name, value) in values {
                let span = base + value.span().start..base + value.span().end;
                let value = value.get_ref();
                let word = || (shown(value), span.clone());
                let number =
                    || rate(&shown(value), &span, problems).map(|number| (number, span.clone()));
                match (section.get_ref().as_ref(), name.get_ref().as_ref()) {
                    ("bridge" | "single_interface", "to_internet" | "interface") => {
                        link.device = Some(word());
                    }
                    ("bridge", "to_network") => link.lan = Some(word()),
                    ("queues", "uplink_bandwidth_mbps") => link.up = number(),
                    ("queues", "downlink_bandwidth_mbps") => link.down = number(),
                    ("queues" | "bridge" | "single_interface", _) => {
                        let quote = if value.is_str() { "`" } else { "" };
                        left_out.push(format!("{section}.{name} = {quote}{}{quote}", shown(value)));
                    }
                    _ => {}
                }
            }
        }
        return link;
    }
    let mut begin = base;
    for (index, raw) in text.split_inclusive('\n').enumerate() {
        let at = begin;
        begin += raw.len();
        let Some((name, value)) = raw.split_once('=') else {
            continue;
        };
        let before = value.len() - value.trim_start().len();
        let value = value.split('#').next().unwrap_or_default().trim();
        let from = at + name.len() + 1 + before;
        let span = from..from + value.len();
        let word = || (value.trim_matches(['"', '\'']).to_owned(), span.clone());
        let number = || rate(value, &span, problems).map(|number| (number, span.clone()));
        match name.trim() {
            "upstreamBandwidthCapacityUploadMbps" => link.up = number(),
            "upstreamBandwidthCapacityDownloadMbps" => link.down = number(),
            // A is towards the clients, B towards the internet (ispConfig.example.py).
            "interfaceA" => link.lan = Some(word()),
            "interfaceB" => link.device = Some(word()),
            "OnAStick" => link.on_a_stick = value == "True",
            other if !other.starts_with('#') && !other.contains(' ') => {
                left_out.push(format!("ispConfig line {}: {other} = {value}", index + 1));
            }
            _ => {}
        }
    }
    link
}

/// Formats a plain value as it was written; other values are only mentioned.
fn shown(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => text.to_string(),
        DeValue::Integer(number) => number.to_string(),
        DeValue::Float(number) => number.to_string(),
        DeValue::Boolean(flag) => flag.to_string(),
        _ => "...".to_owned(),
    }
}

fn circuits(text: &str, left_out: &mut Vec<String>, problems: &Problems) -> Vec<Circuit> {
    let mut order: Vec<String> = Vec::new();
    let mut found: BTreeMap<String, Circuit> = BTreeMap::new();
    let mut begin = 0;
    for (index, raw) in text.split_inclusive('\n').enumerate() {
        let line = index + 1;
        let at = begin;
        begin += raw.len();
        let raw = raw.trim_end_matches(['\r', '\n']);
        let fields = fields(raw, at);
        let first = fields.first().map_or("", |field| field.0.trim());
        if raw.trim().is_empty() || first.starts_with('#') || first.starts_with("Circuit ID") {
            continue;
        }
        if fields.len() < 12 {
            problems.error(
                codes::FORM,
                at..at + raw.len(),
                format!("{} fields", fields.len()),
                "ShapedDevices.csv has at least 12: Circuit ID to Upload Max Mbps",
            );
            continue;
        }
        let rate = |at: usize| rate(&fields[at].0, &fields[at].1, problems).unwrap_or(1.0);
        let circuit = Circuit {
            line,
            span: fields[0].1.clone(),
            name: fields[1].0.trim().to_owned(),
            addresses: [6, 7]
                .into_iter()
                .flat_map(|at| addresses(&fields[at]))
                .collect(),
            least: (rate(8), rate(9)),
            most: (rate(10), rate(11)),
            rates: (fields[10].1.clone(), fields[11].1.clone()),
        };
        for (at, what) in [(4, "parent node"), (5, "MAC"), (13, "queue")] {
            let text = fields.get(at).map_or("", |field| field.0.trim());
            if !text.is_empty() {
                left_out.push(format!("ShapedDevices line {line}: {what} `{text}`"));
            }
        }
        if let Some(known) = found.get_mut(first) {
            known.addresses.extend(circuit.addresses);
        } else {
            order.push(first.to_owned());
            found.insert(first.to_owned(), circuit);
        }
    }
    order.iter().filter_map(|id| found.remove(id)).collect()
}

fn addresses(field: &(String, SourceSpan)) -> impl Iterator<Item = (String, SourceSpan)> + '_ {
    let parts = field.0.split([',', ';']).map(str::trim);
    parts
        .filter(|part| !part.is_empty())
        .map(|part| (part.to_owned(), field.1.clone()))
}

/// Splits a line of CSV that begins at an offset into fields with their places (RFC 4180, without
/// line breaks in fields).
fn fields(line: &str, begin: usize) -> Vec<(String, SourceSpan)> {
    let mut fields = vec![(String::new(), begin..begin)];
    let mut quoted = false;
    for (at, c) in line.char_indices() {
        let after = begin + at + c.len_utf8();
        if c == ',' && !quoted {
            fields.push((String::new(), after..after));
        } else if let Some((text, span)) = fields.last_mut() {
            span.end = after;
            if c == '"' {
                quoted = !quoted;
            } else {
                text.push(c);
            }
        }
    }
    fields
}

fn policy(draft: &mut Draft, link: &Link, circuits: &[Circuit], left_out: &mut Vec<String>) {
    let or = |value: &Option<(f64, SourceSpan)>, what: &str, left_out: &mut Vec<String>| {
        value.clone().unwrap_or_else(|| {
            left_out.push(format!(
                "the {what} rate, which was not given: 1000 Mbit/s is written"
            ));
            (1_000.0, 0..0)
        })
    };
    let (up, up_span) = or(&link.up, "upstream", left_out);
    let (down, down_span) = or(&link.down, "downstream", left_out);
    let (device, span) = link.device.clone().unwrap_or_else(|| {
        left_out
            .push("the device to the internet, which was not given: `wan` is written".to_owned());
        ("wan".to_owned(), 0..0)
    });
    draft.push(&format!("[link]\ndevice = {}\n", quoted(&device)), &span);
    draft.push(&format!("up = \"{}kbit\"\n", kbit(up)), &up_span);
    draft.push(&format!("down = \"{}kbit\"\n", kbit(down)), &down_span);
    draft.push("layer = \"ethernet\"\n", &(0..0));
    if let Some((lan, span)) = &link.lan {
        draft.push(&format!("lan = {}\n", quoted(lan)), span);
        // LibreQoS is between two ports of a bridge, unless it routes on one interface.
        if !link.on_a_stick {
            draft.push("bridge = true\n", span);
        }
    }
    draft.push(
        "\n[[class]]\nname = \"others\"\nrate = \"100kbit\"\ndefault = true\n",
        &up_span,
    );
    // The guarantees of all circuits may exceed the link; then each is scaled down.
    let sum = |part: fn(&Circuit) -> f64| circuits.iter().map(part).sum::<f64>().max(0.001);
    let scale = |total: f64, sum: f64| (total * 0.95 / sum).min(1.0);
    let scales = (
        scale(down, sum(|one| one.least.0)),
        scale(up, sum(|one| one.least.1)),
    );
    if scales.0 < 1.0 || scales.1 < 1.0 {
        left_out.push("part of the least rates: together they are more than the link".to_owned());
    }
    let mut names = BTreeSet::new();
    for (count, circuit) in circuits.iter().enumerate() {
        if count >= MOST {
            left_out.push(format!(
                "{} circuits from line {} on: a policy has at most {MOST}",
                circuits.len() - MOST,
                circuit.line
            ));
            break;
        }
        if circuit.addresses.is_empty() {
            left_out.push(format!(
                "line {}: {} has no address",
                circuit.line, circuit.name
            ));
            continue;
        }
        let name = class_name(&circuit.name, count, &mut names);
        let (down_span, up_span) = &circuit.rates;
        for (direction, least, most, scale, total, span) in [
            (
                "down",
                circuit.least.0,
                circuit.most.0,
                scales.0,
                down,
                down_span,
            ),
            ("up", circuit.least.1, circuit.most.1, scales.1, up, up_span),
        ] {
            let rate = kbit(least * scale).max(8);
            // A ceiling must not exceed the gate's rate.
            let ceiling = kbit(most.min(total * 0.95)).max(rate);
            let class = format!(
                "\n[[class]]\nname = \"{name}\"\ndirection = \"{direction}\"\nrate = \
                 \"{rate}kbit\"\n"
            );
            draft.push(&class, &circuit.span);
            draft.push(&format!("ceiling = \"{ceiling}kbit\"\n"), span);
        }
        let rule = format!("\n[[rule]]\nclass = \"{name}\"\nlocal-address = ");
        draft.push(&rule, &circuit.span);
        let mut before = "[";
        for (address, span) in &circuit.addresses {
            draft.push(&format!("{before}{}", quoted(address)), span);
            before = ", ";
        }
        draft.push("]\n", &circuit.span);
    }
}

fn kbit(mbit: f64) -> u64 {
    (mbit * 1_000.0).round() as u64
}

/// Converts a circuit's name to a unique class name: lower-case letters, digits and hyphens, at
/// most 32.
fn class_name(name: &str, count: usize, taken: &mut BTreeSet<String>) -> String {
    let words = name.split(|c: char| !c.is_ascii_alphanumeric());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let mut own: String = words.join("-").chars().take(20).collect();
    own.make_ascii_lowercase();
    own.truncate(own.trim_end_matches('-').len());
    if !own.starts_with(|c: char| c.is_ascii_lowercase()) {
        own = format!("c-{own}");
    }
    // The name with a number may be another circuit's own name.
    while own == "others" || own == "ack" || taken.contains(&own) {
        own = format!("{own}-{}", count + 1);
    }
    taken.insert(own.clone());
    own
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write as _;

    const DEVICES: &str = "\
#LibreQoS
Circuit ID,Circuit Name,Device ID,Device Name,Parent Node,MAC,IPv4,IPv6,Download Min Mbps,Upload Min Mbps,Download Max Mbps,Upload Max Mbps,Comment
1,\"968 Circle St., Gurnee, IL\",1,Device 1,AP_A,,\"100.64.0.1, 100.64.0.14\",fdd7:b724:0:100::/56,1,1,155,20,
1,\"968 Circle St., Gurnee, IL\",2,Device 2,AP_A,,100.64.0.2,,1,1,155,20,
2,31 Marconi Street,3,Device 3,,,100.64.0.3,,1,1,105,18,note
3,31 Marconi Street,4,Device 4,,,100.64.0.4,,1,1,105,18,
";
    const CONF: &str = "\
[bridge]
to_internet = \"eth0\"
to_network = \"eth1\"
[queues]
default_sqm = \"cake diffserv4\"
uplink_bandwidth_mbps = 500
downlink_bandwidth_mbps = 1000
";

    #[test]
    fn circuits_become_classes() {
        let old = "# a comment\nupstreamBandwidthCapacityDownloadMbps = 1000\n\
                   upstreamBandwidthCapacityUploadMbps = 500 # all\ninterfaceA = 'eth1'\n\
                   interfaceB = 'eth0'\nsqm = 'cake diffserv4'\n";
        for (conf, left) in [(CONF, "default_sqm"), (old, "sqm = 'cake")] {
            let imported = import(DEVICES, conf).unwrap();
            let (policy, problems) = weirgate_policy::parse(&imported.policy);
            assert!(policy.is_some(), "{problems:?}\n{}", imported.policy);
            for part in [
                "device = \"eth0\"",
                "lan = \"eth1\"\nbridge = true\n",
                "up = \"500000kbit\"",
                "name = \"c-968-circle-st-gurnee\"",
                "\"100.64.0.14\", \"fdd7:b724:0:100::/56\", \"100.64.0.2\"",
                "31-marconi-street-3",
                "ceiling = \"155000kbit\"",
            ] {
                assert!(
                    imported.policy.contains(part),
                    "{part} in {}",
                    imported.policy
                );
            }
            let all = imported.left_out.join("\n");
            for part in [left, "line 3: parent node `AP_A`"] {
                assert!(all.contains(part), "{part} in {all}");
            }
        }
    }

    #[test]
    fn more_circuits_than_classes_are_named() {
        let mut text = String::new();
        for id in 0..300 {
            let _ = writeln!(
                text,
                "{id},c{id},,,,,10.0.{}.{},,9,9,9,9",
                id / 250,
                id % 250 + 1
            );
        }
        let imported = import(&text, CONF).unwrap();
        let (policy, problems) = weirgate_policy::parse(&imported.policy);
        assert!(policy.is_some(), "{problems:?}");
        let all = imported.left_out.join("\n");
        assert!(all.contains("201 circuits from line 100 on"), "{all}");
        assert!(all.contains("part of the least rates"), "{all}");
    }

    #[test]
    fn every_mistake_of_both_files_is_reported_in_one_run() {
        let devices = "\n1,2,3\n1,a,,,,,10.0.0.300,,fast,1,2,0\n2,b,,,,,10.0.0.2,,1,1,2,2\n";
        let conf = "[bridge]\nto_internet = \"a/b\"\n[queues]\nuplink_bandwidth_mbps = \"x\"\n";
        let [first, second] = import(devices, conf).unwrap_err();
        let places = |text: &str, all: &[Problem]| -> Vec<(usize, usize)> {
            all.iter().map(|one| one.line_column(text)).collect()
        };
        let expected = [(2, 1), (3, 9), (3, 21), (3, 30)];
        assert_eq!(places(devices, &first), expected, "{first:?}");
        assert_eq!(places(conf, &second), [(2, 15), (4, 25)], "{second:?}");
        let old = "interfaceB = 'a b'\nupstreamBandwidthCapacityUploadMbps = many # x\n";
        let [_, second] = import(devices, old).unwrap_err();
        assert_eq!(places(old, &second), [(1, 14), (2, 39)], "{second:?}");
        // A broken lqos.conf is no ispConfig.py.
        let [first, second] = import(DEVICES, "[queues]\nx = [\n").unwrap_err();
        assert!(first.is_empty() && !second.is_empty(), "{first:?}");
    }

    #[test]
    fn circuits_of_one_name_get_names_of_their_own() {
        let row = |id: u32, name: &str| format!("{id},{name},,,,,10.0.0.{id},,1,1,2,2\n");
        let text = [row(1, "a-3"), row(2, "a"), row(3, "a"), row(4, "A 3")].concat();
        import(&text, CONF).unwrap();
    }
}
