// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Traffic conditioners: they give packets a colour where they enter or leave a device, and act on
//! each colour as configured.

use super::program::{Clause, HookProgram, ProgramFilter, ProgramRow, egress, ingress};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use weirgate_units::{Dscp, Handle, Rate, Size, Span};

/// A program at a device's `clsact` qdisc, for arriving or for departing packets
/// (`bpf/inbound/condition.bpf.c`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Conditioning {
    /// The conditioners; the first one that matches a packet conditions it.
    pub conditioners: Vec<Conditioner>,
}

/// One conditioner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conditioner {
    /// Its name, under which its packets are counted.
    pub name: String,
    /// The classes that it matches; empty matches all.
    pub classes: Vec<Handle>,
    /// The source networks that it matches; empty matches all.
    pub source: Vec<(IpAddr, u8)>,
    /// The destination networks that it matches; empty matches all.
    pub destination: Vec<(IpAddr, u8)>,
    /// The protocols that it matches, in ascending order; empty matches all.
    #[serde(default)]
    pub protocols: Vec<u8>,
    /// The source ports from..=to that it matches; empty matches all.
    #[serde(default)]
    pub source_ports: Vec<(u16, u16)>,
    /// The destination ports from..=to that it matches; empty matches all.
    #[serde(default)]
    pub destination_ports: Vec<(u16, u16)>,
    /// The code points that it matches, one bit for each value.
    pub codes: u64,
    /// The meter; `None` makes every packet green.
    pub meter: Option<ColourMeter>,
    /// The minimum policed unit in IP bytes: a smaller packet is measured as this size (RFC 2215
    /// section 3.6). 0 measures every packet as it is.
    #[serde(default)]
    pub smallest: u32,
    /// Whether it is colour-aware: the colours of arriving code points count.
    pub aware: bool,
    /// The code points that mean yellow and those that mean red, one bit for each; others mean
    /// green.
    pub brings: [u64; 2],
    /// The actions for green, yellow and red packets.
    pub actions: [ColourAction; 3],
}

/// A meter; rates and sizes are in bytes of IP packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ColourMeter {
    /// One rate and one burst: green or red (RFC 3290 section 5.1.3).
    Bucket {
        /// The rate.
        rate: Rate,
        /// The bucket's size.
        burst: Size,
    },
    /// The single rate three colour marker (RFC 2697).
    SingleRate {
        /// CIR.
        rate: Rate,
        /// CBS.
        burst: Size,
        /// EBS.
        excess: Size,
    },
    /// The two rate three colour marker (RFC 2698).
    TwoRate {
        /// CIR.
        rate: Rate,
        /// CBS.
        burst: Size,
        /// PIR.
        peak: Rate,
        /// PBS.
        peak_burst: Size,
    },
    /// The average rate in consecutive intervals (RFC 3290 section 5.1.1).
    Average {
        /// The rate.
        rate: Rate,
        /// The interval.
        interval: Span,
    },
    /// An exponentially weighted moving average of the offered rate (RFC 3290 section 5.1.2).
    Moving {
        /// The rate.
        rate: Rate,
        /// The interval.
        interval: Span,
        /// The gain, in 2^-32.
        gain: u64,
    },
}

/// An action for packets of one colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum ColourAction {
    /// Leaves them unchanged.
    #[default]
    Pass,
    /// Writes another code point.
    Mark(Dscp),
    /// Drops them.
    Drop,
}

/// The conditioners of arriving packets.
#[derive(Debug)]
pub enum IngressConditioners {}

/// The conditioners of departing packets.
#[derive(Debug)]
pub enum EgressConditioners {}

const fn row(filters: &'static [ProgramFilter]) -> ProgramRow {
    ProgramRow {
        object: "condition",
        // After all programs that drop packets, to measure only what they pass.
        preference: 92,
        filters,
        ..ProgramRow::DEFAULT
    }
}

impl HookProgram for IngressConditioners {
    type Settings = Conditioning;

    const ROW: ProgramRow = row(&[ingress("condition", "weirgate-condition-in-")]);

    fn text(own: &Conditioning) -> String {
        format!("what enters is conditioned ({})", own.text())
    }

    fn clause(own: &Conditioning) -> Clause {
        Clause::Arriving(format!(
            "are conditioned where they enter it ({})",
            own.names()
        ))
    }
}

impl HookProgram for EgressConditioners {
    type Settings = Conditioning;

    const ROW: ProgramRow = row(&[egress("condition", "weirgate-condition-out-")]);

    fn text(own: &Conditioning) -> String {
        format!("what leaves is conditioned ({})", own.text())
    }

    fn clause(own: &Conditioning) -> Clause {
        Clause::Alone(format!(
            "packets are conditioned where they leave it ({})",
            own.names()
        ))
    }
}

impl Conditioning {
    fn text(&self) -> String {
        let each: Vec<String> = self.conditioners.iter().map(one).collect();
        each.join("; ")
    }

    fn names(&self) -> String {
        let each: Vec<&str> = self.conditioners.iter().map(|one| &*one.name).collect();
        each.join(", ")
    }
}

/// Describes a conditioner.
fn one(one: &Conditioner) -> String {
    let mut whose: Vec<String> = Vec::new();
    let classes: Vec<String> = one.classes.iter().map(ToString::to_string).collect();
    if !classes.is_empty() {
        whose.push(format!("class {}", classes.join(" ")));
    }
    for (word, nets) in [("from", &one.source), ("to", &one.destination)] {
        let nets: Vec<String> = nets
            .iter()
            .map(|(address, length)| format!("{address}/{length}"))
            .collect();
        if !nets.is_empty() {
            whose.push(format!("{word} {}", nets.join(" ")));
        }
    }
    if !one.protocols.is_empty() {
        let numbers: Vec<String> = one.protocols.iter().map(ToString::to_string).collect();
        whose.push(format!("protocol {}", numbers.join(" ")));
    }
    for (word, ports) in [("from", &one.source_ports), ("to", &one.destination_ports)] {
        if !ports.is_empty() {
            whose.push(format!("{word} port {}", ranges(ports)));
        }
    }
    if one.codes != u64::MAX {
        whose.push(format!("dscp {}", codes(one.codes)));
    }
    if whose.is_empty() {
        whose.push("everything".to_owned());
    }
    let aware = match (one.aware, one.brings) {
        (false, _) => String::new(),
        (true, [yellow, red]) => {
            format!(" aware of yellow {} and red {}", codes(yellow), codes(red))
        }
    };
    let mut meter = one.meter.map_or_else(|| "no meter".to_owned(), meter);
    if one.smallest > 0 {
        meter = format!("{meter} of {} bytes a packet at least", one.smallest);
    }
    let [green, yellow, red] = one.actions.map(action);
    format!(
        "{}: {}, {meter}{aware}, green {green} yellow {yellow} red {red}",
        one.name,
        whose.join(" ")
    )
}

fn ranges(ports: &[(u16, u16)]) -> String {
    let each = ports.iter().map(|(from, to)| {
        if from == to {
            from.to_string()
        } else {
            format!("{from}-{to}")
        }
    });
    each.collect::<Vec<_>>().join(" ")
}

fn codes(bits: u64) -> String {
    let named = (0..64_u8)
        .filter(|code| bits >> code & 1 != 0)
        .filter_map(Dscp::new);
    let named: Vec<String> = named.map(|code| code.to_string()).collect();
    named.join(" ")
}

fn action(action: ColourAction) -> String {
    match action {
        ColourAction::Pass => "pass".to_owned(),
        ColourAction::Drop => "drop".to_owned(),
        ColourAction::Mark(code) => code.to_string(),
    }
}

fn meter(meter: ColourMeter) -> String {
    match meter {
        ColourMeter::Bucket { rate, burst } => format!("bucket {rate} burst {burst}"),
        ColourMeter::SingleRate {
            rate,
            burst,
            excess,
        } => format!("srtcm {rate} burst {burst} excess-burst {excess}"),
        ColourMeter::TwoRate {
            rate,
            burst,
            peak,
            peak_burst,
        } => format!("trtcm {rate} burst {burst} peak {peak} burst {peak_burst}"),
        ColourMeter::Average { rate, interval } => format!("average {rate} in {interval}"),
        ColourMeter::Moving {
            rate,
            interval,
            gain,
        } => format!("moving {rate} in {interval} gain {gain}/2^32"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conditioner() -> Conditioner {
        Conditioner {
            name: "gold".to_owned(),
            classes: vec![Handle::new(2, 0x11)],
            source: vec![("192.0.2.0".parse().unwrap(), 24)],
            destination: Vec::new(),
            protocols: vec![6, 17],
            source_ports: Vec::new(),
            destination_ports: vec![(80, 80), (5_060, 5_061)],
            codes: 1 << 46,
            meter: Some(ColourMeter::TwoRate {
                rate: Rate::kbit(1_000),
                burst: Size::bytes(3_000),
                peak: Rate::kbit(2_000),
                peak_burst: Size::bytes(6_000),
            }),
            smallest: 200,
            aware: true,
            brings: [1 << 12, 1 << 14],
            actions: [
                ColourAction::Pass,
                ColourAction::Mark(Dscp::new(12).unwrap()),
                ColourAction::Drop,
            ],
        }
    }

    #[test]
    fn every_part_is_in_the_text() {
        assert_eq!(
            one(&conditioner()),
            "gold: class 2:11 from 192.0.2.0/24 protocol 6 17 to port 80 5060-5061 dscp EF, \
             trtcm 1mbit burst 3kB peak 2mbit burst 6kB of 200 bytes a packet at least aware of yellow AF12 and red AF13, green pass yellow AF12 red drop"
        );
        let other = Conditioner {
            classes: Vec::new(),
            source: Vec::new(),
            protocols: Vec::new(),
            destination_ports: Vec::new(),
            codes: u64::MAX,
            meter: None,
            smallest: 0,
            aware: false,
            ..conditioner()
        };
        assert!(one(&other).contains("everything, no meter, green"));
        for other in [
            ColourMeter::Bucket {
                rate: Rate::kbit(8),
                burst: Size::bytes(1),
            },
            ColourMeter::Average {
                rate: Rate::kbit(8),
                interval: Span::from_millis(5),
            },
            ColourMeter::Moving {
                rate: Rate::kbit(8),
                interval: Span::from_millis(5),
                gain: 1,
            },
            ColourMeter::SingleRate {
                rate: Rate::kbit(8),
                burst: Size::bytes(1),
                excess: Size::bytes(2),
            },
        ] {
            assert!(meter(other).contains("8kbit"));
        }
    }
}
