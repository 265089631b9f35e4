// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Switches the machine off.

use rustix::system::{RebootCommand, reboot};
use rustix::termios::tcdrain;
use std::io;

/// Switches the machine off. The lab sees the outcome of the job from a complete result at the
/// port, or from an `@error` line on the console.
pub(crate) fn off() -> ! {
    // Otherwise output that is still on its way to the console would be lost. The call fails
    // harmlessly if the console is not a terminal.
    let _ = tcdrain(io::stdout());
    let _ = reboot(RebootCommand::PowerOff);
    // If this is reached, power-off has failed. A first process must not return; the lab's time
    // limit ends the machine.
    loop {
        std::thread::park();
    }
}
