// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ends the machine.

use rustix::system::{RebootCommand, reboot};
use rustix::termios::tcdrain;
use std::io;

/// Switches the machine off. How its work went shows elsewhere: by a whole
/// result at the port, or by an `@error` line on the console.
pub(crate) fn off() -> ! {
    // What is still on its way to the console would be lost. A console that
    // is no terminal keeps nothing back.
    let _ = tcdrain(io::stdout());
    let _ = reboot(RebootCommand::PowerOff);
    // It did not: a first process must not return, and the lab's limit ends
    // the machine.
    loop {
        std::thread::park();
    }
}
