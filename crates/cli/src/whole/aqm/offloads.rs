// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The offloads of a device with a discipline's gate, and the notes about them.

use crate::policy::apply::refused;
use crate::whole::aqm::target::Target;
use weirgate_console::exit::Failure;
use weirgate_console::output;
use weirgate_keep::{joining, offloads_back, offloads_off};
use weirgate_kernel::Kernel;
use weirgate_state::DeviceName;

/// Switches off the offloads that merge packets on their way to the device, until [`restore`].
/// Returns whether any was on.
pub async fn switch_off(target: &Target) -> Result<bool, Failure> {
    let switched = offloads_off(&target.kernel, &target.name, target.point).await;
    let switched = switched.map_err(refused)?;
    if switched {
        say_off(&target.name);
    }
    Ok(switched)
}

/// Notes that offloads of a device are off.
pub fn say_off(name: &DeviceName) {
    output::note(&format!(
        "{name}: TSO, GSO and joined packets of this machine's TCP are off until the qdisc is \
         removed"
    ));
}

/// Notes which other devices may forward merged packets.
pub async fn warn_of_joined(kernel: &Kernel, name: &DeviceName) -> Result<(), Failure> {
    let joining = joining(kernel, name).await.map_err(refused)?;
    let joining: Vec<&str> = joining.iter().map(DeviceName::as_str).collect();
    if !joining.is_empty() {
        output::note(&format!(
            "packets through {} may be merged (GRO), up to 64 kB as one; if they are forwarded \
             to {name}, switch GRO off: `ethtool -K DEVICE gro off`",
            joining.join(", "),
        ));
    }
    Ok(())
}

/// Switches on the offloads that [`switch_off`] switched off.
pub async fn restore(target: &Target) -> Result<(), Failure> {
    let back = offloads_back(&target.kernel, &target.name, target.point).await;
    back.map_err(refused)
}
