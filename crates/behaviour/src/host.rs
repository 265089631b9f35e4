// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The judge of one host on the inside.

use crate::counting::{Bucket, Frequent, Seen};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// The time in milliseconds in which an answer must come. A SYN is repeated after 1 s and after 3 s
/// (RFC 6298, section 2).
const GRACE: u64 = 3_000;
/// An alert ends when nothing more of it was seen for this long, in milliseconds.
const QUIET: u64 = 60_000;
/// The time in milliseconds after which half of what is remembered is forgotten.
const TURN: u64 = 600_000;
/// The contacts of a host whose answer is awaited.
const MOST_PENDING: usize = 128;

/// The threshold of the walk. Jung et al., "Fast Portscan Detection Using Sequential Hypothesis
/// Testing" (IEEE Symposium on Security and Privacy, 2004) take that 80 of 100 first contacts of an
/// honest host are answered, and 20 of 100 of a scanner. A first contact then multiplies the
/// likelihood ratio by 4 or divides it by 4, so the walk counts steps. The paper stops at 99, near
/// 3 steps. Here the test begins again whenever it finds nothing, so the ratio must be 4^10, about
/// 10^6.
const WALK: i32 = 10;
/// The part of unanswered first contacts that must go to the four most frequent ports. Peers of
/// BitTorrent have any port, and often do not answer. A scan has few.
const PORTS_OF_A_SCAN: usize = 4;
const PART_OF_PORTS: f64 = 0.75;
/// The unanswered ports of one other host that are a scan. No program needs as many.
const SCANNED_PORTS: u32 = 20;
/// New connections per second that are a storm beyond a burst. A page opens some 100 in a second or
/// two, and a BitTorrent program at most some ten a second.
const STORM: (f64, f64) = (100.0, 1_000.0);
/// New mail servers per second, beyond a burst: 12 a minute, as a site's own mail server may have.
const MAIL: (f64, f64) = (0.2, 20.0);
/// Packets per second to those that do not answer, beyond a burst.
const FLOOD: (f64, f64) = (1_000.0, 10_000.0);
/// The largest mean size of such packets, in bytes of IP: a camera or a log has larger ones.
pub(crate) const FLOOD_SIZE: u64 = 200;
/// TCP, and the port of mail between servers (RFC 5321).
const SMTP: (u8, u16) = (6, 25);

/// What a host does that it should not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Alert {
    /// It contacts many other hosts, on few ports, that do not answer.
    AddressScan,
    /// It contacts many ports of one other host that do not answer.
    PortScan,
    /// It opens more connections in a second than programs do.
    ConnectionStorm,
    /// It contacts many mail servers.
    MailStorm,
    /// It sends many small packets to those that do not answer.
    PacketStorm,
}

impl Alert {
    /// All alerts.
    pub const ALL: [Self; 5] = [
        Self::AddressScan,
        Self::PortScan,
        Self::ConnectionStorm,
        Self::MailStorm,
        Self::PacketStorm,
    ];

    /// Returns its word in JSON and labels of metrics.
    pub fn word(self) -> &'static str {
        match self {
            Self::AddressScan => "address-scan",
            Self::PortScan => "port-scan",
            Self::ConnectionStorm => "connection-storm",
            Self::MailStorm => "mail-storm",
            Self::PacketStorm => "packet-storm",
        }
    }

    /// Returns what a host with it does.
    pub fn text(self) -> &'static str {
        match self {
            Self::AddressScan => "contacts many hosts that do not answer",
            Self::PortScan => "contacts many ports that do not answer",
            Self::ConnectionStorm => "opens many connections",
            Self::MailStorm => "contacts many mail servers",
            Self::PacketStorm => "sends many small packets to hosts that do not answer",
        }
    }
}

/// The end that was contacted: address, protocol, port.
pub(crate) type End = (IpAddr, u8, u16);

/// What a reading has of one host.
#[derive(Debug, Default)]
pub(crate) struct Read {
    /// The ends of its connections with their hashes and those of their addresses, and whether one
    /// answered.
    pub(crate) ends: BTreeMap<End, (u64, u64, bool)>,
    /// New connections, and packets to ends that do not answer.
    pub(crate) new: u64,
    pub(crate) unheard: u64,
}

/// What holds for all hosts of a reading.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Round {
    pub(crate) ms: u64,
    /// The milliseconds since the reading before; `None` for the first one.
    pub(crate) passed: Option<u64>,
    /// Whether the table was read as a whole.
    pub(crate) complete: bool,
    /// Whether anything arrived from the outside.
    pub(crate) alive: bool,
}

#[derive(Debug, Clone, Copy)]
struct Pending {
    since: u64,
    answered: bool,
    hashes: (u64, u64),
}

#[derive(Debug, Clone, Copy, Default)]
struct Course {
    since: Option<u64>,
    last: u64,
}

/// The judge of one host.
#[derive(Debug, Clone, Default)]
pub(crate) struct HostJudge {
    pub(crate) seen: u64,
    turned: u64,
    /// The first contacts whose answer is awaited.
    pending: BTreeMap<End, Pending>,
    /// The ends and the addresses that were contacted before.
    ends: Seen,
    addresses: Seen,
    walk: i32,
    /// Of unanswered first contacts.
    ports: Frequent<(u8, u16)>,
    /// The other hosts with unanswered ports.
    scanned: Frequent<IpAddr>,
    new: Bucket,
    mail: Bucket,
    unheard: Bucket,
    courses: [Course; Alert::ALL.len()],
}

impl HostJudge {
    /// Returns the alerts that began, and those that ended with the milliseconds that they lasted.
    pub(crate) fn take(&mut self, round: Round, read: &Read) -> Vec<(Alert, Option<u64>)> {
        if !read.ends.is_empty() {
            self.seen = round.ms;
        }
        if round.ms.saturating_sub(self.turned) >= TURN {
            self.turned = round.ms;
            self.ends.turn();
            self.addresses.turn();
            self.ports.halve();
            self.scanned.halve();
        }
        let servers = self.meet(round, read);
        let more = self.settle(round, read);
        let mut is = [false; Alert::ALL.len()];
        let of_few = f64::from(self.ports.sum_of_first(PORTS_OF_A_SCAN));
        let few = of_few >= f64::from(self.ports.all) * PART_OF_PORTS;
        is[Alert::AddressScan as usize] = self.walk >= WALK && few && more.0;
        let scanned = self.scanned.first();
        is[Alert::PortScan as usize] =
            scanned.is_some_and(|(_, ports)| ports >= SCANNED_PORTS) && more.1;
        if let Some(passed) = round.passed {
            // Of a table that is too large, it is not known which connections are new.
            let (new, unheard) = if round.complete {
                (read.new as f64, read.unheard as f64)
            } else {
                (0.0, 0.0)
            };
            let (rate, limit) = STORM;
            is[Alert::ConnectionStorm as usize] = self.new.add(passed, rate, new, limit);
            let (rate, limit) = MAIL;
            is[Alert::MailStorm as usize] = self.mail.add(passed, rate, servers.into(), limit);
            let (rate, limit) = FLOOD;
            is[Alert::PacketStorm as usize] = self.unheard.add(passed, rate, unheard, limit);
        }
        let mut changes = Vec::new();
        for alert in Alert::ALL {
            let course = &mut self.courses[alert as usize];
            if is[alert as usize] {
                course.last = round.ms;
                if course.since.is_none() {
                    course.since = Some(round.ms);
                    changes.push((alert, None));
                }
            } else if let Some(since) = course.since
                && round.ms.saturating_sub(course.last) >= QUIET
            {
                changes.push((alert, Some(course.last.saturating_sub(since))));
                course.since = None;
                match alert {
                    Alert::AddressScan => (self.walk, self.ports) = (0, Frequent::default()),
                    Alert::PortScan => self.scanned = Frequent::default(),
                    _ => {}
                }
            }
        }
        changes
    }

    /// Begins to await the answers of new ends; returns how many of these are mail servers.
    fn meet(&mut self, round: Round, read: &Read) -> u32 {
        let mut servers = 0;
        for (end, (of_end, of_address, answered)) in &read.ends {
            if let Some(pending) = self.pending.get_mut(end) {
                pending.answered |= answered;
                continue;
            }
            let room = self.pending.len() < MOST_PENDING;
            if !room || self.ends.contains(*of_end) {
                continue;
            }
            servers += u32::from((end.1, end.2) == SMTP);
            let pending = Pending {
                since: round.ms,
                answered: *answered,
                hashes: (*of_end, *of_address),
            };
            self.pending.insert(*end, pending);
        }
        servers
    }

    /// Decides on contacts whose time is over, or that ended. Those that did not answer while
    /// nothing arrived at all say nothing. Returns whether the walk rose, and whether another port
    /// did not answer.
    fn settle(&mut self, round: Round, read: &Read) -> (bool, bool) {
        let (mut step, mut ports) = (0_i32, false);
        let due = |end: &End, one: &Pending| {
            round.ms.saturating_sub(one.since) >= GRACE || !read.ends.contains_key(end)
        };
        let settled: Vec<(End, Pending)> = self
            .pending
            .iter()
            .filter(|(end, one)| due(end, one))
            .map(|(end, one)| (*end, *one))
            .collect();
        let mut failed = Vec::new();
        for (end, one) in settled {
            self.pending.remove(&end);
            let lost = !round.complete && !read.ends.contains_key(&end);
            if !one.answered && (!round.alive || lost) {
                continue;
            }
            self.ends.insert(one.hashes.0);
            let first = self.addresses.insert(one.hashes.1);
            if one.answered {
                step -= i32::from(first);
                continue;
            }
            ports = true;
            self.scanned.add(end.0);
            if first {
                step += 1;
                failed.push((end.1, end.2));
            }
        }
        // Those of one reading count together: it is not known in which order they began.
        self.walk = self.walk.saturating_add(step).clamp(0, 2 * WALK);
        if self.walk == 0 {
            self.ports = Frequent::default();
        } else {
            for port in failed {
                self.ports.add(port);
            }
        }
        (step > 0, ports)
    }

    /// Returns the alerts in force, and since when.
    pub(crate) fn in_force(&self) -> impl Iterator<Item = (Alert, u64)> {
        let all = Alert::ALL.into_iter();
        all.filter_map(|alert| Some((alert, self.courses[alert as usize].since?)))
    }

    /// Returns the end that an alert is about: the port of a scan of addresses, the address of a
    /// scan of ports.
    pub(crate) fn about(&self, alert: Alert) -> (Option<(u8, u16)>, Option<IpAddr>) {
        match alert {
            Alert::AddressScan => (self.ports.first().map(|(port, _)| port), None),
            Alert::PortScan => (None, self.scanned.first().map(|(address, _)| address)),
            Alert::MailStorm => (Some(SMTP), None),
            Alert::ConnectionStorm | Alert::PacketStorm => (None, None),
        }
    }

    /// Returns whether nothing of the host needs to be remembered.
    pub(crate) fn is_idle(&self, ms: u64) -> bool {
        let empty = self.new.is_empty() && self.mail.is_empty() && self.unheard.is_empty();
        let quiet = ms.saturating_sub(self.seen) >= TURN;
        quiet && empty && self.in_force().next().is_none()
    }
}
