// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The judges of the hosts on the inside.

use crate::counting::mixed;
use crate::flow::Counted;
use crate::host::{Alert, FLOOD_SIZE, HostJudge, Read, Round};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// A connection that a host on the inside opened to the outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempt {
    /// The host.
    pub host: IpAddr,
    /// Its port; 0 if the protocol has none.
    pub host_port: u16,
    /// The other end.
    pub remote: IpAddr,
    /// Its port; 0 if the protocol has none.
    pub port: u16,
    /// The upper-layer protocol.
    pub protocol: u8,
    /// Whether a reply was seen.
    pub answered: bool,
    /// What the host sent.
    pub sent: Counted,
}

/// An alert in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Alarm {
    /// The host.
    pub host: IpAddr,
    /// What it does.
    pub alert: Alert,
    /// Since when, in the milliseconds of the readings.
    pub since: u64,
    /// The protocol and port that is contacted most, of a scan of addresses.
    pub port: Option<(u8, u16)>,
    /// The host whose ports are scanned.
    pub remote: Option<IpAddr>,
}

/// An alert that began or ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// It began.
    Begins(Alarm),
    /// The host did nothing of it for a minute. It did so for this many milliseconds.
    Ends(IpAddr, Alert, u64),
}

/// Judges the hosts on the inside.
#[derive(Debug, Clone, Default)]
pub struct Hosts {
    seed: u64,
    last: Option<u64>,
    known: BTreeMap<IpAddr, HostJudge>,
    /// The connections of the reading before by their hash, and the packets that were sent.
    before: BTreeMap<u64, u64>,
    beyond: u64,
}

impl Hosts {
    /// The largest number of hosts that are judged. A host keeps its place until it opened nothing
    /// for ten minutes.
    pub const MOST: usize = 512;
    /// The largest number of connections that are told apart from new ones.
    pub const MOST_CONNECTIONS: usize = 65_536;

    /// Begins with no host. The seed keeps strangers from knowing which addresses have the same
    /// hash.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            ..Self::default()
        }
    }

    /// Takes a reading of the connections that inside hosts opened: a time in milliseconds that
    /// only increases, the connections, whether these are all, and whether anything arrived from
    /// the outside since the reading before. Returns the alerts that began and ended.
    pub fn take(
        &mut self,
        ms: u64,
        attempts: impl IntoIterator<Item = Attempt>,
        complete: bool,
        alive: bool,
    ) -> Vec<Turn> {
        let round = Round {
            ms,
            passed: self.last.map(|last| ms.saturating_sub(last)),
            complete,
            alive,
        };
        self.last = Some(ms);
        self.known.retain(|_, judge| !judge.is_idle(ms));
        self.beyond = 0;
        let mut now = BTreeMap::new();
        let mut reads: BTreeMap<IpAddr, Read> = BTreeMap::new();
        for one in attempts {
            if !self.known.contains_key(&one.host) {
                if self.known.len() >= Self::MOST {
                    self.beyond += 1;
                    continue;
                }
                self.known.insert(one.host, HostJudge::default());
            }
            self.read(&one, &mut now, reads.entry(one.host).or_default());
        }
        self.before = now;
        let mut turns = Vec::new();
        let nothing = Read::default();
        for (host, judge) in &mut self.known {
            let read = reads.get(host).unwrap_or(&nothing);
            for (alert, ended) in judge.take(round, read) {
                turns.push(match ended {
                    None => Turn::Begins(alarm(*host, judge, alert, ms)),
                    Some(lasted) => Turn::Ends(*host, alert, lasted),
                });
            }
        }
        turns
    }

    fn read(&self, one: &Attempt, now: &mut BTreeMap<u64, u64>, read: &mut Read) {
        let number = |address| match address {
            IpAddr::V4(address) => u128::from(u32::from(address)),
            IpAddr::V6(address) => u128::from(address),
        };
        let with = |hash, address| {
            let number = number(address);
            mixed(mixed(hash, number as u64), (number >> 64) as u64)
        };
        let of_address = with(self.seed, one.remote);
        let upper = u64::from(one.protocol) << 32 | u64::from(one.port);
        let of_end = mixed(of_address, upper);
        let key = mixed(with(of_end, one.host), one.host_port.into());
        let end = (one.remote, one.protocol, one.port);
        let entry = read.ends.entry(end).or_insert((of_end, of_address, false));
        entry.2 |= one.answered;
        let before = self.before.get(&key);
        read.new += u64::from(before.is_none());
        let sent = one.sent;
        if !one.answered && sent.bytes <= sent.packets.saturating_mul(FLOOD_SIZE) {
            let more = sent.packets.saturating_sub(before.copied().unwrap_or(0));
            read.unheard = read.unheard.saturating_add(more);
        }
        if now.len() < Self::MOST_CONNECTIONS {
            now.insert(key, sent.packets);
        }
    }

    /// Returns the alerts in force.
    pub fn alarms(&self) -> impl Iterator<Item = Alarm> {
        self.known.iter().flat_map(|(host, judge)| {
            let alarms = judge.in_force();
            alarms.map(|(alert, since)| alarm(*host, judge, alert, since))
        })
    }

    /// Returns the number of hosts that are judged, and of connections whose host found no place.
    pub fn judged(&self) -> (u64, u64) {
        (self.known.len() as u64, self.beyond)
    }
}

fn alarm(host: IpAddr, judge: &HostJudge, alert: Alert, since: u64) -> Alarm {
    let (port, remote) = judge.about(alert);
    Alarm {
        host,
        alert,
        since,
        port,
        remote,
    }
}
