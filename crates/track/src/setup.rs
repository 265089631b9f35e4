// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The settings for the program that gives a controller its inputs.

use crate::model::Settings;
use std::net::IpAddr;
use weirgate_state::DeviceName;

/// Which hosts to probe, and which counters to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setup {
    /// The controller's settings. Its reflectors are those below, in the same order.
    pub settings: Settings,
    /// The hosts that get echo requests; no other host does.
    pub reflectors: Vec<IpAddr>,
    /// Whether round trips of the traffic itself are measured.
    pub passive: bool,
    /// The code point of probes, 0 to 63.
    pub dscp: u8,
    /// The device towards the line. Its counters tell what crossed the line.
    pub line: DeviceName,
    /// Whether probes leave through this device, whatever the routes of the router's own packets
    /// are: a router with several links sends these over one of them.
    pub bound: bool,
    /// The device that queues the downstream, if there is one.
    pub waits: Option<DeviceName>,
    /// What a packet costs on the line.
    pub cost: Cost,
}

/// Converts a device's byte and packet counters into bytes on the wire, by a part for each byte
/// and a part for each packet. It is exact for a pure ACK and a full packet; nearly all packets
/// are between these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cost {
    /// Bytes on the wire for each byte that the device counts, in 1024ths.
    pub byte: i64,
    /// Bytes on the wire for each packet, in 1024ths; may be negative.
    pub packet: i64,
}

impl Cost {
    /// The linear function through two packets, each with the bytes that the device counts and
    /// those on the wire.
    #[must_use]
    pub fn through(small: (u32, u32), large: (u32, u32)) -> Self {
        let counted = i64::from(large.0) - i64::from(small.0);
        let wire = i64::from(large.1) - i64::from(small.1);
        let byte = wire * 1024 / counted.max(1);
        Self {
            byte,
            packet: i64::from(small.1) * 1024 - byte * i64::from(small.0),
        }
    }

    /// Bytes on the wire.
    #[must_use]
    pub fn wire(self, bytes: u64, packets: u64) -> u64 {
        let parts = i128::from(bytes) * i128::from(self.byte)
            + i128::from(packets) * i128::from(self.packet);
        u64::try_from(parts / 1024).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::Cost;

    #[test]
    fn small_and_full_packets_are_exact() {
        // ATM, 28 bytes of overhead, behind Ethernet.
        let cost = Cost::through((54, 106), (1514, 1696));
        for (bytes, packets, wire) in [(54, 1, 106), (1514, 1, 1696), (1568, 2, 1802)] {
            assert!(cost.wire(bytes, packets).abs_diff(wire) <= 3);
        }
        let many = cost.wire(1514 * 1000 + 54 * 500, 1500);
        assert!(many.abs_diff(1_696_000 + 53_000) < 1_000, "{many}");
        assert_eq!(cost.wire(0, 0), 0);
        assert_eq!(Cost::through((5, 0), (5, 0)).wire(0, 3), 0);
    }
}
