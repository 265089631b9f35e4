// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The naive way to allow for a link layer: a fixed reduction of the rate.
//!
//! This is the theses' counter-example (Brouer 6.1.1 and 6.2.2), kept to
//! reproduce it and to show what it wastes. Nothing in weirgate shapes by it;
//! [`LinkLayer::wire_bytes`](crate::LinkLayer::wire_bytes) is the answer.

use weirgate_units::Rate;

/// Returns the ATM payload of a line in whole kbit/s, in the script's integers (Brouer B.6.1):
/// `line * 100000 / 53 * 48 / 100000`, where each division truncates. `None` where the product
/// overflows.
#[must_use]
pub fn atm_payload_kbit(line_kbit: u64) -> Option<u64> {
    Some(line_kbit.checked_mul(SCALE)? / 53 * 48 / SCALE)
}

/// Returns the rate of OAM cells on a line in whole kbit/s, computed likewise: the payload over 27.
/// The script computes it and then sets it to zero.
#[must_use]
pub fn oam_kbit(line_kbit: u64) -> Option<u64> {
    Some(line_kbit.checked_mul(SCALE)? / 53 * 48 / 27 / SCALE)
}

/// The script's fixed point.
const SCALE: u64 = 100_000;

/// Returns the rate that `bytes` more in each of `packets_per_second` packets take. The naive way
/// reduces the rate by this for an overhead per packet.
#[must_use]
pub fn overhead_rate(packets_per_second: u32, bytes: u32) -> Rate {
    let bits = u64::from(packets_per_second) * u64::from(bytes);
    Rate::bits_per_second(bits.saturating_mul(8))
}

/// Returns the rest of `rate` after reductions; 0 where they exceed it.
#[must_use]
pub fn reduced(rate: Rate, by: &[Rate]) -> Rate {
    let left = by.iter().fold(rate.as_bits_per_second(), |left, cut| {
        left.saturating_sub(cut.as_bits_per_second())
    });
    Rate::bits_per_second(left)
}

/// The "setup information" that the queue scripts print, in whole kbit/s.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setup {
    /// The rate given for the line.
    pub line_kbit: u64,
    /// The payload that ATM leaves of it.
    pub payload_kbit: u64,
    /// The rate that ATM takes.
    pub atm_kbit: u64,
    /// The rate left for classes.
    pub classes_kbit: u64,
}

impl Setup {
    /// Computes option `-x`: the payload less a fixed reserve, with everything estimated in advance
    /// (`print_info`). Returns `None` where the reserve exceeds the payload.
    #[must_use]
    pub fn estimated(line_kbit: u64, extra_kbit: u64, ack_kbit: u64) -> Option<Self> {
        let payload = atm_payload_kbit(line_kbit)?;
        let classes = payload.checked_sub(extra_kbit)?.checked_sub(ack_kbit)?;
        Some(Self::new(line_kbit, payload, classes))
    }

    /// Computes option `-o`: the kernel counts cells, so classes share the line less the ACK
    /// reserve, in wire bytes (`print_info2`). Returns `None` where the reserve exceeds the line.
    #[must_use]
    pub fn counted(line_kbit: u64, ack_kbit: u64) -> Option<Self> {
        let payload = atm_payload_kbit(line_kbit)?;
        Some(Self::new(
            line_kbit,
            payload,
            line_kbit.checked_sub(ack_kbit)?,
        ))
    }

    const fn new(line_kbit: u64, payload_kbit: u64, classes_kbit: u64) -> Self {
        Self {
            line_kbit,
            payload_kbit,
            atm_kbit: line_kbit - payload_kbit,
            classes_kbit,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Framing, LinkLayer, ack::AckReserve};

    const LINE: Rate = Rate::kbit(512);

    fn bits(packets_per_second: u32, bytes: u32) -> u64 {
        overhead_rate(packets_per_second, bytes).as_bits_per_second()
    }

    #[track_caller]
    fn close(found: f64, printed: f64, half_a_digit: f64) {
        assert!(
            (found - printed).abs() <= half_a_digit,
            "{found} is not {printed}"
        );
    }

    fn tele2() -> LinkLayer {
        LinkLayer::named("adsl:bridged-vc-fcs").expect("a name")
    }

    /// The deductions of experiments ADSL-6.1, 8.1 to 8.4, 9.2 and others.
    #[test]
    fn fixed_atm_deduction() {
        for (line, payload) in [
            (511, 462),
            (512, 463),
            (668, 604),
            (767, 694),
            (1_950, 1_766),
            (1_999, 1_810),
            (8_000, 7_245),
        ] {
            assert_eq!(atm_payload_kbit(line), Some(payload), "{line}");
        }
        assert_eq!(oam_kbit(512), Some(17));
        assert_eq!(oam_kbit(500), Some(16));
        assert_eq!(atm_payload_kbit(u64::MAX), None);
        assert_eq!(oam_kbit(u64::MAX), None);
    }

    /// What the scripts printed for each set-up of the thesis.
    #[test]
    fn printed_setups() {
        let counted = |line, ack| Setup::counted(line, ack).expect("in range");
        // ADSL-8.C with its older ACK formula, and with the published one.
        let older = counted(511, 115);
        assert_eq!(
            (older.payload_kbit, older.atm_kbit, older.classes_kbit),
            (462, 49, 396)
        );
        let published = AckReserve::THESIS.script_kbit(2_000).expect("divisors");
        assert_eq!(counted(511, published).classes_kbit, 416);
        let down = counted(1_999, 30);
        assert_eq!(
            (down.payload_kbit, down.atm_kbit, down.classes_kbit),
            (1_810, 189, 1_969)
        );
        let dorm = counted(767, 340);
        assert_eq!(
            (dorm.payload_kbit, dorm.atm_kbit, dorm.classes_kbit),
            (694, 73, 427)
        );
        // ADSL-8.3, and 6.1 with `-u 512 -x 13`.
        let police = Setup::estimated(1_950, 0, 0).expect("in range");
        assert_eq!((police.payload_kbit, police.atm_kbit), (1_766, 184));
        let naive = Setup::estimated(512, 13, 0).expect("in range");
        assert_eq!((naive.payload_kbit, naive.classes_kbit), (463, 450));
        assert_eq!(Setup::estimated(512, 464, 0), None);
        assert_eq!(Setup::counted(512, 513), None);
    }

    /// ADSL-6.0: the header share, then packet rates on 512 kbit/s.
    #[test]
    fn rates_of_adsl_6_0() {
        let payload = tele2().payload_rate(LINE);
        let hundreds = |rate: Rate| (rate.as_bits_per_second() as f64 / 100.0).round() * 100.0;
        assert_eq!(hundreds(payload), 463_700.0);
        assert_eq!(hundreds(reduced(LINE, &[payload])), 48_300.0);
        let up = |ip_len| tele2().packets_per_second(LINE, ip_len).ceil();
        assert_eq!(up(1_500), 38.0);
        assert_eq!(up(40), 604.0);
        let one_cell = LinkLayer::custom(0, 0, Framing::Atm).expect("in range");
        assert_eq!(one_cell.packets_per_second(LINE, 40).ceil(), 1_208.0);
        assert_eq!(
            tele2().packets_per_second(Rate::kbit(2_000), 1_500).ceil(),
            148.0
        );
    }

    /// ADSL-6.0: 28 bytes a packet, and what is wasted when less was needed.
    #[test]
    fn overheads_of_adsl_6_0() {
        let costs = [38, 148, 200, 300, 600].map(|packets| bits(packets, 28));
        assert_eq!(costs, [8_512, 33_152, 44_800, 67_200, 134_400]);
        let [best, _, average, bursty, worst] = costs;
        let payload = tele2().payload_rate(LINE);
        close(
            reduced(payload, &[overhead_rate(300, 28)]).as_kbit(),
            396.0,
            0.5,
        );
        close((bursty - best) as f64, 58_600.0, 100.0);
        // Printed as 23; it is 22.4.
        close((bursty - average) as f64, 22_400.0, 0.5);
        close((worst - best) as f64, 126_000.0, 500.0);
    }

    /// ADSL-6.0: padding as another overhead per packet, and the worst case.
    #[test]
    fn padding_of_adsl_6_0() {
        let payload = tele2().payload_rate(LINE);
        let bursty = overhead_rate(300, 28);
        let part = |left: Rate| (100.0 * (1.0 - left.as_kbit() / 512.0)).round();
        assert_eq!(bits(300, 47), 112_800);
        let all = reduced(payload, &[bursty, overhead_rate(300, 47)]);
        close(all.as_kbit(), 284.0, 0.5);
        assert_eq!(part(all), 45.0);
        assert_eq!(bits(300, 23), 55_200);
        let half = reduced(payload, &[bursty, overhead_rate(300, 23)]);
        close(half.as_kbit(), 341.0, 0.5);
        assert_eq!(part(half), 33.0);
        let packets = tele2().packets_per_second(LINE, 40).floor();
        assert_eq!((packets, tele2().wire_bytes(40) - 40), (603.0, 66));
        let worst = reduced(LINE, &[overhead_rate(603, 66)]);
        close(worst.as_kbit(), 194.0, 0.5);
        assert_eq!(part(worst), 62.0);
        assert_eq!(reduced(LINE, &[LINE, LINE]), Rate::kbit(0));
    }

    /// ADSL-6.1: 38 full packets with 36 bytes each, 7 probes with 32.
    #[test]
    fn reserve_of_adsl_6_1() {
        assert_eq!(28 + tele2().padding(1_500), 36);
        assert_eq!((bits(38, 36), bits(7, 32)), (10_944, 1_792));
        let extra = bits(38, 36) + bits(7, 32);
        assert_eq!((extra, extra.div_ceil(1_000)), (12_736, 13));
        // The thesis counts the probe as 64 bytes in two cells.
        let cells = LinkLayer::custom(0, 0, Framing::Atm).expect("in range");
        assert_eq!((cells.wire_bytes(64), cells.padding(64)), (106, 32));
    }
}
