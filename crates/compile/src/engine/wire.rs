// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How BPF engines are configured to count bytes on the wire.

use weirgate_linklayer::Framing;
use weirgate_policy::Link;
use weirgate_state::{CakeFraming, KitWire};

/// What packets of a link cost, as its device counts them.
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
