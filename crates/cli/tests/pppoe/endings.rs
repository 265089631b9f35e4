// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What ends a session.

use crate::daemons::{Daemon, sessions_end};
use crate::session::{in_space, line_carries, run, until};
use crate::wire::{address, index, send_frame};
use std::thread;
use std::time::Duration;

/// The events that end a session.
pub const ENDINGS: [&str; 8] = [
    "the router hangs up",
    "the provider's pppd dies",
    "the provider sends a PADT",
    "the line is silent for 6 s",
    "the wire has no carrier for 6 s",
    "the wire is switched off and on",
    "the router's pppd dies, and another is started",
    "the provider's server dies with its sessions, and another is started",
];

/// Both ends of a session.
pub struct Ends {
    dialler: Daemon,
    server: Daemon,
}

impl Ends {
    /// Starts both ends.
    pub fn new() -> Self {
        let server = Daemon::server();
        Self {
            dialler: Daemon::dialler(),
            server,
        }
    }

    /// Ends the session with this number and device by this event of [`ENDINGS`].
    pub fn session(&mut self, ending: usize, device: &str, number: Option<u16>) {
        match ending {
            0 => self.dialler.hangs_up(),
            1 => sessions_end(&self.dialler),
            2 => padt(number.expect("a session that sent something")),
            3 => {
                line_carries(false);
                thread::sleep(Duration::from_secs(6));
                line_carries(true);
            }
            4 => {
                run("ip -n modem link set port0 down");
                thread::sleep(Duration::from_secs(6));
                run("ip -n modem link set port0 up");
            }
            5 => {
                run("ip link set wire down");
                until("end of the session", || {
                    index(device).is_none().then_some(())
                });
                run("ip link set wire up");
            }
            6 => {
                self.dialler.ends();
                self.dialler = Daemon::dialler();
            }
            _ => {
                self.server.ends();
                sessions_end(&self.dialler);
                self.server = Daemon::server();
            }
        }
    }
}

/// Sends the provider's message that a session has ended (RFC 2516, section 5.5).
fn padt(session: u16) {
    let to = address("wire");
    in_space("isp", move || {
        let mut frame = to;
        frame.extend(address("isp0"));
        // EtherType, version and type of PPPoE, code, session, no tags.
        frame.extend([0x88, 0x63, 0x11, 0xa7]);
        frame.extend(session.to_be_bytes());
        frame.extend([0, 0]);
        send_frame("isp0", &frame);
    });
}
