// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A scheduler as a value: the gate, the classes behind it, what each may send.

use crate::scheduler::number::{self, INNER};
use crate::scheduler::parts::Parent;
use weirgate_policy::{Direction, SharedClass};
use weirgate_state::CakeAckFilter;
use weirgate_units::{Handle, Rate, Span};

/// One direction's scheduler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scheduler {
    /// The direction.
    pub direction: Direction,
    /// Whether its queues are behind NAT's return way, on the LAN device, where
    /// packets have inside addresses by themselves.
    pub inside: bool,
    /// The line's rate as stated.
    pub line: Rate,
    /// The rate of the gate.
    pub gate: Rate,
    /// Which acknowledgements are dropped where they are in a cake.
    pub ack_filter: CakeAckFilter,
    /// Whether the queue of acknowledgements holds them until the time that
    /// `[receive]` gives them.
    pub holds: bool,
    /// Whether flows of L4S are marked at a shallow threshold.
    pub l4s: bool,
    /// The gate's bucket, in time.
    pub gate_buffer: Span,
    /// What a full packet takes on the wire, in bytes.
    pub full_packet: u32,
    /// The classes, by priority and then as written; of a divided class what
    /// is left of it, then the parts.
    pub members: Vec<Member>,
    /// Classes that have classes below them.
    pub parents: Vec<Parent>,
}

/// A class in its scheduler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The class with its rates.
    pub class: SharedClass,
    /// Its number in the scheduler's HTB, made of its name (`number`).
    pub id: Handle,
    /// The class below which it is, where that is divided.
    pub parent: Option<Handle>,
    /// The group whose part of a class it is.
    pub group: Option<String>,
    /// In the engine of rows the number of a node of its own, where its hosts share it.
    pub hosts: Option<Handle>,
    /// How many hosts with a limit of their own it represents besides itself.
    pub capped: u32,
    /// Wire bytes of the largest packet that rules let into it.
    pub largest: u32,
    /// Wire bytes of a turn among classes of equal priority.
    pub quantum: u32,
    /// The worst-case time until it is served again while it is owed service:
    /// the latency of Stiliadis and Varma's latency-rate servers.
    pub latency: Span,
    /// Its bucket, in time at its rate: the burst, and what it is owed while
    /// others are served ([`Member::latency`]).
    pub buffer: Span,
}

impl Member {
    /// What it is owed before all that is borrowed: nothing where its class
    /// lends to hosts with limits.
    #[must_use]
    pub fn own_rate(&self) -> Rate {
        if self.capped > 0 {
            Rate::default()
        } else {
            self.class.rate
        }
    }

    /// Wire bytes that it may send on credit: one packet of each host that it represents.
    #[must_use]
    pub fn on_credit(&self) -> u64 {
        u64::from(self.largest) * (u64::from(self.capped) + 1)
    }

    /// Wire bytes of a turn of all hosts that it represents.
    #[must_use]
    pub fn turn(&self) -> u64 {
        u64::from(self.quantum) * (u64::from(self.capped) + 1)
    }
}

impl Scheduler {
    /// The class for what no rule sees: ARP and other packets that are not IP,
    /// and what is sent around the firewall. The class that is served first,
    /// unless it has a ceiling, which would then hold for everything if the
    /// rules were lost; then the default class.
    ///
    /// HTB cannot change it in place, so a policy in which it is another one
    /// has its scheduler made anew. That is when a class comes before all
    /// others: with a smaller priority than any, or written before the first of
    /// the smallest. One that is added behind its equals changes nothing.
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

    /// Which acknowledgements the cake of a class drops: none where there is a class
    /// of acknowledgements and it is another.
    pub(crate) fn filter_of(&self, class: &SharedClass) -> CakeAckFilter {
        let apart = self.members.iter().any(|member| member.class.ack);
        if apart && !class.ack {
            CakeAckFilter::No
        } else {
            self.ack_filter
        }
    }

    /// The class for what no rule matches.
    #[must_use]
    pub fn default_class(&self) -> Option<&Member> {
        self.members.iter().find(|member| member.class.default)
    }

    /// The class of this name; of a divided one, what is left of it.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<&Member> {
        self.members.iter().find(|member| member.class.name == name)
    }
}
