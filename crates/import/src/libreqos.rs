// SPDX-License-Identifier: Apache-2.0 OR MIT
//! LibreQoS: the circuits of `ShapedDevices.csv`, and the link of `lqos.conf`
//! (version 1.5 and later) or `ispConfig.py` (before).

use crate::{ImportError, Imported, head, quoted};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// The most circuits that fit into a policy of 200 classes: each circuit takes two, and the default
/// class one.
const MOST: usize = 99;

/// The part of the configuration that a policy can express.
#[derive(Debug, Default)]
struct Link {
    device: Option<String>,
    lan: Option<String>,
    up: Option<f64>,
    down: Option<f64>,
}

/// One circuit: all devices with the same id.
#[derive(Debug)]
struct Circuit {
    line: usize,
    name: String,
    addresses: Vec<String>,
    /// The least and greatest rates in Mbit/s, each as (down, up).
    least: (f64, f64),
    most: (f64, f64),
}

/// Converts the devices and the configuration to a policy.
pub fn import(devices: &str, configuration: &str) -> Result<Imported, ImportError> {
    let mut left_out = Vec::new();
    let link = configuration_of(configuration, &mut left_out);
    let circuits = circuits(devices, &mut left_out)?;
    let text = policy(&link, &circuits, &mut left_out);
    Ok(Imported {
        policy: format!("{}\n{text}", head("LibreQoS", &left_out)),
        left_out,
    })
}

/// Reads `lqos.conf`, which is TOML, or `ispConfig.py`, line by line.
fn configuration_of(text: &str, left_out: &mut Vec<String>) -> Link {
    let mut link = Link::default();
    // A simple ispConfig.py may also be valid TOML, but without sections.
    let sections = |table: &toml::Table| table.values().any(toml::Value::is_table);
    if let Some(table) = text.parse::<toml::Table>().ok().filter(sections) {
        for (section, values) in &table {
            let Some(values) = values.as_table() else {
                continue;
            };
            for (name, value) in values {
                let number = value
                    .as_float()
                    .or_else(|| value.as_integer().map(|n| n as f64));
                let word = value.as_str().map(str::to_owned);
                match (section.as_str(), name.as_str()) {
                    ("bridge" | "single_interface", "to_internet" | "interface") => {
                        link.device = word;
                    }
                    ("bridge", "to_network") => link.lan = word,
                    ("queues", "uplink_bandwidth_mbps") => link.up = number,
                    ("queues", "downlink_bandwidth_mbps") => link.down = number,
                    ("queues" | "bridge" | "single_interface", _) => {
                        left_out.push(format!("{section}.{name} = {}", shown(value)));
                    }
                    _ => {}
                }
            }
        }
        return link;
    }
    for (index, raw) in text.lines().enumerate() {
        let Some((name, value)) = raw.split_once('=') else {
            continue;
        };
        let value = value.split('#').next().unwrap_or_default().trim();
        let word = value.trim_matches(['"', '\'']).to_owned();
        match name.trim() {
            "upstreamBandwidthCapacityUploadMbps" => link.up = word.parse().ok(),
            "upstreamBandwidthCapacityDownloadMbps" => link.down = word.parse().ok(),
            // A is towards the clients, B towards the internet (ispConfig.example.py).
            "interfaceA" => link.lan = Some(word),
            "interfaceB" => link.device = Some(word),
            other if !other.starts_with('#') && !other.contains(' ') => {
                left_out.push(format!("ispConfig line {}: {other} = {value}", index + 1));
            }
            _ => {}
        }
    }
    link
}

/// Formats a plain value as it was written; other values are only mentioned.
fn shown(value: &toml::Value) -> String {
    match value {
        toml::Value::String(text) => format!("`{text}`"),
        toml::Value::Integer(number) => number.to_string(),
        toml::Value::Float(number) => number.to_string(),
        toml::Value::Boolean(flag) => flag.to_string(),
        _ => "...".to_owned(),
    }
}

fn circuits(text: &str, left_out: &mut Vec<String>) -> Result<Vec<Circuit>, ImportError> {
    let mut order: Vec<String> = Vec::new();
    let mut found: BTreeMap<String, Circuit> = BTreeMap::new();
    for (index, raw) in text.lines().enumerate() {
        let line = index + 1;
        let fields = fields(raw);
        let first = fields.first().map_or("", String::as_str).trim();
        if raw.trim().is_empty() || first.starts_with('#') || first.starts_with("Circuit ID") {
            continue;
        }
        if fields.len() < 12 {
            return Err(ImportError {
                line,
                what: format!("{} fields", fields.len()),
                hint: "ShapedDevices.csv has at least 12: Circuit ID to Upload Max Mbps",
            });
        }
        let rate = |at: usize| -> Result<f64, ImportError> {
            let number = fields[at].trim().parse::<f64>().ok();
            let number = number.filter(|rate| rate.is_finite() && *rate > 0.0);
            number.ok_or_else(|| ImportError {
                line,
                what: format!("`{}` is no rate", fields[at]),
                hint: "write Mbit/s as a number above 0",
            })
        };
        let circuit = Circuit {
            line,
            name: fields[1].trim().to_owned(),
            addresses: addresses(&fields[6]).chain(addresses(&fields[7])).collect(),
            least: (rate(8)?, rate(9)?),
            most: (rate(10)?, rate(11)?),
        };
        for (at, what) in [(4, "parent node"), (5, "MAC"), (13, "queue")] {
            let text = fields.get(at).map_or("", |field| field.trim());
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
    Ok(order.iter().filter_map(|id| found.remove(id)).collect())
}

fn addresses(field: &str) -> impl Iterator<Item = String> + '_ {
    let parts = field.split([',', ';']).map(str::trim);
    parts.filter(|part| !part.is_empty()).map(str::to_owned)
}

/// Splits a line of CSV into fields (RFC 4180, without line breaks in fields).
fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut quoted = false;
    for c in line.chars() {
        match c {
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            c => {
                if let Some(field) = fields.last_mut() {
                    field.push(c);
                }
            }
        }
    }
    fields
}

fn policy(link: &Link, circuits: &[Circuit], left_out: &mut Vec<String>) -> String {
    let or = |value: Option<f64>, what: &str, left_out: &mut Vec<String>| {
        value
            .filter(|rate| rate.is_finite() && *rate > 0.0)
            .unwrap_or_else(|| {
                left_out.push(format!(
                    "the {what} rate, which was not given: 1000 Mbit/s is written"
                ));
                1_000.0
            })
    };
    let up = or(link.up, "upstream", left_out);
    let down = or(link.down, "downstream", left_out);
    let device = link.device.clone().unwrap_or_else(|| {
        left_out
            .push("the device to the internet, which was not given: `wan` is written".to_owned());
        "wan".to_owned()
    });
    let mut text = format!(
        "[link]\ndevice = {}\nup = \"{}kbit\"\ndown = \"{}kbit\"\nlayer = \"ethernet\"\n",
        quoted(&device),
        kbit(up),
        kbit(down)
    );
    if let Some(lan) = &link.lan {
        let _ = writeln!(text, "lan = {}", quoted(lan));
    }
    text.push_str("\n[[class]]\nname = \"others\"\nrate = \"100kbit\"\ndefault = true\n");
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
        for (direction, least, most, scale, total) in [
            ("down", circuit.least.0, circuit.most.0, scales.0, down),
            ("up", circuit.least.1, circuit.most.1, scales.1, up),
        ] {
            let rate = kbit(least * scale).max(8);
            // A ceiling must not exceed the gate's rate.
            let ceiling = kbit(most.min(total * 0.95)).max(rate);
            let _ = write!(
                text,
                "\n[[class]]\nname = \"{name}\"\ndirection = \"{direction}\"\nrate = \
                 \"{rate}kbit\"\nceiling = \"{ceiling}kbit\"\n"
            );
        }
        let list: Vec<String> = circuit.addresses.iter().map(|one| quoted(one)).collect();
        let _ = write!(
            text,
            "\n[[rule]]\nclass = \"{name}\"\nlocal-address = [{}]\n",
            list.join(", ")
        );
    }
    text
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
    if own == "others" || own == "ack" || taken.contains(&own) {
        own = format!("{own}-{}", count + 1);
    }
    taken.insert(own.clone());
    own
}

#[cfg(test)]
mod tests {
    use super::*;

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
                "lan = \"eth1\"",
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
    fn what_is_wrong_is_said_with_its_line() {
        assert_eq!(import("\n1,2,3\n", "").unwrap_err().line, 2);
        let text = DEVICES.replace("105", "fast");
        assert_eq!(import(&text, "").unwrap_err().line, 5);
    }
}
