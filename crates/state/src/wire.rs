// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What packets cost on a wire, as qdiscs that count it themselves are configured.

use serde::{Deserialize, Serialize};
use std::fmt::{self, Display, Formatter};

/// cake's compensation for cells and code words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum CakeFraming {
    /// As they are (`noatm`).
    #[default]
    None,
    /// ATM cells, 48 bytes in 53.
    Atm,
    /// PTM, 64 bytes in 65.
    Ptm,
}

/// What is added to a packet (`aqm_wire`, aqm/include/aqm.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct KitWire {
    /// Bytes beside those that the device counts; may be negative.
    pub overhead: i32,
    /// Smallest frame, `overhead` included.
    pub mpu: u32,
    /// How bytes travel.
    pub framing: CakeFraming,
}

impl Display for KitWire {
    /// As tc says it of cake.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let framing = match self.framing {
            CakeFraming::None => "",
            CakeFraming::Atm => " atm",
            CakeFraming::Ptm => " ptm",
        };
        write!(f, "overhead {} mpu {}{framing}", self.overhead, self.mpu)
    }
}
