// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compares overrides with changing lines one after another, as LibreQoS does.

use proptest::prelude::*;
use std::fmt::Write as _;
use weirgate_circuits::{File, List, read};

/// A line of `ShapedDevices.csv`.
#[derive(Debug, Clone)]
struct Line {
    circuit: u8,
    device: u8,
    parent: u8,
    /// Minimum down and up, maximum down and up.
    rates: [u8; 4],
}

/// An adjustment; the bits of `has` say which of the first four rates it has.
#[derive(Debug, Clone)]
enum Change {
    Circuit(u8, u8, [u8; 4]),
    Device(u8, u8, [u8; 4]),
    RemoveCircuit(u8),
    RemoveDevice(u8),
    Reparent(u8, u8),
}

const FIELDS: [&str; 4] = [
    "min_download_bandwidth",
    "min_upload_bandwidth",
    "max_download_bandwidth",
    "max_upload_bandwidth",
];

impl Change {
    /// Returns the subject that it has in common with other changes of the same.
    fn subject(&self) -> (u8, u8) {
        match *self {
            Self::Circuit(id, ..) => (0, id),
            Self::Device(id, ..) => (1, id),
            Self::RemoveCircuit(id) => (2, id),
            Self::RemoveDevice(id) => (3, id),
            Self::Reparent(id, _) => (4, id),
        }
    }

    fn json(&self) -> String {
        let speed = |kind: &str, id: String, has: u8, rates: &[u8; 4]| {
            let mut text = format!("{{\"type\":\"{kind}_adjust_speed\",\"{kind}_id\":\"{id}\"");
            for (number, (field, rate)) in FIELDS.iter().zip(rates).enumerate() {
                match has >> number & 1 {
                    0 => write!(text, ",\"{field}\":null").expect("a text"),
                    _ => write!(text, ",\"{field}\":{rate}").expect("a text"),
                }
            }
            text + "}"
        };
        match self {
            Self::Circuit(id, has, rates) => speed("circuit", format!("c{id}"), *has, rates),
            Self::Device(id, has, rates) => speed("device", format!("d{id}"), *has, rates),
            Self::RemoveCircuit(id) => {
                format!("{{\"type\":\"remove_circuit\",\"circuit_id\":\"c{id}\"}}")
            }
            Self::RemoveDevice(id) => {
                format!("{{\"type\":\"remove_device\",\"device_id\":\"d{id}\"}}")
            }
            Self::Reparent(id, site) => format!(
                "{{\"type\":\"reparent_circuit\",\"circuit_id\":\"c{id}\",\"parent_node\":\"s{site}\"}}"
            ),
        }
    }

    fn apply(&self, lines: &mut Vec<Line>) {
        let put = |line: &mut Line, has: u8, rates: &[u8; 4]| {
            for number in (0..4).filter(|number| has >> number & 1 == 1) {
                line.rates[number] = rates[number];
            }
        };
        for line in lines.iter_mut() {
            match self {
                Self::Circuit(id, has, rates) if line.circuit == *id => put(line, *has, rates),
                Self::Device(id, has, rates) if line.device == *id => put(line, *has, rates),
                Self::Reparent(id, site) if line.circuit == *id => line.parent = *site,
                _ => {}
            }
        }
        match self {
            Self::RemoveCircuit(id) => lines.retain(|line| line.circuit != *id),
            Self::RemoveDevice(id) => lines.retain(|line| line.device != *id),
            _ => {}
        }
    }
}

fn csv(lines: &[Line]) -> String {
    let mut text = "Circuit ID,Device ID,Parent Node,IPv4,Download Min Mbps,Upload Min Mbps,\
                    Download Max Mbps,Upload Max Mbps\n"
        .to_owned();
    for line in lines {
        let [a, b, c, d] = line.rates;
        let (circuit, device, parent) = (line.circuit, line.device, line.parent);
        writeln!(
            text,
            "c{circuit},d{device},s{parent},10.0.0.{device},{a},{b},{c},{d}"
        )
        .expect("a text");
    }
    text
}

fn devices(lines: &[Line]) -> String {
    let all: Vec<String> = lines
        .iter()
        .map(|line| {
            let [a, b, c, d] = line.rates;
            format!(
                "{{\"circuit_id\":\"c{}\",\"circuit_name\":\"\",\"device_id\":\"d{}\",\
                 \"device_name\":\"\",\"parent_node\":\"s{}\",\"mac\":\"\",\
                 \"ipv4\":[[\"10.0.0.{}\",32]],\"ipv6\":[],\"download_min_mbps\":{a},\
                 \"upload_min_mbps\":{b},\"download_max_mbps\":{c},\"upload_max_mbps\":{d},\
                 \"comment\":\"\"}}",
                line.circuit, line.device, line.parent, line.device
            )
        })
        .collect();
    all.join(",")
}

fn list(texts: &[&str]) -> Option<List> {
    let network = "{\"s0\":{\"virtual\":true},\"s1\":{\"virtual\":true}}";
    let texts = [network].into_iter().chain(texts.iter().copied());
    let files: Vec<File<'_>> = texts.map(|text| File { name: "a", text }).collect();
    read(&files).list
}

/// Generates devices of circuits that often have only one.
fn line(device: u8) -> impl Strategy<Value = Line> {
    let rates = [0..2_u8, 0..2, 2..5, 2..5];
    (0..8_u8, 0..2_u8, rates).prop_map(move |(other, parent, rates)| Line {
        circuit: if other == 0 { 1 } else { device },
        device,
        parent,
        rates,
    })
}

fn change() -> impl Strategy<Value = Change> {
    let rates = || [0..2_u8, 0..2, 2..5, 2..5];
    prop_oneof![
        (0..6_u8, 0..16_u8, rates()).prop_map(|(id, has, rates)| Change::Circuit(id, has, rates)),
        (0..6_u8, 0..16_u8, rates()).prop_map(|(id, has, rates)| Change::Device(id, has, rates)),
        (0..9_u8).prop_map(Change::RemoveCircuit),
        (0..9_u8).prop_map(Change::RemoveDevice),
        (0..6_u8, 0..2_u8).prop_map(|(id, site)| Change::Reparent(id, site)),
    ]
}

proptest! {
    #[test]
    fn a_list_is_what_changing_its_lines_makes(
        lines in [line(0), line(1), line(2), line(3), line(4)],
        others in [line(1), line(3), line(5)],
        many in 0..4_usize,
        changes in prop::collection::vec(change(), 0..6),
    ) {
        let others = &others[..many.min(3)];
        let mut seen = std::collections::BTreeSet::new();
        let changes: Vec<Change> = changes
            .into_iter()
            .filter(|change| seen.insert(change.subject()))
            .collect();
        let mut expected = lines.to_vec();
        for other in others {
            match expected.iter_mut().find(|line| line.device == other.device) {
                Some(line) => *line = other.clone(),
                None => expected.push(other.clone()),
            }
        }
        for change in &changes {
            change.apply(&mut expected);
        }
        let adjustments: Vec<String> = changes.iter().map(Change::json).collect();
        let overrides = format!(
            "{{\"persistent_devices\":[{}],\"circuit_adjustments\":[{}],\
             \"network_adjustments\":[],\"rtt_excluded_circuits\":[],\"uisp\":null}}",
            devices(others),
            adjustments.join(",")
        );
        prop_assert_eq!(list(&[&overrides, &csv(&lines)]), list(&[&csv(&expected)]));
    }
}
