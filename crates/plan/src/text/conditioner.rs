// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How traffic conditioners read.

use weirgate_state::{ColourAction, ColourMeter, Conditioner, Conditioning};
use weirgate_units::Dscp;

/// All of a place and a way, in words.
pub(crate) fn text(own: &Conditioning, way: &str) -> String {
    let each: Vec<String> = own.conditioners.iter().map(one).collect();
    format!("what {way} is conditioned ({})", each.join("; "))
}

/// In short, for one line of a plan.
pub(crate) fn in_short(own: &Conditioning, way: &str) -> String {
    let names: Vec<&str> = own
        .conditioners
        .iter()
        .map(|one| one.name.as_str())
        .collect();
    format!("are conditioned where they {way} it ({})", names.join(", "))
}

/// A conditioner, in words.
fn one(one: &Conditioner) -> String {
    let mut whose: Vec<String> = Vec::new();
    let classes: Vec<String> = one.classes.iter().map(ToString::to_string).collect();
    if !classes.is_empty() {
        whose.push(format!("class {}", classes.join(" ")));
    }
    for (way, nets) in [("from", &one.source), ("to", &one.destination)] {
        let nets: Vec<String> = nets
            .iter()
            .map(|(address, length)| format!("{address}/{length}"))
            .collect();
        if !nets.is_empty() {
            whose.push(format!("{way} {}", nets.join(" ")));
        }
    }
    if !one.protocols.is_empty() {
        let numbers: Vec<String> = one.protocols.iter().map(ToString::to_string).collect();
        whose.push(format!("protocol {}", numbers.join(" ")));
    }
    for (way, ports) in [("from", &one.source_ports), ("to", &one.destination_ports)] {
        if !ports.is_empty() {
            whose.push(format!("{way} port {}", ranges(ports)));
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
    use weirgate_state::{DeviceName, HookPrograms};
    use weirgate_units::{Handle, Rate, Size, Span};

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

    #[test]
    fn each_way_comes_and_goes_by_itself() {
        let device = DeviceName::new("wan").unwrap();
        let own = Some(Box::new(Conditioning {
            conditioners: vec![conditioner()],
        }));
        let both = HookPrograms {
            entering: own.clone(),
            leaving: own,
            ..HookPrograms::default()
        };
        let one = HookPrograms {
            entering: None,
            ..both.clone()
        };
        let commands = |before: Option<&HookPrograms>, after: Option<&HookPrograms>| {
            let mut lines = Vec::new();
            let text = crate::diff::hooks::command(&device, before, after);
            lines.extend(
                text.lines()
                    .filter(|line| !line.contains("clsact"))
                    .map(str::to_owned),
            );
            let words = |line: &String| line.split(" pref").next().unwrap_or_default().to_owned();
            lines.iter().map(words).collect::<Vec<_>>()
        };
        let add = |way| format!("tc filter replace dev wan {way}");
        assert_eq!(commands(None, Some(&both)), [add("ingress"), add("egress")]);
        assert_eq!(
            commands(Some(&both), Some(&one)),
            ["tc filter del dev wan ingress"]
        );
        assert_eq!(commands(Some(&one), Some(&both)), [add("ingress")]);
        assert_eq!(commands(Some(&both), Some(&both)), Vec::<String>::new());
    }
}
