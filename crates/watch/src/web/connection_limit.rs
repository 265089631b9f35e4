// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reserves connection slots for authenticated clients. A new connection is unauthenticated and
//! ends soon, unless one of its requests authenticates. If there are many, a newer one takes its
//! slot. sshd's `MaxStartups` does the same for logins.

use crate::lock::lock;
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{AcquireError, Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};
use weirgate_units::network;

/// The largest number of authenticated connections.
const ADMITTED: usize = 32;
/// How many of them may be from one network, if other machines connect without a proxy.
const ADMITTED_OF_NETWORK: usize = ADMITTED / 2;
/// How many of them may follow every look; the others are for single requests.
pub(crate) const LIVE: usize = 24;
/// The largest number of unauthenticated connections.
const STRANGERS: usize = 128;
/// How many of them may be from one network, unless the service is behind a proxy.
const OF_NETWORK: usize = 16;
/// The lifetime of an unauthenticated connection.
const STRANGER: Duration = Duration::from_secs(10);
/// How long a request waits while all slots of [`ADMITTED`] are in use.
const WAIT: Duration = Duration::from_secs(5);
/// The network of connections by a Unix socket.
const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// The slots of a service.
pub(crate) struct ConnectionLimit {
    /// Unauthenticated connections, oldest first.
    strangers: Mutex<VecDeque<Stranger>>,
    of_network: usize,
    admitted: Arc<Semaphore>,
    /// The share of each network in `admitted`.
    shares: Mutex<BTreeMap<IpAddr, Arc<Semaphore>>>,
    share: usize,
}

struct Stranger {
    network: IpAddr,
    evicted: Arc<Notify>,
}

/// The slot of a connection; dropping it frees the slot.
pub(crate) struct Slot {
    limit: Arc<ConnectionLimit>,
    evicted: Arc<Notify>,
    /// The share of its network.
    share: Arc<Semaphore>,
    /// Its permits of the share and of the service.
    admitted: Mutex<Option<[OwnedSemaphorePermit; 2]>>,
}

impl ConnectionLimit {
    /// Makes a limit with all slots free. Behind a proxy, all connections come from one network,
    /// which may then use all slots. Without TLS, only this machine connects, and may do the same
    /// with authenticated slots.
    pub(crate) fn new(behind_proxy: bool, tls: bool) -> Self {
        Self {
            strangers: Mutex::default(),
            of_network: if behind_proxy { STRANGERS } else { OF_NETWORK },
            admitted: Arc::new(Semaphore::new(ADMITTED)),
            shares: Mutex::default(),
            share: if tls && !behind_proxy {
                ADMITTED_OF_NETWORK
            } else {
                ADMITTED
            },
        }
    }

    /// Returns an unauthenticated slot for a connection from `from`, which is `None` for a Unix
    /// socket. If its network has too many, its oldest connection ends. If there are too many in
    /// total, the oldest connection of the largest network ends.
    pub(crate) fn enter(self: &Arc<Self>, from: Option<IpAddr>) -> Slot {
        let share = self.share(from);
        let network = network(from.unwrap_or(LOCAL));
        let evicted = Arc::new(Notify::new());
        let mut strangers = lock(&self.strangers);
        let mut counts: BTreeMap<IpAddr, usize> = BTreeMap::new();
        for one in &*strangers {
            *counts.entry(one.network).or_default() += 1;
        }
        let crowded = if counts
            .get(&network)
            .is_some_and(|own| *own >= self.of_network)
        {
            Some(network)
        } else if strangers.len() >= STRANGERS {
            let most = counts.iter().max_by_key(|(_, count)| **count);
            most.map(|(network, _)| *network)
        } else {
            None
        };
        let oldest = strangers
            .iter()
            .position(|one| Some(one.network) == crowded);
        if let Some(gone) = oldest.and_then(|index| strangers.remove(index)) {
            gone.evicted.notify_one();
        }
        strangers.push_back(Stranger {
            network,
            evicted: Arc::clone(&evicted),
        });
        Slot {
            limit: Arc::clone(self),
            evicted,
            share,
            admitted: Mutex::default(),
        }
    }

    /// Returns the authenticated slots of a network.
    fn share(&self, from: Option<IpAddr>) -> Arc<Semaphore> {
        let most = from.map_or(ADMITTED, |_| self.share);
        let mut shares = lock(&self.shares);
        // A network without connections has no share.
        shares.retain(|_, share| Arc::strong_count(share) > 1);
        let own = shares.entry(network(from.unwrap_or(LOCAL)));
        Arc::clone(own.or_insert_with(|| Arc::new(Semaphore::new(most))))
    }
}

impl Slot {
    /// Returns whether a request of this connection has authenticated.
    pub(crate) fn is_admitted(&self) -> bool {
        lock(&self.admitted).is_some()
    }

    /// Gives the connection an authenticated slot. Returns `false` if none became free in time,
    /// or if the connection was evicted before.
    pub(crate) async fn admit(&self) -> bool {
        if self.is_admitted() {
            return true;
        }
        let free = async {
            // A connection that waits for its network's share takes nothing from other networks.
            let own = Arc::clone(&self.share).acquire_owned().await?;
            let any = Arc::clone(&self.limit.admitted).acquire_owned().await?;
            Ok::<_, AcquireError>([own, any])
        };
        let Ok(Ok(permits)) = timeout(WAIT, free).await else {
            return false;
        };
        let stayed = self.leave_strangers();
        if stayed {
            *lock(&self.admitted) = Some(permits);
        }
        stayed
    }

    /// Returns once the connection must end: its slot was given to another, or it did not
    /// authenticate in time.
    pub(crate) async fn ended(&self) {
        tokio::select! {
            () = self.evicted.notified() => {}
            () = sleep(STRANGER) => {
                if self.is_admitted() {
                    self.evicted.notified().await;
                }
            }
        }
    }

    /// Removes the connection from the unauthenticated ones; returns whether it was among them.
    fn leave_strangers(&self) -> bool {
        let mut strangers = lock(&self.limit.strangers);
        let own = |one: &Stranger| Arc::ptr_eq(&one.evicted, &self.evicted);
        let index = strangers.iter().position(own);
        index.is_some_and(|index| strangers.remove(index).is_some())
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.leave_strangers();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn run(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build();
        runtime.unwrap().block_on(test);
    }

    async fn was_evicted(slot: &Slot) -> bool {
        timeout(Duration::from_millis(1), slot.evicted.notified())
            .await
            .is_ok()
    }

    #[test]
    fn a_network_displaces_its_own_oldest_stranger() {
        run(async {
            let limit = Arc::new(ConnectionLimit::new(false, true));
            let first = limit.enter(Some(ip("2001:db8::1")));
            let second = limit.enter(Some(ip("2001:db8::2")));
            let rest: Vec<Slot> = (2..OF_NETWORK)
                .map(|_| limit.enter(Some(ip("2001:db8::3"))))
                .collect();
            let _other = limit.enter(Some(ip("2001:db8:0:1::1")));
            assert!(!was_evicted(&first).await);
            let newest = limit.enter(Some(ip("2001:db8::4")));
            assert!(was_evicted(&first).await);
            assert!(!first.admit().await);
            assert!(!was_evicted(&second).await);
            assert!(newest.admit().await);
            drop((first, rest, newest));
            assert_eq!(lock(&limit.strangers).len(), 2);
            assert_eq!(limit.admitted.available_permits(), ADMITTED);
        });
    }

    #[test]
    fn a_flood_of_many_networks_displaces_itself() {
        run(async {
            let limit = Arc::new(ConnectionLimit::new(false, true));
            let own = limit.enter(Some(ip("192.0.2.1")));
            let mut flood = Vec::new();
            for network in (0..100).cycle().take(1000) {
                flood.push(limit.enter(Some(Ipv4Addr::new(10, 0, network, 1).into())));
            }
            assert_eq!(lock(&limit.strangers).len(), STRANGERS);
            assert!(!was_evicted(&own).await);
            assert!(own.admit().await);
        });
    }

    /// Admits all connections from an address that may be, and returns them.
    async fn admitted(limit: &Arc<ConnectionLimit>, from: Option<IpAddr>) -> Vec<Slot> {
        let mut all = Vec::new();
        loop {
            let slot = limit.enter(from);
            let admitted = timeout(Duration::from_millis(20), slot.admit()).await;
            if admitted != Ok(true) {
                return all;
            }
            all.push(slot);
        }
    }

    #[test]
    fn a_network_has_half_of_the_authenticated_slots() {
        run(async {
            let limit = Arc::new(ConnectionLimit::new(false, true));
            let own = admitted(&limit, Some(ip("192.0.2.1"))).await;
            assert_eq!(own.len(), ADMITTED / 2);
            let next = limit.enter(Some(ip("192.0.2.200")));
            let other = admitted(&limit, Some(ip("198.51.100.1"))).await;
            assert_eq!(other.len(), ADMITTED / 2);
            drop(own);
            assert!(next.admit().await, "a slot of its network is free");
            drop((next, other));
            assert_eq!(limit.admitted.available_permits(), ADMITTED);
            let _new = limit.enter(None);
            assert_eq!(lock(&limit.shares).len(), 1);
        });
    }

    #[test]
    fn a_proxy_and_a_unix_socket_have_all_slots() {
        run(async {
            for (limit, from) in [
                (ConnectionLimit::new(true, true), Some(ip("192.0.2.1"))),
                (ConnectionLimit::new(false, false), Some(ip("127.0.0.1"))),
                (ConnectionLimit::new(false, true), None),
            ] {
                assert_eq!(admitted(&Arc::new(limit), from).await.len(), ADMITTED);
            }
        });
    }
}
