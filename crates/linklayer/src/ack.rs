// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Acknowledgements on an asymmetric link: the normalised bandwidth ratio, the model of lost ACKs,
//! and the rate to reserve for ACKs.
//!
//! The classifier decides which packets are ACKs; this module does not.

use crate::LinkLayer;
use weirgate_units::Rate;

/// Returns the normalised bandwidth ratio `k = (down / up) / (data / ack)` (Brouer 2.3.2): how many
/// data packets one ACK must stand for, so that ACKs alone just fill the upstream. `data` and `ack`
/// are wire bytes. `None` where a divisor is 0.
#[must_use]
pub fn bandwidth_ratio(down: Rate, up: Rate, data: u32, ack: u32) -> Option<f64> {
    if up == Rate::default() || data == 0 || ack == 0 {
        return None;
    }
    let rates = down.as_bits_per_second() as f64 / up.as_bits_per_second() as f64;
    Some(rates / (f64::from(data) / f64::from(ack)))
}

/// Whether ACKs leave enough upstream capacity to fill the downstream (Brouer 2.3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AckCapacity {
    /// `k <= 1`: yes, even with an ACK for every packet.
    Always,
    /// `1 < k <= d`: yes, while receivers delay their ACKs. They do not in slow start and fast
    /// retransmit.
    WhileDelayed,
    /// `k > d`: no, ACKs fill the upstream before data fills the downstream.
    Never,
}

/// Compares the ratio `k` with the delayed-ACK factor `d`, data packets per
/// ACK: 1 to 2 by RFC 5681 section 4.2, more where a receiver merges packets.
#[must_use]
pub fn ack_capacity(k: f64, d: f64) -> AckCapacity {
    if k <= 1.0 {
        AckCapacity::Always
    } else if k <= d {
        AckCapacity::WhileDelayed
    } else {
        AckCapacity::Never
    }
}

/// Returns how many times faster than the line data arrives when ACKs that were held up leave back
/// to back: `d / k` (Brouer 9.2). `None` for `k` of 0.
#[must_use]
pub fn burst_factor(k: f64, d: f64) -> Option<f64> {
    (k > 0.0).then(|| d / k)
}

/// A connection whose ACKs overflow the upstream queue (Lakshman, Madhow and
/// Suter as cited by Brouer 2.4); everything in packets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AckLoss {
    /// The normalised bandwidth ratio.
    pub k: f64,
    /// Bandwidth-delay product of the downstream, `rate * RTT`.
    pub pipe: f64,
    /// Places in the downstream queue.
    pub down_queue: f64,
    /// Places in the upstream queue.
    pub up_queue: f64,
}

impl AckLoss {
    /// Returns the largest window without loss of data: `rate * RTT + Q_down + k * Q_up`.
    #[must_use]
    pub fn max_window(&self) -> f64 {
        self.pipe + self.down_queue + self.k * self.up_queue
    }

    /// Returns whether `Q_down >= k`: the queue takes the burst that one surviving ACK lets go, on
    /// average.
    #[must_use]
    pub fn takes_bursts(&self) -> bool {
        self.down_queue >= self.k
    }

    /// Returns whether `Q_down > 3 k`: a tail-drop upstream queue loses the three duplicate ACKs of
    /// a fast retransmit, and the connection times out. Dropping from the front cures it.
    #[must_use]
    pub fn tail_drop_times_out(&self) -> bool {
        self.down_queue > 3.0 * self.k
    }
}

/// The assumptions behind the reserve for ACKs (Brouer 8.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AckReserve {
    /// IP bytes of a data packet.
    pub data_bytes: u32,
    /// Wire bytes of an ACK on the upstream.
    pub ack_wire_bytes: u32,
    /// Data packets per ACK, in tenths: 10 is an ACK for each.
    pub delayed_ack_tenths: u32,
}

impl AckReserve {
    /// The thesis's assumptions: packets of 1500 bytes, ACKs of two ATM cells, 1.5 packets per ACK.
    /// Its script has 1.2 and 96 bytes (two cells without their headers) as commented-out
    /// alternatives.
    pub const THESIS: Self = Self {
        data_bytes: 1_500,
        ack_wire_bytes: 106,
        delayed_ack_tenths: 15,
    };

    /// Returns the assumptions for ACKs of `ack_ip_len` bytes on another link. A bare ACK has 40
    /// bytes with IPv4 and 60 with IPv6; timestamps add 12.
    #[must_use]
    pub const fn on(
        up: &LinkLayer,
        ack_ip_len: u32,
        data_bytes: u32,
        delayed_ack_tenths: u32,
    ) -> Self {
        Self {
            data_bytes,
            ack_wire_bytes: up.wire_bytes(ack_ip_len),
            delayed_ack_tenths,
        }
    }

    /// Returns the upstream rate in wire bytes that acknowledges an IP rate of `down`, rounded up
    /// to a bit/s; `None` where a divisor is 0.
    #[must_use]
    pub fn rate(&self, down: Rate) -> Option<Rate> {
        let divisor = u128::from(self.data_bytes) * u128::from(self.delayed_ack_tenths);
        if divisor == 0 {
            return None;
        }
        let bits = u128::from(down.as_bits_per_second()) * u128::from(self.ack_wire_bytes) * 10;
        Some(Rate::bits_per_second(
            u64::try_from(bits.div_ceil(divisor)).unwrap_or(u64::MAX),
        ))
    }

    /// Computes the same rate with the script's integer arithmetic in kbit/s (Brouer B.6.1): each
    /// division truncates, then 1 is added. Returns `None` where a divisor is 0 or the product
    /// overflows.
    #[must_use]
    pub fn script_kbit(&self, down_kbit: u64) -> Option<u64> {
        down_kbit
            .checked_mul(u64::from(self.ack_wire_bytes))?
            .checked_mul(10)?
            .checked_div(u64::from(self.data_bytes))?
            .checked_div(u64::from(self.delayed_ack_tenths))?
            .checked_add(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Framing;
    use weirgate_units::Share;

    #[track_caller]
    fn close(found: f64, printed: f64, half_a_digit: f64) {
        assert!(
            (found - printed).abs() <= half_a_digit,
            "{found} is not {printed}"
        );
    }

    fn k(down: u64, up: u64) -> f64 {
        bandwidth_ratio(Rate::kbit(down), Rate::kbit(up), 1_696, 106).expect("a ratio")
    }

    /// Table 3.2 (ADSL-2.3), to its two digits, and the example of 2.3.2.
    #[test]
    fn table_3_2() {
        for (down, up, printed) in [
            (256, 128, 0.13),
            (512, 128, 0.25),
            (1_024, 128, 0.50),
            (1_536, 128, 0.75),
            (2_048, 128, 1.00),
            (512, 256, 0.13),
            (1_024, 256, 0.25),
            (2_048, 256, 0.50),
            (1_024, 512, 0.13),
            (2_048, 512, 0.25),
            (2_560, 768, 0.21),
            (4_000, 768, 0.33),
            (8_000, 768, 0.65),
            (8_000, 512, 0.98),
            (8_000, 668, 0.75),
        ] {
            assert_eq!(
                (k(down, up) * 100.0).round(),
                printed * 100.0,
                "{down}/{up}"
            );
            assert_eq!(
                ack_capacity(k(down, up), 1.0),
                AckCapacity::Always,
                "{down}/{up}"
            );
        }
        assert_eq!(k(2_000, 500), 0.25);
    }

    #[test]
    fn the_ratio_against_delayed_acks() {
        assert_eq!(ack_capacity(1.0, 1.0), AckCapacity::Always);
        assert_eq!(ack_capacity(1.5, 2.0), AckCapacity::WhileDelayed);
        assert_eq!(ack_capacity(2.0, 2.0), AckCapacity::WhileDelayed);
        assert_eq!(ack_capacity(2.1, 2.0), AckCapacity::Never);
        let at = |up, data, ack| bandwidth_ratio(Rate::kbit(8_000), Rate::kbit(up), data, ack);
        assert_eq!((at(0, 1, 1), at(1, 0, 1), at(1, 1, 0)), (None, None, None));
        // The ratio from link layers: ADSL in cells, and a modern cable line.
        let adsl = LinkLayer::named("adsl:bridged-vc-fcs").expect("a name");
        assert_eq!((adsl.wire_bytes(1_500), adsl.wire_bytes(40)), (1_696, 106));
        let docsis = LinkLayer::named("docsis").expect("a name");
        let (data, ack) = (docsis.wire_bytes(1_500), docsis.wire_bytes(52));
        let ratio = bandwidth_ratio(Rate::kbit(1_000_000), Rate::kbit(30_000), data, ack);
        close(ratio.expect("a ratio"), 1.54, 0.005);
        assert_eq!(
            ack_capacity(ratio.expect("a ratio"), 2.0),
            AckCapacity::WhileDelayed
        );
    }

    /// ADSL-9.2: bursts three times the line rate.
    #[test]
    fn bursts_of_adsl_9_2() {
        close(
            burst_factor(k(8_000, 768), 2.0).expect("a factor"),
            3.0,
            0.1,
        );
        assert_eq!(burst_factor(0.0, 2.0), None);
    }

    /// Brouer 2.4, with a line of k = 8.
    #[test]
    fn lost_acks() {
        let line = AckLoss {
            k: 8.0,
            pipe: 20.0,
            down_queue: 10.0,
            up_queue: 5.0,
        };
        assert_eq!(line.max_window(), 70.0);
        assert!(line.takes_bursts());
        assert!(!line.tail_drop_times_out());
        assert!(
            !AckLoss {
                down_queue: 7.9,
                ..line
            }
            .takes_bursts()
        );
        assert!(
            !AckLoss {
                down_queue: 24.0,
                ..line
            }
            .tail_drop_times_out()
        );
        assert!(
            AckLoss {
                down_queue: 24.1,
                ..line
            }
            .tail_drop_times_out()
        );
    }

    /// Brouer B.6.1. The 115 and 30 kbit/s printed in
    /// ADSL-8.C and 8.4 come from an older formula that is not published.
    #[test]
    fn reserves_of_the_script() {
        for (down, reserve) in [(512, 25), (1_800, 85), (2_000, 95), (7_200, 340)] {
            assert_eq!(
                AckReserve::THESIS.script_kbit(down),
                Some(reserve),
                "{down}"
            );
            let exact = AckReserve::THESIS.rate(Rate::kbit(down)).expect("divisors");
            // The truncated divisions and the added 1 bracket the exact value.
            assert!(exact.as_kbit() <= reserve as f64 && reserve as f64 - exact.as_kbit() <= 1.0);
        }
        let other = AckReserve {
            ack_wire_bytes: 96,
            delayed_ack_tenths: 12,
            ..AckReserve::THESIS
        };
        assert_eq!(other.script_kbit(2_000), Some(107));
        assert_eq!(
            AckReserve {
                data_bytes: 0,
                ..other
            }
            .script_kbit(1),
            None
        );
        assert_eq!(
            AckReserve {
                delayed_ack_tenths: 0,
                ..other
            }
            .rate(Rate::kbit(1)),
            None
        );
        assert_eq!(other.script_kbit(u64::MAX), None);
    }

    /// ADSL-8.C: 63.6 kbit/s at two packets per ACK, 63.8 measured.
    #[test]
    fn the_rate_that_acks_took() {
        let two = AckReserve {
            delayed_ack_tenths: 20,
            ..AckReserve::THESIS
        };
        close(
            two.rate(Rate::kbit(1_800)).expect("divisors").as_kbit(),
            63.6,
            0.000_5,
        );
    }

    #[test]
    fn reserves_on_other_links() {
        let adsl = LinkLayer::named("adsl:pppoa-vc").expect("a name");
        assert_eq!(AckReserve::on(&adsl, 40, 1_500, 15), AckReserve::THESIS);
        // ADSL-C: an ACK with timestamps fits in two cells, with SACK in three.
        let tele2 = LinkLayer::custom(28, 0, Framing::Atm).expect("in range");
        assert_eq!(AckReserve::on(&tele2, 52, 1_500, 15).ack_wire_bytes, 106);
        assert_eq!(AckReserve::on(&tele2, 72, 1_500, 15).ack_wire_bytes, 159);
        let vdsl = LinkLayer::named("vdsl2:pppoe").expect("a name");
        let v6 = AckReserve::on(&vdsl, 72, 1_492, 20);
        assert_eq!(v6.ack_wire_bytes, 104);
        close(
            v6.rate(Rate::kbit(50_000)).expect("divisors").as_kbit(),
            1_742.6,
            0.1,
        );
    }

    /// ADSL-9.2: the classes share the rest of 767 kbit/s in whole kbit/s; ceilings are shares of
    /// the whole.
    #[test]
    fn classes_of_adsl_9_2() {
        let ack = AckReserve::THESIS.script_kbit(7_200).expect("divisors");
        let left = 767 - ack;
        assert_eq!((ack, left), (340, 427));
        let kbit = |percent, of| Share::percent(percent).of(Rate::kbit(of)).as_kbit() as u64;
        for (percent, rate) in [(20, 85), (28, 119), (22, 93), (20, 85), (10, 42)] {
            assert_eq!(kbit(percent, left), rate, "{percent} %");
        }
        for (percent, ceil) in [(20, 153), (90, 690), (80, 613), (95, 728), (100, 767)] {
            assert_eq!(kbit(percent, 767), ceil, "{percent} %");
        }
    }
}
