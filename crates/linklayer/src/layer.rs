// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The type [`LinkLayer`]: overhead, minimum and framing, and the cost of one packet. Names are in
//! `named`, rates and times in `capacity`.

use crate::DeviceKind;
use std::fmt;
use std::ops::RangeInclusive;
use thiserror::Error;

/// How a frame is encoded on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Framing {
    /// No cells or codewords.
    None,
    /// ATM cells of 53 bytes with 48 bytes of payload, the last one padded
    /// (ITU-T I.361; AAL5: I.363.5). Brouer's formula 5.1.
    Atm,
    /// 64/65-octet encapsulation: one sync octet before every 64 (IEEE 802.3 section 61.3.3, ITU-T
    /// G.992.3 annex N).
    ///
    /// Codewords continue across packets, so a packet's exact share is 65/64 of its bytes, which
    /// may be a fraction. It is rounded up to the next byte: never under, and over by less than one
    /// byte a packet.
    Ptm,
}

impl Framing {
    /// Returns the wire bytes of a frame of `length` bytes (at least 1).
    pub(crate) const fn expand(self, length: u64) -> u64 {
        match self {
            Self::None => length,
            Self::Atm => length.div_ceil(48) * 53,
            Self::Ptm => length + length.div_ceil(64),
        }
    }
}

/// The error of an overhead or a minimum that no link has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum OutOfRange {
    /// The overhead, in bytes relative to the IP packet.
    #[error(
        "an overhead of {0} bytes relative to the IP packet is out of range; \
         write a value that makes it {low} to {high}",
        low = LinkLayer::OVERHEAD.start(), high = LinkLayer::OVERHEAD.end()
    )]
    Overhead(i64),
    /// The minimum, in bytes.
    #[error("an mpu of {0} bytes is out of range; write 0 to {high}", high = LinkLayer::MPU.end())]
    Mpu(u32),
}

/// The cost of packets on one kind of link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LinkLayer {
    pub(crate) name: &'static str,
    pub(crate) overhead: i32,
    pub(crate) mpu: u32,
    pub(crate) framing: Framing,
    pub(crate) oam: bool,
}

impl LinkLayer {
    /// The overheads that [`LinkLayer::custom`] takes, the range of tc-cake(8).
    pub const OVERHEAD: RangeInclusive<i32> = -64..=256;
    /// The minima that [`LinkLayer::custom`] takes, the range of tc-cake(8).
    pub const MPU: RangeInclusive<u32> = 0..=256;

    /// Makes a custom link layer: `overhead` bytes relative to the IP packet, a smallest frame of
    /// `mpu` bytes (overhead included), then the framing. With [`Framing::Atm`] the overhead
    /// includes the 8 bytes of AAL5.
    pub fn custom(overhead: i32, mpu: u32, framing: Framing) -> Result<Self, OutOfRange> {
        if !Self::OVERHEAD.contains(&overhead) {
            return Err(OutOfRange::Overhead(i64::from(overhead)));
        }
        if !Self::MPU.contains(&mpu) {
            return Err(OutOfRange::Mpu(mpu));
        }
        Ok(Self {
            name: "custom",
            overhead,
            mpu,
            framing,
            oam: false,
        })
    }

    /// Makes a custom link layer whose overhead is relative to the length that Linux counts on
    /// `device`, as `overhead` of tc-stab(8), tc-cake(8) and tc-htb(8) is. It may be negative:
    /// PPPoA-VC takes 10 bytes and an Ethernet device already counts 14, so it is -4.
    pub fn relative_to_device(
        overhead: i32,
        mpu: u32,
        framing: Framing,
        device: DeviceKind,
    ) -> Result<Self, OutOfRange> {
        let absolute = i64::from(overhead) + i64::from(device.counted());
        let small = i32::try_from(absolute).map_err(|_| OutOfRange::Overhead(absolute))?;
        Self::custom(small, mpu, framing)
    }

    /// Returns the same link with or without operation, administration and maintenance (OAM) cells:
    /// one ATM cell in 27 (Brouer 5.1.7, ITU-T I.432).
    ///
    /// A packet costs the same; the rate left for packets is 26/27 of the line's
    /// ([`LinkLayer::usable_rate`]). Only [`Framing::Atm`] has OAM cells; other framings ignore the
    /// setting.
    #[must_use]
    pub const fn with_oam(mut self, present: bool) -> Self {
        self.oam = present && matches!(self.framing, Framing::Atm);
        self
    }

    /// Returns the wire bytes of an IP packet of `ip_len` bytes, at most `u32::MAX`. The result is
    /// at least 1, even with a negative overhead.
    #[must_use]
    pub const fn wire_bytes(&self, ip_len: u32) -> u32 {
        let wire = self.framing.expand(self.frame_bytes(ip_len));
        if wire > u32::MAX as u64 {
            u32::MAX
        } else {
            wire as u32
        }
    }

    /// Returns the bytes of the frame before cells or codewords: packet, overhead, and padding up
    /// to the minimum.
    const fn frame_bytes(&self, ip_len: u32) -> u64 {
        let stated = ip_len as i64 + self.overhead as i64;
        let least = if self.mpu > 1 { self.mpu as i64 } else { 1 };
        if stated > least {
            stated as u64
        } else {
            least as u64
        }
    }

    /// Returns the bytes of padding: up to the minimum and, with cells, in the last cell.
    #[must_use]
    pub const fn padding(&self, ip_len: u32) -> u32 {
        let frame = self.frame_bytes(ip_len);
        let to_minimum = frame as i64 - (ip_len as i64 + self.overhead as i64);
        let in_cell = match self.framing {
            Framing::Atm => frame.div_ceil(48) * 48 - frame,
            Framing::None | Framing::Ptm => 0,
        };
        to_minimum as u32 + in_cell as u32
    }

    /// Returns the name given to [`LinkLayer::named`], or `custom`.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the bytes added to every IP packet before the minimum and the framing.
    #[must_use]
    pub const fn overhead(&self) -> i32 {
        self.overhead
    }

    /// Returns the overhead relative to the length that Linux counts on `device`, the value of tc's
    /// `overhead` there.
    #[must_use]
    pub const fn overhead_on(&self, device: DeviceKind) -> i32 {
        self.overhead - device.counted() as i32
    }

    /// Returns the smallest frame in bytes, overhead included; 0 where there is none.
    #[must_use]
    pub const fn mpu(&self) -> u32 {
        self.mpu
    }

    /// Returns the framing.
    #[must_use]
    pub const fn framing(&self) -> Framing {
        self.framing
    }

    /// Returns whether OAM cells take a part of the line.
    #[must_use]
    pub const fn oam(&self) -> bool {
        self.oam
    }
}

/// For example `adsl:bridged-vc-fcs: overhead 28, mpu 74, ATM cells`.
impl fmt::Display for LinkLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: overhead {}", self.name, self.overhead)?;
        if self.mpu > 0 {
            write!(f, ", mpu {}", self.mpu)?;
        }
        f.write_str(match (self.framing, self.oam) {
            (Framing::None, _) => "",
            (Framing::Atm, false) => ", ATM cells",
            (Framing::Atm, true) => ", ATM cells, one in 27 of them OAM",
            (Framing::Ptm, _) => ", 64/65 octets",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sizes in cells that the theses use, with the overhead that they add.
    #[test]
    fn cells_of_the_theses() {
        for (ip, overhead, wire) in [
            (36, 0, 53),
            (40, 8, 53),
            (40, 10, 106),
            (40, 28, 106),
            (84, 28, 159),
            (500, 0, 583),
            (1_000, 0, 1_113),
            (1_500, 0, 1_696),
            (1_500, 28, 1_696),
            (1_500, 10, 1_696),
            (1_500, 44, 1_749),
            (2_000, 0, 2_226),
        ] {
            let layer = LinkLayer::custom(overhead, 0, Framing::Atm).expect("in range");
            assert_eq!(layer.wire_bytes(ip), wire, "{ip} + {overhead}");
        }
    }

    /// ADSL-C: if the 14 bytes that Linux counts are taken for part of the packet, a full packet
    /// and the packet generator's 54-byte frame cost one cell more.
    #[test]
    fn fourteen_bytes_counted_twice_cost_a_cell() {
        let layer = LinkLayer::custom(28, 0, Framing::Atm).expect("in range");
        assert_eq!(layer.wire_bytes(1_500), 32 * 53);
        assert_eq!(layer.wire_bytes(1_514), 33 * 53);
    }

    #[test]
    fn sixty_four_of_sixty_five() {
        let plain = LinkLayer::custom(0, 0, Framing::Ptm).expect("in range");
        for (length, wire) in [
            (1, 2),
            (63, 64),
            (64, 65),
            (65, 67),
            (1_522, 1_546),
            (6_400, 6_500),
        ] {
            assert_eq!(plain.wire_bytes(length), wire);
        }
    }

    #[test]
    fn extreme_lengths_neither_wrap_nor_vanish() {
        for framing in [Framing::None, Framing::Atm, Framing::Ptm] {
            let small = LinkLayer::custom(-64, 0, framing).expect("in range");
            assert_eq!(small.wire_bytes(0), framing.expand(1) as u32);
            assert_eq!(small.wire_bytes(64), framing.expand(1) as u32);
            assert_eq!(small.wire_bytes(66), framing.expand(2) as u32);
            let large = LinkLayer::custom(256, 256, framing).expect("in range");
            assert_eq!(large.wire_bytes(u32::MAX), u32::MAX);
            assert_eq!(large.wire_bytes(0), framing.expand(256) as u32);
        }
    }

    #[test]
    fn out_of_range_says_what_would_be_right() {
        let text = |r: Result<LinkLayer, OutOfRange>| r.expect_err("out of range").to_string();
        assert_eq!(
            text(LinkLayer::custom(257, 0, Framing::None)),
            "an overhead of 257 bytes relative to the IP packet is out of range; \
             write a value that makes it -64 to 256"
        );
        assert_eq!(
            text(LinkLayer::custom(0, 257, Framing::None)),
            "an mpu of 257 bytes is out of range; write 0 to 256"
        );
        let max = LinkLayer::relative_to_device(i32::MAX, 0, Framing::None, DeviceKind::Ethernet);
        assert_eq!(max, Err(OutOfRange::Overhead(2_147_483_661)));
        let min = LinkLayer::relative_to_device(i32::MIN, 0, Framing::None, DeviceKind::Tun);
        assert_eq!(min, Err(OutOfRange::Overhead(-2_147_483_648)));
    }

    #[test]
    fn relative_to_the_device_may_be_negative() {
        let pppoa = LinkLayer::named("adsl:pppoa-vc").expect("a name");
        assert_eq!(pppoa.overhead_on(DeviceKind::Ethernet), -4);
        let stated = LinkLayer::relative_to_device(-4, 0, Framing::Atm, DeviceKind::Ethernet);
        let stated = stated.expect("in range");
        assert_eq!((stated.overhead(), stated.name()), (10, "custom"));
        assert_eq!(stated.wire_bytes(40), pppoa.wire_bytes(40));
    }

    #[test]
    fn padding_is_what_carries_nothing() {
        let layer = LinkLayer::custom(28, 0, Framing::Atm).expect("in range");
        assert_eq!(layer.padding(1_500), 8, "Brouer 6.2.2: 32 cells hold 1536");
        assert_eq!(layer.padding(68), 0);
        assert_eq!(layer.padding(69), 47, "Brouer 6.1.1: the worst case");
        let fcs = LinkLayer::named("adsl:bridged-llc-fcs").expect("a name");
        assert_eq!(fcs.padding(40), 6 + 14, "6 to 82 bytes, 14 to two cells");
        let docsis = LinkLayer::named("docsis").expect("a name");
        assert_eq!((docsis.padding(40), docsis.padding(46)), (6, 0));
    }

    #[test]
    fn oam_cells_exist_on_atm_only() {
        let adsl = LinkLayer::named("adsl:pppoa-vc")
            .expect("a name")
            .with_oam(true);
        assert!(adsl.oam());
        assert_eq!(
            adsl.to_string(),
            "adsl:pppoa-vc: overhead 10, ATM cells, one in 27 of them OAM"
        );
        assert!(!adsl.with_oam(false).oam());
        let vdsl = LinkLayer::named("vdsl2").expect("a name");
        assert_eq!(vdsl.with_oam(true), vdsl);
        assert_eq!(vdsl.to_string(), "vdsl2: overhead 22, mpu 68, 64/65 octets");
    }
}
