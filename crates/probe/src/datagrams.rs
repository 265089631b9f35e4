// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Datagrams to one peer and back, behind a trait, so that tests can replace the network by a
//! script.

use crate::train::message::Train;
use crate::train::pace;
use std::fmt::Debug;
use std::io;
use std::net::UdpSocket;
use std::thread;
use std::time::{Duration, Instant};

/// A way for datagrams to one peer and back.
pub trait Datagrams: Debug + Send {
    /// Sends one.
    fn send(&self, payload: &[u8]) -> io::Result<()>;

    /// Waits so long for the next; how long it is.
    fn hear(&self, to: &mut [u8], patience: Duration) -> io::Result<usize>;

    /// Sends a train, with times since `clock`.
    fn send_train(&self, train: &Train, clock: Instant) -> io::Result<()>;

    /// Sends nothing for so long.
    fn pause(&self, time: Duration) {
        thread::sleep(time);
    }
}

/// One that is connected.
impl Datagrams for UdpSocket {
    fn send(&self, payload: &[u8]) -> io::Result<()> {
        self.send(payload).map(|_| ())
    }

    fn hear(&self, to: &mut [u8], patience: Duration) -> io::Result<usize> {
        self.set_read_timeout(Some(patience))?;
        self.recv(to)
    }

    fn send_train(&self, train: &Train, clock: Instant) -> io::Result<()> {
        pace::send(self, self.peer_addr()?, train, clock)
    }
}
