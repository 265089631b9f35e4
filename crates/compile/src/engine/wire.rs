// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The overhead and framing settings of BPF engines.

use weirgate_linklayer::Framing;
use weirgate_policy::Link;
use weirgate_state::{CakeFraming, KitWire};

/// Returns the settings for packets of a link, relative to the bytes that its device counts.
pub(crate) fn of(link: &Link) -> KitWire {
    let layer = &link.layer.value;
    KitWire {
        overhead: layer.overhead_on(link.device_kind.value),
        mpu: layer.mpu(),
        framing: match layer.framing() {
            Framing::None => CakeFraming::None,
            Framing::Atm => CakeFraming::Atm,
            Framing::Ptm => CakeFraming::Ptm,
        },
    }
}
