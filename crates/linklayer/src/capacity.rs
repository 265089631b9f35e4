// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rates, times and efficiency that follow from the cost of a packet. Margins, buffers and classes
//! are elsewhere.

use crate::{Framing, LinkLayer};
use weirgate_units::{Rate, Size, Span};

impl LinkLayer {
    /// Returns the rate that a line leaves for packets, in wire bytes: all of it, or 26/27 with OAM
    /// cells (Brouer 5.1.7). Rounded down.
    #[must_use]
    pub fn usable_rate(&self, line: Rate) -> Rate {
        if self.oam() {
            scale(line, 26, 27)
        } else {
            line
        }
    }

    /// Returns the rate of frames before cells or codewords: 48/53 of the line with ATM, 64/65 with
    /// PTM, less OAM cells. It bounds the rate of packets of any size; [`LinkLayer::ip_ceiling`] is
    /// the bound for one size.
    #[must_use]
    pub fn payload_rate(&self, line: Rate) -> Rate {
        let (payload, wire) = match self.framing() {
            Framing::None => (1, 1),
            Framing::Atm => (48, 53),
            Framing::Ptm => (64, 65),
        };
        if self.oam() {
            scale(line, payload * 26, wire * 27)
        } else {
            scale(line, payload, wire)
        }
    }

    /// Returns the IP ceiling: the rate of IP packets of `mtu` bytes that fills the line. Rounded
    /// down.
    #[must_use]
    pub fn ip_ceiling(&self, line: Rate, mtu: u32) -> Rate {
        let (part, whole) = (u128::from(mtu), u128::from(self.wire_bytes(mtu)));
        if self.oam() {
            scale(line, part * 26, whole * 27)
        } else {
            scale(line, part, whole)
        }
    }

    /// Returns IP bytes over wire bytes, 0 to 1 (above 1 only where the overhead is negative).
    #[must_use]
    pub fn efficiency(&self, ip_len: u32) -> f64 {
        f64::from(ip_len) / f64::from(self.wire_bytes(ip_len))
    }

    /// Returns how many packets of `ip_len` bytes a second fill the line.
    #[must_use]
    pub fn packets_per_second(&self, line: Rate, ip_len: u32) -> f64 {
        let wire_bits = f64::from(self.wire_bytes(ip_len)) * 8.0;
        let packets = line.as_bits_per_second() as f64 / wire_bits;
        if self.oam() {
            packets * 26.0 / 27.0
        } else {
            packets
        }
    }

    /// Returns the time that a packet occupies the line, rounded up to a nanosecond; `None` at a
    /// rate of 0.
    #[must_use]
    pub fn serialisation(&self, line: Rate, ip_len: u32) -> Option<Span> {
        self.serialisation_of(line, self.wire_bytes(ip_len))
    }

    /// Returns the same for a packet of `wire` bytes on the wire.
    ///
    /// With OAM cells, the time includes as many of them as can occur within the packet: one for
    /// each 26 of its cells, rounded up. It is an upper bound for one packet;
    /// [`LinkLayer::packets_per_second`] is the average of many.
    #[must_use]
    pub fn serialisation_of(&self, line: Rate, wire: u32) -> Option<Span> {
        let wire = u64::from(wire);
        let oam = if self.oam() {
            (wire / 53).div_ceil(26) * 53
        } else {
            0
        };
        line.time_for(Size::bytes(wire + oam))
    }

    /// Returns the rate in wire bytes that `packets_per_second` packets of `ip_len` bytes take.
    #[must_use]
    pub fn wire_rate(&self, ip_len: u32, packets_per_second: u32) -> Rate {
        let bytes = u64::from(self.wire_bytes(ip_len)) * u64::from(packets_per_second);
        Rate::bits_per_second(bytes.saturating_mul(8))
    }
}

/// Returns `rate * part / whole`, rounded down.
fn scale(rate: Rate, part: u128, whole: u128) -> Rate {
    let bits = u128::from(rate.as_bits_per_second()) * part / whole;
    Rate::bits_per_second(u64::try_from(bits).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells() -> LinkLayer {
        LinkLayer::custom(0, 0, Framing::Atm).expect("in range")
    }

    fn tele2() -> LinkLayer {
        LinkLayer::named("adsl:bridged-vc-fcs").expect("a name")
    }

    fn ms(span: Option<Span>) -> f64 {
        span.expect("a rate above 0").as_millis_f64()
    }

    #[track_caller]
    fn close(found: f64, printed: f64, half_a_digit: f64) {
        assert!(
            (found - printed).abs() <= half_a_digit,
            "{found} is not {printed}"
        );
    }

    /// ADSL-C: 1811 of 2000, 463.7 of 512, 452.8 for full packets, which is
    /// 1769 of 2000.
    #[test]
    fn ceilings_of_the_tele2_line() {
        close(
            tele2().payload_rate(Rate::kbit(2_000)).as_kbit(),
            1_811.0,
            0.5,
        );
        close(tele2().payload_rate(Rate::kbit(512)).as_kbit(), 463.7, 0.05);
        close(
            tele2().ip_ceiling(Rate::kbit(512), 1_500).as_kbit(),
            452.8,
            0.05,
        );
        close(
            tele2().ip_ceiling(Rate::kbit(2_000), 1_500).as_kbit(),
            1_769.0,
            0.5,
        );
        close(tele2().efficiency(1_500), 0.8844, 0.00005);
        close(tele2().efficiency(40), 40.0 / 106.0, 1e-12);
    }

    /// Table 7.2 and ADSL-7.1: cells only, 2000 and 512 kbit/s, and the bound
    /// with the idle line's 8.5 ms.
    #[test]
    fn serialisation_of_table_7_2() {
        for (ip, wire, down, up, bound) in [
            (36, 53, 0.21, 0.83, 9.33),
            (84, 106, 0.42, 1.66, 10.16),
            (500, 583, 2.33, 9.11, 17.61),
            (1_000, 1_113, 4.45, 17.39, 25.89),
            (1_500, 1_696, 6.78, 26.50, 35.00),
        ] {
            assert_eq!(cells().wire_bytes(ip), wire);
            let time = ms(cells().serialisation(Rate::kbit(512), ip));
            close(
                ms(cells().serialisation(Rate::kbit(2_000), ip)),
                down,
                0.006,
            );
            close(time, up, 0.006);
            close(time + 8.5, bound, 0.006);
        }
        // A probe of 84 bytes with its overhead takes a third cell: 2.48 ms.
        close(ms(tele2().serialisation(Rate::kbit(512), 84)), 2.48, 0.005);
        // Two full packets ahead: ADSL-7.9, and ADSL-9.2 on 768 kbit/s.
        close(
            2.0 * ms(tele2().serialisation(Rate::kbit(512), 1_500)) + 8.0,
            61.0,
            0.005,
        );
        close(
            2.0 * ms(tele2().serialisation(Rate::kbit(768), 1_500)) + 8.0,
            43.3,
            0.05,
        );
    }

    /// ADSL-A.1/A.2: down and up together on 2000/512, with a 9 ms baseline.
    #[test]
    fn serialisation_of_appendix_a() {
        for (ip, both, with_base) in [
            (36, 1.04, 10.04),
            (84, 2.08, 11.08),
            (500, 11.44, 20.44),
            (1_000, 21.84, 30.84),
            (1_500, 33.28, 42.28),
        ] {
            let sum = ms(cells().serialisation(Rate::kbit(2_000), ip))
                + ms(cells().serialisation(Rate::kbit(512), ip));
            close(sum, both, 0.0061);
            close(sum + 9.0, with_base, 0.0061);
        }
        // From a remote host, 5.61 ms away for this size: 47.80 was measured.
        let full = ms(cells().serialisation(Rate::kbit(2_000), 1_500))
            + ms(cells().serialisation(Rate::kbit(512), 1_500));
        close(full + 9.0 + 5.61, 47.89, 0.006);
    }

    /// Brouer 5.1.7 and B.6.1: one cell in 27.
    #[test]
    fn oam_cells_take_one_in_27() {
        let oam = tele2().with_oam(true);
        close(
            oam.payload_rate(Rate::kbit(512)).as_kbit(),
            446.524_109,
            0.001,
        );
        close(
            oam.payload_rate(Rate::kbit(500)).as_kbit(),
            436.058_700,
            0.001,
        );
        let thousand = oam.payload_rate(Rate::kbit(1_000_000)).as_kbit();
        close(1e6 / thousand, 1.146_63, 0.000_005);
        let line = Rate::bits_per_second((432_178.0 * 1.146_634_6) as u64);
        close(line.as_kbit(), 495.550, 0.01);
        close(oam.payload_rate(line).as_kbit(), 432.178, 0.001);
        assert_eq!(oam.usable_rate(Rate::kbit(2_700)), Rate::kbit(2_600));
        assert_eq!(oam.wire_bytes(1_500), tele2().wire_bytes(1_500));
        // 32 cells can meet two OAM cells.
        assert_eq!(
            oam.serialisation(Rate::kbit(512), 1_500),
            Rate::kbit(512).time_for(Size::bytes(34 * 53))
        );
        close(
            oam.packets_per_second(Rate::kbit(512), 1_500),
            37.736 * 26.0 / 27.0,
            0.001,
        );
    }

    /// ADSL-6.1 and 6.2: the streams' rates on the wire.
    #[test]
    fn loads_of_adsl_6() {
        assert_eq!(tele2().wire_rate(40, 100), Rate::bits_per_second(84_800));
        assert_eq!(tele2().wire_rate(40, 1_000), Rate::kbit(848));
        // Bulk alone at 450 kbit/s fits, bulk with the UDP stream does not.
        let bulk = |ip_kbit: f64| ip_kbit / tele2().efficiency(1_500);
        close(bulk(450.0), 508.8, 0.01);
        close(bulk(450.0 - 32.0) + 84.8, 557.0, 0.5);
        // Ideal bulk IP rate beside 100/s, and beside a class held at 204.8.
        let left = |kbit: u64| {
            tele2()
                .ip_ceiling(Rate::bits_per_second(kbit), 1_500)
                .as_kbit()
        };
        close(left(512_000 - 84_800), 378.0, 0.5);
        close(left(512_000 - 204_800), 272.0, 0.5);
        // Class 1:50: 204.8 or 204 kbit/s in packets of two cells.
        close(
            tele2().packets_per_second(Rate::bits_per_second(204_800), 40),
            241.5,
            0.05,
        );
        close(tele2().packets_per_second(Rate::kbit(204), 40), 240.6, 0.05);
    }

    /// ADSL-9.2: PPPoA-VC at 768 up and 8000 down.
    #[test]
    fn stalls_of_adsl_9_2() {
        let tdc = LinkLayer::named("adsl:pppoa-vc").expect("a name");
        let spacing = ms(tdc.serialisation(Rate::kbit(768), 40));
        close(spacing, 1.1, 0.05);
        let data = ms(tdc.serialisation(Rate::kbit(8_000), 1_500));
        close(data, 1.696, 0.000_5);
        close(40.0 / data, 24.0, 0.5);
        close(ms(tdc.serialisation(Rate::kbit(768), 1_500)), 17.66, 0.01);
    }

    /// DS-C: 1470 bytes of 1538 on 10 Mbit/s, in units of 2^20.
    #[test]
    fn ethernet_ceiling_of_the_diffserv_testbed() {
        let ethernet = LinkLayer::named("ethernet").expect("a name");
        assert_eq!(ethernet.wire_bytes(1_500), 1_538);
        let payload = ethernet.packets_per_second(Rate::kbit(10_000), 1_500) * 1_470.0 * 8.0;
        close(payload / f64::from(1 << 20), 9.115, 0.000_5);
        // DS-2: TBF at 1.5 Mbit/s counting frames of 1514 bytes.
        let frames = LinkLayer::custom(44, 0, Framing::None).expect("in range");
        let tbf = frames.ip_ceiling(Rate::kbit(1_500), 1_470).as_kbit();
        close(tbf * 1e3 / f64::from(1 << 20), 1.39, 0.005);
    }

    #[test]
    fn nothing_divides_by_zero() {
        let raw = LinkLayer::named("raw").expect("a name");
        assert_eq!(raw.serialisation(Rate::kbit(0), 1_500), None);
        assert_eq!(raw.efficiency(0), 0.0);
        assert_eq!(raw.ip_ceiling(Rate::kbit(10), 0), Rate::kbit(0));
        assert_eq!(raw.packets_per_second(Rate::bits_per_second(8), 0), 1.0);
        assert_eq!(
            raw.wire_rate(u32::MAX, u32::MAX),
            Rate::bits_per_second(u64::MAX)
        );
        let fast = Rate::bits_per_second(u64::MAX);
        assert_eq!(raw.ip_ceiling(fast, u32::MAX), fast);
    }
}
