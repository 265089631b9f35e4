// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How a filter that holds arriving packets to a rate reads.

use weirgate_state::{CakeFraming, VirtualQueueFilter};

/// The filter, in words.
pub(crate) fn text(filter: &VirtualQueueFilter) -> String {
    let framing = match filter.wire.framing {
        CakeFraming::None => "",
        CakeFraming::Atm => " atm",
        CakeFraming::Ptm => " ptm",
    };
    let parameters: Vec<String> = filter
        .settings
        .iter()
        .filter(|one| !one.usual)
        .map(|one| format!(" {}={}", one.name, one.value))
        .collect();
    let parameters = parameters.concat();
    format!(
        "held to {} overhead {} mpu {}{framing} mtu {} flows {}{parameters}",
        filter.rate, filter.wire.overhead, filter.wire.mpu, filter.mtu, filter.parts
    )
}
