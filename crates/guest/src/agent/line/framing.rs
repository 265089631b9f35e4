// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Computes the number of bytes that a packet takes on the line.
//!
//! It is written from the standards and shares no code with crate `linklayer`: the line judges
//! what a shaper under test assumes about it.

use weirgate_experiment::{Framing, Line};

/// Payload of an ATM cell (ITU-T I.361).
const CELL_PAYLOAD: u32 = 48;
/// Bytes of an ATM cell with its header.
const CELL: u32 = 53;
/// Payload of a PTM codeword in bytes (ITU-T G.993.2 annex N, IEEE 802.3 clause 61.3.3). The
/// codeword is one byte longer.
const CODEWORD_PAYLOAD: u32 = 64;

/// How a line converts IP packets to line bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wire {
    framing: Framing,
    overhead: i32,
    mpu: u32,
}

impl Wire {
    /// Returns the framing of a line.
    #[must_use]
    pub const fn of(line: &Line) -> Self {
        Self {
            framing: line.framing,
            overhead: line.overhead,
            mpu: line.mpu,
        }
    }

    /// Returns the line bytes of a packet of `ip_bytes`. A partial PTM codeword counts its extra
    /// byte in full.
    #[must_use]
    pub fn bytes(&self, ip_bytes: u32) -> u32 {
        let framed = ip_bytes.saturating_add_signed(self.overhead).max(self.mpu);
        match self.framing {
            Framing::None => framed,
            Framing::Atm => framed.div_ceil(CELL_PAYLOAD).saturating_mul(CELL),
            Framing::Ptm => framed.saturating_add(framed.div_ceil(CODEWORD_PAYLOAD)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Framing, Wire};

    #[test]
    fn adsl_with_28_bytes_is_table_7_2() {
        let wire = Wire {
            framing: Framing::Atm,
            overhead: 28,
            mpu: 0,
        };
        let sizes = [36, 84, 500, 1_000, 1_500].map(|size| wire.bytes(size));
        // ADSL thesis, table 7.2, which leaves out the overhead: with it, 84 and 1000 bytes take
        // one more cell.
        assert_eq!(sizes, [106, 159, 583, 1_166, 1_696]);
    }

    #[test]
    fn other_framings() {
        let wire = |framing, overhead, mpu| Wire {
            framing,
            overhead,
            mpu,
        };
        assert_eq!(wire(Framing::None, 38, 84).bytes(40), 84);
        assert_eq!(wire(Framing::None, 38, 84).bytes(1_500), 1_538);
        assert_eq!(wire(Framing::None, -20, 0).bytes(10), 0);
        assert_eq!(wire(Framing::Ptm, 0, 0).bytes(64), 65);
        assert_eq!(wire(Framing::Ptm, 0, 0).bytes(65), 67);
    }
}
