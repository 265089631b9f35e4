// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The connections to a place. Those that have not named their flow yet end soon. If there are
//! many, a newer one takes the slot of an older one, so that they keep no sender out.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Read};
use std::net::{IpAddr, Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use weirgate_units::network;

/// The largest number of connections that have not named their flow.
const STRANGERS: usize = 128;
/// The largest number of those that have.
const SENDERS: usize = 256;

/// The connections to one place.
#[derive(Default)]
pub(crate) struct Connections(Mutex<Lists>);

#[derive(Default)]
struct Lists {
    /// Oldest first.
    strangers: VecDeque<Arc<Connection>>,
    senders: Vec<Arc<Connection>>,
}

/// One of them.
pub(crate) struct Connection {
    network: IpAddr,
    pub(crate) stream: TcpStream,
}

impl Connections {
    /// Adds a connection. If there are too many, the oldest one of the network with the most is
    /// closed.
    pub(crate) fn enter(&self, stream: TcpStream, from: IpAddr) -> Arc<Connection> {
        let network = network(from);
        let own = Arc::new(Connection { network, stream });
        let all = &mut self.lock().strangers;
        if all.len() >= STRANGERS {
            let mut oldest: BTreeMap<IpAddr, (usize, usize)> = BTreeMap::new();
            for (index, one) in all.iter().enumerate() {
                oldest.entry(one.network).or_insert((0, index)).0 += 1;
            }
            let crowd = oldest.into_values().max_by_key(|(count, _)| *count);
            if let Some(gone) = crowd.and_then(|(_, index)| all.remove(index)) {
                // Its thread reads the end then. It may have been closed already.
                let _ = gone.stream.shutdown(Shutdown::Both);
            }
        }
        all.push_back(Arc::clone(&own));
        own
    }

    /// Notes that a connection has named its flow. Returns `false` if another one took its slot
    /// before, or if there are too many of these.
    pub(crate) fn named(&self, own: &Arc<Connection>) -> bool {
        let mut lists = self.lock();
        let Some(index) = lists.strangers.iter().position(|one| Arc::ptr_eq(one, own)) else {
            return false;
        };
        if lists.senders.len() >= SENDERS {
            return false;
        }
        let own = lists.strangers.remove(index);
        lists.senders.extend(own);
        true
    }

    /// Removes a connection that has ended.
    pub(crate) fn leave(&self, own: &Arc<Connection>) {
        let lists = &mut *self.lock();
        lists.strangers.retain(|one| !Arc::ptr_eq(one, own));
        lists.senders.retain(|one| !Arc::ptr_eq(one, own));
    }

    fn lock(&self) -> MutexGuard<'_, Lists> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads from a connection until a deadline. The timeout of a socket would restart with each byte.
pub(crate) struct Until<'a>(pub(crate) &'a TcpStream, pub(crate) Instant);

impl Read for Until<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let Self(mut stream, until) = *self;
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        stream.read(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, TcpListener};

    #[test]
    fn a_flood_displaces_itself() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let connections = Connections::default();
        let enter = |from: [u8; 4]| {
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (stream, _) = listener.accept().unwrap();
            (client, connections.enter(stream, from.into()))
        };
        let sender = enter([192, 0, 2, 1]);
        let flood: Vec<_> = (0..=255).map(|host| enter([10, 0, 0, host])).collect();
        assert_eq!(connections.lock().strangers.len(), STRANGERS);
        assert!(!connections.named(&flood[0].1));
        assert_eq!((&flood[0].0).read(&mut [0]).unwrap(), 0, "it is closed");
        assert!(connections.named(&sender.1));
        for (_, one) in &flood {
            connections.leave(one);
        }
        assert_eq!(connections.lock().senders.len(), 1);
        connections.leave(&sender.1);
        let lists = connections.lock();
        assert!(lists.strangers.is_empty() && lists.senders.is_empty());
    }
}
