// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sends echo requests at equal intervals, whether or not earlier ones were answered.

use crate::remote::echo::{Icmp, complaint};
use crate::remote::error::RemoteError;
use crate::sequence::connected::Session;
use crate::sequence::datagram::{STAMP, TURN, stamp, stamped};
use crate::sequence::outcome::Pinged;
use crate::sequence::plan::Ping;
use crate::sequence::stop::{Stop, lock};
use crate::sequence::wanted::Exchange;
use crate::train::pace::{passing, since};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The time after which an echo is lost: a modem's buffer may hold it for seconds.
const LOST: Duration = Duration::from_secs(8);
/// The bytes of headers: of IPv4 and UDP, and of IPv6 and UDP.
const HEADERS: [u32; 2] = [28, 48];

/// The peer that returns echoes.
#[derive(Debug)]
pub(crate) enum Pinger {
    Icmp(Icmp),
    Udp(Session, u32),
}

impl Pinger {
    pub(crate) fn open(ping: &Ping, server: SocketAddr) -> Result<Self, RemoteError> {
        if !ping.udp {
            return Ok(Self::Icmp(Icmp::open_with(server.ip(), ping.dscp)?));
        }
        let headers = HEADERS[usize::from(server.is_ipv6())];
        let session = Session::open(server, Exchange::Echo, ping.dscp)?;
        session.socket.set_read_timeout(Some(TURN))?;
        Ok(Self::Udp(session, headers))
    }

    /// Sends one echo; if that fails, it counts as lost on the path.
    fn send(&self, number: u16, size: u32) {
        match self {
            Self::Icmp(icmp) => {
                let _ = icmp.emit(number, size);
            }
            Self::Udp(session, headers) => {
                let length = size.saturating_sub(*headers).max(u32::from(STAMP));
                let mut payload = vec![0; length as usize];
                stamp(&mut payload, u32::from(number), 0);
                let _ = session.socket.send(&payload);
            }
        }
    }

    /// Waits a short time for one; returns false if no more will arrive.
    fn receive(&self, came: impl FnOnce(u16)) -> bool {
        match self {
            Self::Icmp(icmp) => match icmp.receive(TURN) {
                Ok(number) => {
                    if let Some((number, _)) = number {
                        came(number);
                    }
                    true
                }
                Err(error) => error == Errno::INTR || complaint(error).is_some(),
            },
            Self::Udp(session, _) => {
                let mut payload = [0; 16];
                match session.socket.recv(&mut payload) {
                    Ok(length) => {
                        if let Some((number, _)) = stamped(&payload[..length]) {
                            came(number as u16);
                        }
                        true
                    }
                    Err(error) => passing(&error),
                }
            }
        }
    }

    /// Sends echoes while a run lasts, and waits for the last ones.
    pub(crate) fn ping(&self, of: usize, ping: &Ping, begin: Instant, stop: &Stop) -> Vec<Pinged> {
        let done: Mutex<Vec<Pinged>> = Mutex::default();
        // Maps numbers to echoes, because numbers are reused.
        let sent: Mutex<BTreeMap<u16, usize>> = Mutex::default();
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let more = self.receive(|number| {
                        let now = Duration::from_nanos(since(begin));
                        let place = lock(&sent).remove(&number);
                        let mut done = lock(&done);
                        if let Some(one) = place.and_then(|place| done.get_mut(place)) {
                            let took = now.saturating_sub(one.at);
                            one.took = (took < LOST).then_some(took);
                        }
                    });
                    if !more {
                        break;
                    }
                }
            });
            for (from, to) in &ping.runs {
                let mut at = *from;
                while at < *to && stop.until(begin + at) {
                    let mut all = lock(&done);
                    let number = all.len() as u16;
                    lock(&sent).insert(number, all.len());
                    all.push(Pinged {
                        ping: of,
                        at: Duration::from_nanos(since(begin)),
                        took: None,
                    });
                    drop(all);
                    self.send(number, ping.size);
                    at += ping.interval;
                }
            }
            // The last echoes may still arrive.
            let waits = || {
                let done = lock(&done);
                let young = |place: &usize| {
                    let sent = done.get(*place).map(|one| begin + one.at);
                    sent.is_some_and(|sent| sent.elapsed() < LOST)
                };
                lock(&sent).values().any(young)
            };
            while !stop.stopped() && waits() {
                thread::sleep(TURN);
            }
            over.store(true, Ordering::Relaxed);
        });
        done.into_inner()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
