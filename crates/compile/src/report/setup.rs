// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compares the exact set-up of a direction with the naive one.
//!
//! The naive set-up reduces the rate once by a fixed amount and counts IP bytes. This module
//! calculates what classes would get from it, and how much such a shaper would send into the
//! line. The formulas are those of Brouer 6.2.2 and of the scripts' `print_info` and
//! `print_info2` (requirements A11, A26).
//!
//! The naive gate is that of the thesis. It takes the payload rate of the line's cells, and
//! subtracts overhead and padding of as many full packets as that carries in a second. The
//! result is right for full packets only.

use std::fmt;
use weirgate_linklayer::{LinkLayer, naive};
use weirgate_policy::{Direction, Inbound, Policy, in_kbit};
use weirgate_units::Rate;

/// The sizes of IP packets for which a set-up is shown, besides the largest.
const SIZES: [u32; 6] = [40, 64, 128, 256, 576, 1_000];

/// The exact and the naive set-up of a direction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setup {
    /// The direction.
    pub direction: Direction,
    /// The device on which it is shaped.
    pub device: String,
    /// The rate of the line.
    pub line: Rate,
    /// The link layer.
    pub layer: LinkLayer,
    /// The rate of the line without the overhead of cells or code words.
    pub payload: Rate,
    /// The exact gate in bits on the wire.
    pub gate: Rate,
    /// The naive gate in bits of IP packets.
    pub naive: Rate,
    /// The largest IP packet, the only size for which the naive gate is right.
    pub largest: u32,
    /// The classes: name, exact guarantee in bits on the wire, naive guarantee in bits of IP.
    pub classes: Vec<(String, Rate, Rate)>,
    /// The results for packets of one size each.
    pub sizes: Vec<OfSize>,
}

/// The results of both set-ups for packets of one size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfSize {
    /// The IP packet in bytes.
    pub ip: u32,
    /// Its bytes on the wire.
    pub wire: u32,
    /// How many packets the line carries in 1,000 seconds.
    pub milli_packets_per_second: u64,
    /// The same as a rate in bits of IP.
    pub carries: Rate,
    /// What the naive gate sends, in bits on the wire.
    pub sent: Rate,
    /// By how much that exceeds the rate of the line: the rate at which the modem's queue grows;
    /// 0 if it does not.
    pub beyond: Rate,
}

/// Returns the set-ups of every direction that a policy shapes.
#[must_use]
pub fn setups(policy: &Policy) -> Vec<Setup> {
    let all = Direction::BOTH.into_iter();
    all.filter_map(|direction| of(policy, direction)).collect()
}

fn part(rate: Rate, of: u64, whole: u64) -> Rate {
    let bits = u128::from(rate.as_bits_per_second()) * u128::from(of);
    let part = bits.checked_div(u128::from(whole)).unwrap_or_default();
    Rate::bits_per_second(u64::try_from(part).unwrap_or(u64::MAX))
}

fn of(policy: &Policy, direction: Direction) -> Option<Setup> {
    let shares = policy.share_out(direction)?;
    let layer = policy.link.layer.value;
    let largest = policy.link.mtu.value;
    let line = shares.line;
    let usable = layer.usable_rate(line);
    let payload = layer.payload_rate(line);
    let naive = naive_gate(&layer, line, largest);
    let bits = |rate: Rate| rate.as_bits_per_second();
    let sizes = SIZES.into_iter().filter(|size| *size < largest);
    let sizes = sizes.chain([largest]).map(|ip| {
        let wire = layer.wire_bytes(ip);
        let sent = part(naive, wire.into(), ip.into());
        OfSize {
            ip,
            wire,
            milli_packets_per_second: (layer.packets_per_second(line, ip) * 1e3) as u64,
            carries: layer.ip_ceiling(line, ip),
            sent,
            beyond: Rate::bits_per_second(bits(sent).saturating_sub(bits(usable))),
        }
    });
    Some(Setup {
        direction,
        device: device(policy, direction),
        line,
        payload,
        gate: shares.gate,
        naive,
        largest,
        classes: shares
            .classes
            .iter()
            .map(|class| {
                let naive = part(naive, bits(class.rate), bits(shares.gate));
                (class.name.clone(), class.rate, naive)
            })
            .collect(),
        sizes: sizes.collect(),
        layer,
    })
}

/// Returns the name of the device on which a direction is shaped.
pub(crate) fn device(policy: &Policy, direction: Direction) -> String {
    let link = &policy.link;
    let device = match (direction, link.inbound.value) {
        (Direction::Up, _) => &link.device.value,
        (Direction::Down, Inbound::Lan) => {
            return link
                .lan
                .first()
                .map_or_else(String::new, |lan| lan.value.to_string());
        }
        (Direction::Down, _) => &link.ifb.value,
    };
    device.to_string()
}

/// Returns the rate of the naive gate for a line.
fn naive_gate(layer: &LinkLayer, line: Rate, largest: u32) -> Rate {
    let payload = layer.payload_rate(line);
    let packets = payload.as_bits_per_second() / (u64::from(largest).max(1) * 8);
    let overhead = u32::try_from(layer.overhead()).unwrap_or(0);
    let each = overhead.saturating_add(layer.padding(largest));
    let packets = u32::try_from(packets).unwrap_or(u32::MAX);
    naive::reduced(payload, &[naive::overhead_rate(packets, each)])
}

impl fmt::Display for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            direction,
            device,
            line,
            layer,
            ..
        } = self;
        writeln!(
            f,
            "Set-up {} on {device}, a line of {} ({layer}): exact, and what the naive way would be",
            direction.stream(),
            in_kbit(*line)
        )?;
        let row = |f: &mut fmt::Formatter<'_>, name: &str, exact: &str, naive: &str| {
            writeln!(f, "  {name:<24} {exact:>16} {naive:>16}")
        };
        row(f, "", "exact (wire)", "naive (IP)")?;
        row(f, "left by the framing", "-", &in_kbit(self.payload))?;
        row(f, "gate", &in_kbit(self.gate), &in_kbit(self.naive))?;
        for (name, exact, naive) in &self.classes {
            let name = format!("class {name}");
            row(f, &name, &in_kbit(*exact), &in_kbit(*naive))?;
        }
        writeln!(
            f,
            "  {:>8} {:>8} {:>14} {:>16} {:>16} {:>16}",
            "IP bytes", "on wire", "line carries", "as IP", "naive sends", "modem's queue"
        )?;
        for one in &self.sizes {
            let grows = match one.beyond.as_bits_per_second() {
                0 => "-".to_owned(),
                _ => format!("+{}", in_kbit(one.beyond)),
            };
            writeln!(
                f,
                "  {:>8} {:>8} {:>12}/s {:>16} {:>16} {:>16}",
                one.ip,
                one.wire,
                one.milli_packets_per_second / 1_000,
                in_kbit(one.carries),
                in_kbit(one.sent),
                grows
            )?;
        }
        write!(
            f,
            "  The naive gate fits packets of {} bytes alone; the exact one counts what each packet \
             takes on the wire.",
            self.largest
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: &str = "version = 1\n\
        link = { device = \"wan\", lan = \"lan\", up = \"512kbit\", layer = \"adsl:bridged-vc-fcs\", margin = \"1kbit\" }\n\
        [[class]]\nname = \"a\"\nshare = \"20%\"\n\
        [[class]]\nname = \"b\"\nshare = \"80%\"\ndefault = true\n";

    #[test]
    fn the_thesis_naive_setup_is_found_again() {
        let policy = weirgate_policy::parse(POLICY).0.unwrap();
        let [setup] = &setups(&policy)[..] else {
            panic!("one direction")
        };
        // 6.2.2: 463 kbit/s after cells, 38 packets with 36 bytes each.
        assert_eq!(setup.payload.as_bits_per_second() / 1_000, 463);
        assert_eq!(setup.gate, Rate::kbit(511));
        let cost = setup.payload.as_bits_per_second() - setup.naive.as_bits_per_second();
        assert_eq!(cost, 38 * 36 * 8);
        // 6.1.1: packets of 40 bytes take 106 on the wire, 603 of them fit.
        let smallest = &setup.sizes[0];
        assert_eq!((smallest.ip, smallest.wire), (40, 106));
        assert_eq!(smallest.milli_packets_per_second / 1_000, 603);
        assert!(smallest.beyond > Rate::kbit(680));
        let largest = setup.sizes.last().unwrap();
        assert_eq!(largest.ip, 1_500);
        assert_eq!(largest.beyond, Rate::kbit(0));
        let naive: u64 = setup
            .classes
            .iter()
            .map(|one| one.2.as_bits_per_second())
            .sum();
        assert!(setup.naive.as_bits_per_second() - naive < 2);
        let text = setup.to_string();
        assert!(text.contains("452.754 kbit/s"), "{text}");
    }
}
