// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A scheduler as a value: the gate, the classes behind it, and what each may send.

use crate::scheduler::number::{self, INNER};
use crate::scheduler::parts::Parent;
use weirgate_policy::{Direction, SharedClass};
use weirgate_state::CakeAckFilter;
use weirgate_units::{Handle, Rate, Span};

/// The scheduler of one direction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scheduler {
    /// The direction.
    pub direction: Direction,
    /// Whether its queues see packets after NAT was reversed, on the LAN device, so that packets
    /// have inside addresses.
    pub inside: bool,
    /// The rate of the line as stated.
    pub line: Rate,
    /// The rate of the gate.
    pub gate: Rate,
    /// Which acknowledgements cakes drop.
    pub ack_filter: CakeAckFilter,
    /// Whether the queue of acknowledgements delays them until the time that `[receive]` sets.
    pub holds: bool,
    /// Whether flows of L4S are marked at a shallow threshold.
    pub l4s: bool,
    /// The token bucket of the gate, as a time at its rate.
    pub gate_buffer: Span,
    /// How long before the line is free the gate may let a packet pass, in a group with others;
    /// only the kit's shaper has groups.
    pub group: Span,
    /// The size of a full packet on the wire in bytes.
    pub full_packet: u32,
    /// The classes, by priority and then in the order of the policy. The rest of a divided class
    /// precedes its parts.
    pub members: Vec<Member>,
    /// The indices of all members, sorted by [`bounds::order`](super::bounds::order).
    pub(crate) order: Vec<usize>,
    /// Classes that have children.
    pub parents: Vec<Parent>,
}

/// A class in its scheduler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The class with its rates.
    pub class: SharedClass,
    /// Its class identifier in the scheduler's HTB, derived from its name (`number`).
    pub id: Handle,
    /// The class of which it is a part, if that is divided.
    pub parent: Option<Handle>,
    /// The group whose part of a class it is.
    pub group: Option<String>,
    /// In the engine of rows, the number of a node above its hosts' leaves, if hosts share it.
    pub hosts: Option<Handle>,
    /// The number of hosts with their own limit that it represents besides itself.
    pub capped: u32,
    /// The largest packet that rules let into it, in bytes on the wire.
    pub largest: u32,
    /// Its quantum in bytes on the wire among classes of equal priority.
    pub quantum: u32,
    /// The worst-case time until it is served again within its guarantee: the latency of
    /// Stiliadis and Varma's latency-rate servers.
    pub latency: Span,
    /// Its token bucket, as a time at its rate: the burst, and the credit for the time while
    /// others are served ([`Member::latency`]).
    pub buffer: Span,
}

impl Member {
    /// Returns its guaranteed rate, which precedes all borrowing: 0 if its class lends the
    /// guarantee to hosts with limits.
    #[must_use]
    pub fn own_rate(&self) -> Rate {
        if self.capped > 0 {
            Rate::default()
        } else {
            self.class.rate
        }
    }

    /// Returns the bytes on the wire that it may send on credit: one packet of each host that it
    /// represents.
    #[must_use]
    pub fn on_credit(&self) -> u64 {
        u64::from(self.largest) * (u64::from(self.capped) + 1)
    }

    /// Returns the bytes on the wire of one turn of all hosts that it represents.
    #[must_use]
    pub fn turn(&self) -> u64 {
        u64::from(self.quantum) * (u64::from(self.capped) + 1)
    }
}

impl Scheduler {
    /// Returns the class for packets that no rule sees: ARP and other packets that are not IP,
    /// and packets that bypass the firewall. It is the class that is served first. If that class
    /// has a ceiling, which would limit everything if the rules were lost, it is the default
    /// class.
    ///
    /// HTB cannot change it in place, so the scheduler is replaced if a policy makes it another
    /// class. This happens if a class is added before all others: one with a smaller priority
    /// than any, or one before the first class of the smallest priority. A class that is added
    /// after its equals does not change it.
    #[must_use]
    pub fn unseen(&self) -> Handle {
        let first = self
            .members
            .first()
            .filter(|member| member.class.ceiling >= self.gate);
        first
            .or_else(|| self.default_class())
            .map_or(Handle::new(INNER, number::FIRST), |member| member.id)
    }

    /// Returns whether the queue of a class is the one that delays acknowledgements.
    pub(crate) fn holds_back(&self, class: &SharedClass) -> bool {
        self.holds && class.ack
    }

    /// Returns which acknowledgements the cake of a class drops: none if another class is the
    /// one for acknowledgements.
    pub(crate) fn filter_of(&self, class: &SharedClass) -> CakeAckFilter {
        let apart = self.members.iter().any(|member| member.class.ack);
        if apart && !class.ack {
            CakeAckFilter::No
        } else {
            self.ack_filter
        }
    }

    /// Returns the class for packets that no rule matches.
    #[must_use]
    pub fn default_class(&self) -> Option<&Member> {
        self.members.iter().find(|member| member.class.default)
    }

    /// Returns the class with this name; of a divided one, the rest.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<&Member> {
        self.members.iter().find(|member| member.class.name == name)
    }

    /// Returns the identifiers that packets of these classes have. A divided class has one for
    /// the rest and for each part and each host with a limit.
    pub(crate) fn identifiers(&self, chosen: impl Fn(&SharedClass) -> bool) -> Vec<Handle> {
        let whole = |member: &Member| {
            let mut parents = self.parents.iter();
            parents.find(|parent| Some(parent.id) == member.parent)
        };
        let members = self.members.iter().filter(|member| {
            chosen(&member.class) || whole(member).is_some_and(|whole| chosen(&whole.class))
        });
        let parents = self.parents.iter().filter(|parent| chosen(&parent.class));
        let hosts = parents.flat_map(|parent| parent.hosts.iter().map(|host| host.id));
        members.map(|member| member.id).chain(hosts).collect()
    }
}
