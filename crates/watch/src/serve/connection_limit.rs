// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Limits connections from other machines. One network gets at most half of the
//! slots, so that it cannot take every one.

use crate::lock::lock;
use crate::serve::access::network;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

/// Connections of each network that has any.
#[derive(Default)]
pub(crate) struct ConnectionLimit(Arc<Mutex<BTreeMap<IpAddr, usize>>>);

/// One of a network's slots; dropping it frees the slot.
pub(crate) struct Slot {
    limit: ConnectionLimit,
    network: IpAddr,
}

impl ConnectionLimit {
    /// A slot for a connection from `from`, unless its network has `most` already.
    pub(crate) fn take(&self, from: IpAddr, most: usize) -> Option<Slot> {
        let network = network(from);
        let mut all = lock(&self.0);
        let used = all.entry(network).or_default();
        if *used >= most {
            return None;
        }
        *used += 1;
        Some(Slot {
            limit: Self(Arc::clone(&self.0)),
            network,
        })
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut all = lock(&self.limit.0);
        if let Some(used) = all.get_mut(&self.network) {
            *used -= 1;
            if *used == 0 {
                all.remove(&self.network);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_has_its_slots_and_gives_them_back() {
        let limit = ConnectionLimit::default();
        let from = |text: &str| text.parse::<IpAddr>().unwrap();
        let one = limit.take(from("2001:db8::1"), 2).unwrap();
        let _other = limit.take(from("2001:db8::2"), 2).unwrap();
        assert!(limit.take(from("2001:db8::3"), 2).is_none());
        assert!(limit.take(from("2001:db8:0:1::1"), 2).is_some());
        drop(one);
        assert!(limit.take(from("2001:db8::3"), 2).is_some());
        assert_eq!(lock(&limit.0).len(), 1);
    }
}
