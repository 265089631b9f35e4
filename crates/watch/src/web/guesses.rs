// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Limits how often a client may guess a password.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};
use weirgate_units::network;

/// How many wrong passwords one network may try at once, and the time after which it may try one
/// more.
const TRIES: u32 = 10;
const EACH: Duration = Duration::from_secs(10);
/// How many networks are counted; the one whose last attempt is oldest is evicted.
const NETWORKS: usize = 4_096;

/// The remaining attempts of each network.
#[derive(Debug, Default)]
pub(crate) struct Tries {
    /// The used attempts, as of a time.
    used: BTreeMap<IpAddr, (u32, Instant)>,
}

impl Tries {
    /// Uses an attempt. If none is left, returns the seconds until the next one.
    pub(crate) fn take(&mut self, from: IpAddr, now: Instant) -> Result<(), u64> {
        let from = guesser(from);
        let (used, since) = self.left(from, now);
        if used >= TRIES {
            let wait = (since + EACH).saturating_duration_since(now);
            return Err(wait.as_secs() + 1);
        }
        if self.used.len() >= NETWORKS && !self.used.contains_key(&from) {
            let oldest = self.used.iter().min_by_key(|(_, (_, since))| *since);
            if let Some(oldest) = oldest.map(|(address, _)| *address) {
                self.used.remove(&oldest);
            }
        }
        self.used.insert(from, (used + 1, since));
        Ok(())
    }

    /// Returns an attempt after a correct password.
    pub(crate) fn give_back(&mut self, from: IpAddr) {
        let from = guesser(from);
        if let Some((used, _)) = self.used.get_mut(&from) {
            *used = used.saturating_sub(1);
            if *used == 0 {
                self.used.remove(&from);
            }
        }
    }

    fn left(&self, from: IpAddr, now: Instant) -> (u32, Instant) {
        let Some((used, since)) = self.used.get(&from) else {
            return (0, now);
        };
        let passed = now.saturating_duration_since(*since);
        let back = (passed.as_secs() / EACH.as_secs()) as u32;
        match used.saturating_sub(back) {
            0 => (0, now),
            left => (left, *since + EACH * back),
        }
    }
}

/// Returns the address for which an attempt is counted. A client with an IPv6 address may use
/// its whole network, but often has only one IPv4 address.
fn guesser(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        address @ IpAddr::V6(_) => network(address),
        address @ IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guesses_are_counted_by_network_and_come_back() {
        let mut tries = Tries::default();
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let one: IpAddr = "2001:db8::1".parse().unwrap();
        let same: IpAddr = "2001:db8::2".parse().unwrap();
        let other: IpAddr = "192.0.2.1".parse().unwrap();
        for _ in 0..TRIES {
            tries.take(one, at(0)).unwrap();
        }
        assert_eq!(tries.take(same, at(1)), Err(10));
        tries.take(other, at(1)).unwrap();
        tries.take(same, at(10)).unwrap();
        assert_eq!(tries.take(one, at(10)), Err(11));
        tries.give_back(one);
        tries.take(one, at(10)).unwrap();
        // After a long time all attempts are available, but not more.
        for _ in 0..TRIES {
            tries.take(one, at(100_000)).unwrap();
        }
        tries.take(one, at(100_000)).unwrap_err();
        // The memory is bounded regardless of the number of addresses.
        for number in 0..2 * NETWORKS as u32 {
            let address = std::net::Ipv4Addr::from(number);
            tries.take(address.into(), at(100_001)).unwrap();
        }
        assert!(tries.used.len() <= NETWORKS);
    }
}
