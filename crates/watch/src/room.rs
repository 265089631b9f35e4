// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Places for connections that come from other machines: one network has no more
//! than half of them, so that whoever holds many keeps others not out.

use crate::access::network;
use crate::service::lock;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

/// Who holds how many.
#[derive(Default)]
pub(crate) struct Room(Arc<Mutex<BTreeMap<IpAddr, usize>>>);

/// One of a network's places, as long as it is kept.
pub(crate) struct Held {
    room: Room,
    network: IpAddr,
}

impl Room {
    /// A place for a connection from there, where it has fewer than `most`.
    pub(crate) fn hold(&self, from: IpAddr, most: usize) -> Option<Held> {
        let network = network(from);
        let mut all = lock(&self.0);
        let held = all.entry(network).or_default();
        if *held >= most {
            return None;
        }
        *held += 1;
        Some(Held {
            room: Self(Arc::clone(&self.0)),
            network,
        })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut all = lock(&self.room.0);
        if let Some(held) = all.get_mut(&self.network) {
            *held -= 1;
            if *held == 0 {
                all.remove(&self.network);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_has_its_part_and_gives_it_back() {
        let room = Room::default();
        let from = |text: &str| text.parse::<IpAddr>().unwrap();
        let one = room.hold(from("2001:db8::1"), 2).unwrap();
        let _other = room.hold(from("2001:db8::2"), 2).unwrap();
        assert!(room.hold(from("2001:db8::3"), 2).is_none());
        assert!(room.hold(from("2001:db8:0:1::1"), 2).is_some());
        drop(one);
        assert!(room.hold(from("2001:db8::3"), 2).is_some());
        assert_eq!(lock(&room.0).len(), 1);
    }
}
