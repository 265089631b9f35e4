// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The overhead of packets on a wire, for qdiscs that compute it themselves.

use serde::{Deserialize, Serialize};
use std::fmt::{self, Display, Formatter};

/// cake's compensation for the framing of the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum CakeFraming {
    /// No framing (`noatm`).
    #[default]
    None,
    /// ATM cells: 48 bytes of payload in 53.
    Atm,
    /// PTM code words: 64 bytes in 65.
    Ptm,
}

/// The overhead of a packet (`aqm_wire`, aqm/include/aqm.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct KitWire {
    /// The bytes beyond those that the device counts; may be negative.
    pub overhead: i32,
    /// The minimum frame size, including `overhead`.
    pub mpu: u32,
    /// The framing on the line.
    pub framing: CakeFraming,
}

impl Display for KitWire {
    /// Writes it in the form that tc uses for cake.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let framing = match self.framing {
            CakeFraming::None => "",
            CakeFraming::Atm => " atm",
            CakeFraming::Ptm => " ptm",
        };
        write!(f, "overhead {} mpu {}{framing}", self.overhead, self.mpu)
    }
}
