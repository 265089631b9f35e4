// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Limits the slots of a server, also for each network, as sshd's `PerSourceMaxStartups` does
//! for logins.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use weirgate_units::network;

/// The number of slots, and the largest number for one network.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Quota {
    pub(crate) all: usize,
    pub(crate) of_network: usize,
}

/// The slots in use, by network.
#[derive(Debug)]
pub(crate) struct SourceLimit {
    quota: Quota,
    taken: Mutex<BTreeMap<IpAddr, usize>>,
}

/// A slot; dropping it frees it.
#[derive(Debug)]
pub(crate) struct Slot {
    of: Arc<SourceLimit>,
    network: IpAddr,
}

impl SourceLimit {
    /// Makes a limit with all slots free.
    pub(crate) fn new(quota: Quota) -> Arc<Self> {
        let taken = Mutex::default();
        Arc::new(Self { quota, taken })
    }

    /// Returns a slot for a client at this address; `None` if its network, or all clients
    /// together, have too many.
    pub(crate) fn take(self: &Arc<Self>, from: IpAddr) -> Option<Slot> {
        let network = network(from);
        let mut taken = self.lock();
        let own = taken.get(&network).copied().unwrap_or(0);
        if own >= self.quota.of_network || taken.values().sum::<usize>() >= self.quota.all {
            return None;
        }
        taken.insert(network, own + 1);
        drop(taken);
        Some(Slot {
            of: Arc::clone(self),
            network,
        })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<IpAddr, usize>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Slot {
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
        let limit = SourceLimit::new(Quota {
            all: 3,
            of_network: 2,
        });
        let take = |text: &str| limit.take(text.parse().unwrap());
        let one = take("192.0.2.1").unwrap();
        let two = take("::ffff:192.0.2.200").unwrap();
        assert!(take("192.0.2.3").is_none());
        let six = take("2001:db8::1").unwrap();
        assert!(take("198.51.100.1").is_none(), "all are taken");
        drop(two);
        let other = take("198.51.100.1").unwrap();
        drop((one, six, other));
        assert!(limit.lock().is_empty());
    }
}
