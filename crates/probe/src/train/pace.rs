// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sends a train: packets at even intervals, by the clock.

use crate::train::message::{Message, Train};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

/// Sends a train. A sender that is late catches up, so that the mean interval is right. If the
/// send buffer is full, the packet counts as lost on the path.
pub fn send(socket: &UdpSocket, to: SocketAddr, train: &Train, clock: Instant) -> io::Result<()> {
    let begin = Instant::now();
    let gap = Duration::from_nanos(train.gap_ns);
    let mut payload = vec![0; usize::from(train.payload)];
    for index in 0..train.count {
        let due = begin + gap * index;
        let wait = due.saturating_duration_since(Instant::now());
        if !wait.is_zero() {
            thread::sleep(wait);
        }
        let message = Message::Data {
            id: train.id,
            index,
            sent_ns: since(clock),
        };
        let head = message.bytes();
        payload[..head.len()].copy_from_slice(&head);
        match socket.send_to(&payload, to) {
            Ok(_) => {}
            Err(error) if passing(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Returns whether an error concerns a single packet, or an outage that may end: no room (ENOBUFS),
/// an unreachable port or host that an earlier packet found, no route, or a rule that forbids it.
pub(crate) fn passing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused
            | io::ErrorKind::WouldBlock
            | io::ErrorKind::TimedOut
            | io::ErrorKind::Interrupted
            | io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkUnreachable
            | io::ErrorKind::NetworkDown
            | io::ErrorKind::PermissionDenied
    ) || error.raw_os_error() == Some(105)
}

/// Returns the nanoseconds since a time.
pub fn since(clock: Instant) -> u64 {
    u64::try_from(clock.elapsed().as_nanos()).unwrap_or(u64::MAX)
}
