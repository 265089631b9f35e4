// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sends and receives datagrams, behind a trait, so that tests can replace the network by a
//! script.

use crate::train::message::Train;
use crate::train::pace;
use std::fmt::Debug;
use std::io;
use std::net::UdpSocket;
use std::thread;
use std::time::{Duration, Instant};

/// A path for datagrams to one peer and back.
pub trait Datagrams: Debug + Send {
    /// Sends a datagram.
    fn send(&self, payload: &[u8]) -> io::Result<()>;

    /// Waits this long for the next datagram, and returns its length.
    fn hear(&self, to: &mut [u8], patience: Duration) -> io::Result<usize>;

    /// Sends a train, with times relative to `clock`.
    fn send_train(&self, train: &Train, clock: Instant) -> io::Result<()>;

    /// Sends nothing for this long.
    fn pause(&self, time: Duration) {
        thread::sleep(time);
    }
}

/// A connected socket.
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
