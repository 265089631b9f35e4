// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How a filter that holds arriving packets to a rate reads.

use weirgate_state::{CakeFraming, Hold};

/// The filter, in words.
pub(crate) fn text(hold: &Hold) -> String {
    let framing = match hold.wire.framing {
        CakeFraming::None => "",
        CakeFraming::Atm => " atm",
        CakeFraming::Ptm => " ptm",
    };
    let said: Vec<String> = hold
        .settings
        .iter()
        .filter(|one| !one.usual)
        .map(|one| format!(" {}={}", one.name, one.value))
        .collect();
    let said = said.concat();
    format!(
        "held to {} overhead {} mpu {}{framing} mtu {} flows {}{said}",
        hold.rate, hold.wire.overhead, hold.wire.mpu, hold.mtu, hold.parts
    )
}
