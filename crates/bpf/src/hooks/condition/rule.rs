// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The form of a conditioner in the program's map (`struct condition_rule`).

use crate::error::BpfError;
use crate::layout::{
    CONDITION_DROP, CONDITION_MARK, CONDITION_PASS, CONDITION_PORT, CONDITION_PROTOCOL,
    METER_AVERAGE, METER_BUCKET, METER_MOVING, METER_SINGLE_RATE, METER_TWO_RATE, condition_net,
    condition_ports, condition_rule, meter_params,
};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use weirgate_aqm::MeterParams;
use weirgate_state::{ColourAction, ColourMeter, Conditioner};
use weirgate_units::{Dscp, Handle, Rate, Size, Span};
use zerocopy::{FromZeros, IntoBytes};

/// Converts a conditioner to the form of the map, with version 0.
///
/// # Errors
///
/// Returns an error if a list or the name is too long, or if a parameter of the meter is out of
/// range.
pub(super) fn encode(one: &Conditioner) -> Result<condition_rule, BpfError> {
    let wrong = |what: String| BpfError::Classes(format!("conditioner `{}` {what}", one.name));
    let mut rule = condition_rule::new_zeroed();
    if let Some(meter) = one.meter {
        rule.metered = 1;
        rule.meter = params(meter, one.aware);
        let check = checked(&rule.meter).check();
        check.map_err(|error| wrong(format!("has a meter that cannot be: {error}")))?;
    }
    rule.used = 1;
    (rule.codes, [rule.yellow, rule.red]) = (one.codes, one.brings);
    for (at, action) in one.actions.iter().enumerate() {
        (rule.action[at], rule.code[at]) = match action {
            ColourAction::Pass => (CONDITION_PASS, 0),
            ColourAction::Mark(code) => (CONDITION_MARK, code.value().into()),
            ColourAction::Drop => (CONDITION_DROP, 0),
        };
    }
    rule.classes = one.classes.len() as u32;
    rule.smallest = one.smallest;
    if !one.protocols.is_empty() {
        rule.asks |= CONDITION_PROTOCOL;
    }
    if !one.source_ports.is_empty() || !one.destination_ports.is_empty() {
        rule.asks |= CONDITION_PORT;
    }
    for number in &one.protocols {
        rule.protocols[usize::from(number >> 5)] |= 1 << (number & 31);
    }
    let name = &mut rule.name.as_mut_bytes()[..];
    let last = name.len() - 1;
    let fits = fill(&mut name[..last], one.name.bytes())
        && fill(&mut rule.class, one.classes.iter().map(|id| id.as_u32()))
        && fill(&mut rule.source, one.source.iter().map(net))
        && fill(&mut rule.destination, one.destination.iter().map(net))
        && fill(
            &mut rule.source_ports,
            one.source_ports.iter().copied().map(ports),
        )
        && fill(
            &mut rule.destination_ports,
            one.destination_ports.iter().copied().map(ports),
        );
    fits.then_some(rule).ok_or_else(|| {
        wrong("has more classes, nets, ports or bytes of a name than fit".to_owned())
    })
}

/// Returns whether two conditioners are equal, ignoring their versions.
pub(super) fn same(one: &condition_rule, other: &condition_rule) -> bool {
    let other = condition_rule {
        version: one.version,
        ..*other
    };
    one.as_bytes() == other.as_bytes()
}

/// Returns the name of a conditioner.
pub(super) fn name(rule: &condition_rule) -> String {
    let text = rule.name.as_bytes().split(|byte| *byte == 0).next();
    String::from_utf8_lossy(text.unwrap_or_default()).into_owned()
}

/// Converts an entry of the map; `None` if [`encode`] cannot have made it.
pub(super) fn decode(rule: &condition_rule) -> Option<Conditioner> {
    let meter = match rule.metered {
        0 => None,
        _ => Some(meter(&rule.meter)?),
    };
    let mut actions = [ColourAction::Pass; 3];
    for (at, action) in actions.iter_mut().enumerate() {
        *action = match rule.action[at] {
            CONDITION_PASS => ColourAction::Pass,
            CONDITION_MARK => ColourAction::Mark(Dscp::new(u8::try_from(rule.code[at]).ok()?)?),
            CONDITION_DROP => ColourAction::Drop,
            _ => return None,
        };
    }
    let classes = rule.class.get(..rule.classes as usize)?;
    let has = |number: &u8| rule.protocols[usize::from(number >> 5)] >> (number & 31) & 1 != 0;
    let ranges = |ports: &[condition_ports]| {
        let used = ports.iter().take_while(|one| one.from != 0);
        used.map(|one| (one.from, one.to)).collect()
    };
    let nets = |nets: &[condition_net]| {
        let used = nets.iter().take_while(|one| one.version != 0);
        used.map(network).collect::<Option<Vec<_>>>()
    };
    Some(Conditioner {
        name: name(rule),
        classes: classes.iter().map(|id| Handle::from_u32(*id)).collect(),
        source: nets(&rule.source)?,
        destination: nets(&rule.destination)?,
        protocols: (0..=u8::MAX).filter(has).collect(),
        source_ports: ranges(&rule.source_ports),
        destination_ports: ranges(&rule.destination_ports),
        codes: rule.codes,
        meter,
        smallest: rule.smallest,
        aware: meter.is_some() && rule.meter.aware != 0,
        brings: [rule.yellow, rule.red],
        actions,
    })
}

/// Copies values to the start of an array; returns whether all fit.
fn fill<T>(room: &mut [T], values: impl ExactSizeIterator<Item = T>) -> bool {
    let fits = values.len() <= room.len();
    for (slot, value) in room.iter_mut().zip(values) {
        *slot = value;
    }
    fits
}

fn ports((from, to): (u16, u16)) -> condition_ports {
    condition_ports { from, to }
}

fn net((address, length): &(IpAddr, u8)) -> condition_net {
    let (octets, version, most) = match address {
        IpAddr::V4(address) => {
            let mut octets = [0; 16];
            octets[..4].copy_from_slice(&address.octets());
            (octets, 4, 32)
        }
        IpAddr::V6(address) => (address.octets(), 6, 128),
    };
    let length = u32::from(*length).min(most);
    let mask = u128::MAX.checked_shl(128 - length).unwrap_or(0);
    let own = u128::from_be_bytes(octets) & mask;
    condition_net {
        address: zerocopy::transmute!(own.to_be_bytes()),
        mask: zerocopy::transmute!(mask.to_be_bytes()),
        version,
        length,
    }
}

fn network(net: &condition_net) -> Option<(IpAddr, u8)> {
    let octets: [u8; 16] = zerocopy::transmute!(net.address);
    let address: IpAddr = match net.version {
        4 => Ipv4Addr::from_octets(*octets.first_chunk()?).into(),
        6 => Ipv6Addr::from_octets(octets).into(),
        _ => return None,
    };
    Some((address, u8::try_from(net.length).ok()?))
}

/// Returns the parameters of a meter. Those that its kind does not use stay 0.
fn params(meter: ColourMeter, aware: bool) -> meter_params {
    let mut params = meter_params::new_zeroed();
    params.aware = aware.into();
    (params.kind, params.rate_bytes_s) = match meter {
        ColourMeter::Bucket { rate, burst } => {
            params.burst_bytes = burst.as_bytes();
            (METER_BUCKET, rate.as_bytes_per_second())
        }
        ColourMeter::SingleRate {
            rate,
            burst,
            excess,
        } => {
            params.burst_bytes = burst.as_bytes();
            params.excess_bytes = excess.as_bytes();
            (METER_SINGLE_RATE, rate.as_bytes_per_second())
        }
        ColourMeter::TwoRate {
            rate,
            burst,
            peak,
            peak_burst,
        } => {
            params.burst_bytes = burst.as_bytes();
            params.peak_bytes_s = peak.as_bytes_per_second();
            params.excess_bytes = peak_burst.as_bytes();
            (METER_TWO_RATE, rate.as_bytes_per_second())
        }
        ColourMeter::Average { rate, interval } => {
            params.interval_ns = interval.as_nanos();
            (METER_AVERAGE, rate.as_bytes_per_second())
        }
        ColourMeter::Moving {
            rate,
            interval,
            gain,
        } => {
            params.interval_ns = interval.as_nanos();
            params.gain = gain;
            (METER_MOVING, rate.as_bytes_per_second())
        }
    };
    params
}

/// Converts the parameters to the form of crate aqm, which checks their ranges.
fn checked(params: &meter_params) -> MeterParams {
    MeterParams {
        rate: params.rate_bytes_s,
        burst: params.burst_bytes,
        peak: params.peak_bytes_s,
        excess: params.excess_bytes,
        interval: params.interval_ns,
        gain: params.gain,
        kind: params.kind,
        aware: params.aware,
    }
}

fn meter(params: &meter_params) -> Option<ColourMeter> {
    let of = Rate::bytes_per_second(params.rate_bytes_s);
    let burst = Size::bytes(params.burst_bytes);
    let more = Size::bytes(params.excess_bytes);
    let interval = Span::from_nanos(params.interval_ns);
    Some(match params.kind {
        METER_BUCKET => ColourMeter::Bucket { rate: of, burst },
        METER_SINGLE_RATE => ColourMeter::SingleRate {
            rate: of,
            burst,
            excess: more,
        },
        METER_TWO_RATE => ColourMeter::TwoRate {
            rate: of,
            burst,
            peak: Rate::bytes_per_second(params.peak_bytes_s),
            peak_burst: more,
        },
        METER_AVERAGE => ColourMeter::Average { rate: of, interval },
        METER_MOVING => ColourMeter::Moving {
            rate: of,
            interval,
            gain: params.gain,
        },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{CONDITION_CLASSES, CONDITION_NAME, CONDITION_NETS, CONDITION_PORTS};

    fn conditioner() -> Conditioner {
        Conditioner {
            name: "gold".to_owned(),
            meter: None,
            aware: false,
            codes: 0x15 << 10,
            brings: [1 << 12, 1 << 14],
            actions: [
                ColourAction::Mark(Dscp::new(10).unwrap()),
                ColourAction::Pass,
                ColourAction::Drop,
            ],
            classes: vec![Handle::new(2, 0x11), Handle::new(2, 0x12)],
            source: vec![
                ("192.0.2.0".parse().unwrap(), 25),
                ("2001:db8::".parse().unwrap(), 33),
            ],
            destination: vec![("0.0.0.0".parse().unwrap(), 0)],
            protocols: vec![0, 6, 17, 132, 255],
            source_ports: vec![(1, 65_535)],
            destination_ports: vec![(5_060, 5_061), (80, 80)],
            smallest: 200,
        }
    }

    #[test]
    fn the_map_holds_all_of_it() {
        let (rate, peak) = (Rate::kbit(1_000), Rate::kbit(2_000));
        let (burst, large) = (Size::bytes(3_000), Size::bytes(6_000));
        let interval = Span::from_millis(100);
        let meters = [
            ColourMeter::Bucket { rate, burst },
            ColourMeter::SingleRate {
                rate,
                burst,
                excess: large,
            },
            ColourMeter::TwoRate {
                rate,
                burst,
                peak,
                peak_burst: large,
            },
            ColourMeter::Average { rate, interval },
            ColourMeter::Moving {
                rate,
                interval,
                gain: 1 << 30,
            },
        ];
        let metered = meters.into_iter().flat_map(|meter| {
            [false, true].map(|aware| Conditioner {
                meter: Some(meter),
                aware,
                ..conditioner()
            })
        });
        let bare = Conditioner {
            classes: Vec::new(),
            source: Vec::new(),
            destination: Vec::new(),
            protocols: Vec::new(),
            source_ports: Vec::new(),
            destination_ports: Vec::new(),
            smallest: 0,
            name: "n".repeat(CONDITION_NAME as usize - 1),
            ..conditioner()
        };
        for one in metered.chain([conditioner(), bare]) {
            assert_eq!(decode(&encode(&one).unwrap()), Some(one));
        }
    }

    #[test]
    fn what_is_no_conditioner_is_none() {
        let good = encode(&conditioner()).unwrap();
        for at in 0..good.as_bytes().len() {
            let mut spoiled = good;
            spoiled.as_mut_bytes()[at] ^= 0xff;
            let _ = decode(&spoiled);
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let wrong = [
            Conditioner {
                name: "n".repeat(CONDITION_NAME as usize),
                ..conditioner()
            },
            Conditioner {
                classes: vec![Handle::new(2, 1); CONDITION_CLASSES as usize + 1],
                ..conditioner()
            },
            Conditioner {
                source: vec![("192.0.2.1".parse().unwrap(), 32); CONDITION_NETS as usize + 1],
                ..conditioner()
            },
            Conditioner {
                source_ports: vec![(1, 1); CONDITION_PORTS as usize + 1],
                ..conditioner()
            },
            Conditioner {
                meter: Some(ColourMeter::Bucket {
                    rate: Rate::default(),
                    burst: Size::bytes(1),
                }),
                ..conditioner()
            },
        ];
        for one in wrong {
            assert!(encode(&one).is_err(), "{one:?}");
        }
    }
}
