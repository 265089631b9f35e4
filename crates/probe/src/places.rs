// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Places of a serving end, of which one network has a part at most: sshd's
//! `PerSourceMaxStartups` does the same for logins.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Who has one of its addresses may have all: the /24 of an IPv4 address, the /64 of
/// an IPv6 one.
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => Ipv4Addr::from(u32::from(address) & 0xffff_ff00).into(),
        IpAddr::V6(address) => Ipv6Addr::from(u128::from(address) >> 64 << 64).into(),
    }
}

/// How many places there are, and how many of them are one network's at most.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    pub(crate) all: usize,
    pub(crate) of_network: usize,
}

/// Places that are taken, by network.
#[derive(Debug)]
pub(crate) struct Places {
    room: Room,
    taken: Mutex<BTreeMap<IpAddr, usize>>,
}

/// One of them; dropping it frees it.
#[derive(Debug)]
pub(crate) struct Place {
    of: Arc<Places>,
    network: IpAddr,
}

impl Places {
    /// All are free.
    pub(crate) fn new(room: Room) -> Arc<Self> {
        let taken = Mutex::default();
        Arc::new(Self { room, taken })
    }

    /// A place for somebody at this address; none where his network, or all, has
    /// too many.
    pub(crate) fn take(self: &Arc<Self>, from: IpAddr) -> Option<Place> {
        let network = network(from);
        let mut taken = self.lock();
        let own = taken.get(&network).copied().unwrap_or(0);
        if own >= self.room.of_network || taken.values().sum::<usize>() >= self.room.all {
            return None;
        }
        taken.insert(network, own + 1);
        drop(taken);
        Some(Place {
            of: Arc::clone(self),
            network,
        })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<IpAddr, usize>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.of.lock();
        match taken.get_mut(&self.network) {
            Some(count @ 2..) => *count -= 1,
            _ => {
                taken.remove(&self.network);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_has_a_part_at_most() {
        let places = Places::new(Room {
            all: 3,
            of_network: 2,
        });
        let take = |text: &str| places.take(text.parse().unwrap());
        let one = take("192.0.2.1").unwrap();
        let two = take("::ffff:192.0.2.200").unwrap();
        assert!(take("192.0.2.3").is_none());
        let six = take("2001:db8::1").unwrap();
        assert!(take("198.51.100.1").is_none(), "all are taken");
        drop(two);
        let other = take("198.51.100.1").unwrap();
        drop((one, six, other));
        assert!(places.lock().is_empty());
        assert_eq!(
            network("2001:db8::1:2:3:4".parse().unwrap()),
            network("2001:db8::".parse().unwrap())
        );
    }
}
