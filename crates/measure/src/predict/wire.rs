// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The cost of an IP packet on the line, from the line's description.

use weirgate_experiment::{Framing, Line};
use weirgate_units::Rate;

/// Largest IP packet on the lab's links.
pub(super) const MTU: u64 = 1500;

/// Returns the bytes on the wire of an IP packet.
pub fn wire_bytes(line: &Line, ip_bytes: u64) -> u64 {
    let size = i64::try_from(ip_bytes)
        .unwrap_or(i64::MAX)
        .saturating_add(i64::from(line.overhead));
    let size = u64::try_from(size).unwrap_or(0).max(u64::from(line.mpu));
    match line.framing {
        Framing::None => size,
        // 48 bytes of payload in cells of 53 (ITU-T I.361).
        Framing::Atm => size.div_ceil(48) * 53,
        // 64 bytes in 65 (ITU-T G.992.3 annex N).
        Framing::Ptm => size + size.div_ceil(64),
    }
}

/// Returns the rate of IP packets of 1500 bytes that fills the wire, kbit/s.
pub fn ip_ceiling_kbit(line: &Line, rate: Rate) -> f64 {
    rate.as_kbit() * MTU as f64 / wire_bytes(line, MTU) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn costs_are_those_of_brouers_table_7_2() {
        let mut line = sample::line();
        line.overhead = 0;
        let costs = [36, 84, 500, 1000, 1500].map(|ip| wire_bytes(&line, ip));
        assert_eq!(costs, [53, 106, 583, 1113, 1696]);
        line.overhead = 28;
        assert_eq!(wire_bytes(&line, 84), 159);
        assert_eq!(ip_ceiling_kbit(&line, Rate::kbit(2000)).round(), 1769.0);
        line.framing = Framing::Ptm;
        line.overhead = 0;
        assert_eq!([64, 65, 128].map(|ip| wire_bytes(&line, ip)), [65, 67, 130]);
        line.framing = Framing::None;
        line.overhead = -10;
        line.mpu = 46;
        assert_eq!([5, 40, 100].map(|ip| wire_bytes(&line, ip)), [46, 46, 90]);
    }
}
