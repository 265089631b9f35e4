// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Classification: the one representation from which nftables messages, their
//! text and the explanation of a packet are derived.
//!
//! A rule writes the class id into `skb->priority`, which HTB takes as the
//! class without any tc filter (`htb_classify`, net/sched/sch_htb.c).
//!
//! # Meaning
//!
//! The kernel handles a packet as follows, and a simulation must do the same:
//!
//! 1. The base chain whose [`Hook`] the packet passes runs from its first rule,
//!    with the class that the packet already has (none).
//! 2. A rule's matches are tried in order. A match whose field the packet does
//!    not have fails, negated or not; the first that fails ends the rule and the
//!    next rule follows. A [`Meter`] is a match with state: it counts a packet when it
//!    is reached, that is when every match before it held.
//! 3. If all held, the rule's counter counts. Then its effects happen in order,
//!    and then its [`RuleVerdict`]. An effect that needs a connection ends the
//!    rule there if the packet has none. So does [`Effect::ClassOf`] if its map
//!    has no class for the field's value, or the packet does not have the field.
//! 4. `Continue` goes on with the next rule, so that a later rule may write
//!    another class. `Jump` runs a chain and returns. `Goto` runs it and returns
//!    to the caller of the present chain. `Return` returns. `Final` ends. The end
//!    of a chain returns; the end of a base chain is `Final`. A jump to a chain
//!    with `Hook::Switched { on: false }` does nothing.
//! 5. The packet leaves with the last class written. [`Field::Class`] is the
//!    class written so far. Before the first, it is the initial priority: 0, or
//!    for a packet of this machine what the sender set (`SO_PRIORITY`), which is
//!    below 1:0 unless root set it.
//!
//! Nothing is implied: a rule that looks at a port has to test for a protocol
//! with ports first. [`Rule::guarded`] adds such tests.

pub(crate) mod change;
pub(crate) mod facts;
mod fault;
pub(crate) mod field;
pub(crate) mod frame;
mod frame_text;
mod guard;
mod matches;
mod set;
mod set_text;
mod text;
pub(crate) mod value;

pub use guard::{
    EXTENSION_HEADERS, EXTENSIONS, PORT_PROTOCOLS, PROTOCOLS_WITH_PORTS, extension_headers,
    port_protocols,
};

use crate::classify::field::Field;
use crate::classify::frame::Frame;
use crate::classify::value::{IpVersion, Key};
use crate::{DeviceName, Origin, Shared};
use serde::{Deserialize, Serialize};
use weirgate_units::{Arrange as _, Dscp, Handle};

/// A table that weirgate owns completely.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Table {
    /// True for the `netdev` family (a hook on one device), false for `inet`.
    pub netdev: bool,
    /// Its name.
    pub name: String,
    /// Its sets, by name.
    #[serde(default)]
    pub sets: Shared<Set>,
    /// Its chains, including those that are only called.
    pub chains: Vec<Chain>,
}

/// A set in which rules look values up, or in which meters store their counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Set {
    /// Its name in nft.
    pub name: String,
    /// The type of its elements.
    pub key: Key,
    /// Its contents.
    pub content: Content,
    /// The policy line that requires it.
    pub origin: Origin,
}

/// The contents of a set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Content {
    /// Fixed ranges from..=to; sorted and disjoint in canonical form. They have the form that
    /// [`Field::raw`] gives values of the field that is looked up.
    Fixed(Vec<(u128, u128)>),
    /// A map from ranges from..=to to classes; sorted and disjoint in canonical form. Only
    /// [`Effect::ClassOf`] looks values up in it.
    Classes(Vec<(u128, u128, Handle)>),
    /// Addresses of DNS names, or numbers of objects that appear and disappear, as found last.
    /// Comparison ignores both the names and what was found: a plan sees no difference, and the
    /// elements are replaced in place.
    Refreshed(Refreshed),
    /// Keys that meters insert, at most `size`; further keys do not match. A key expires `timeout`
    /// seconds after its last packet, or without a timeout with its last connection.
    Meter {
        /// The greatest number of keys.
        size: u32,
        /// Seconds; `None` for meters of connections.
        timeout: Option<u32>,
    },
}

/// The contents of a set that are updated again and again: addresses of DNS names, or the kernel's
/// own numbers of objects that appear and disappear.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Refreshed {
    /// The DNS names. For a set whose [`Key`] is followed, the paths below the root.
    /// Empty in an observed state.
    pub names: Vec<String>,
    /// The interval between look-ups of DNS names, in seconds. 0 for followed objects, whose
    /// changes the kernel reports.
    pub every: u32,
    /// The values with which the set is created.
    pub found: Vec<u128>,
}

impl PartialEq for Refreshed {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Refreshed {}

/// A chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chain {
    /// Its name.
    pub name: String,
    /// The hook to which it is attached.
    pub hook: Hook,
    /// Its rules in order.
    pub rules: Shared<Rule>,
}

/// The hook of a chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Hook {
    /// `inet` postrouting at mangle priority, before source NAT. It sees forwarded and own packets
    /// with inside addresses, for one outgoing device.
    Postrouting {
        /// The outgoing device.
        device: DeviceName,
    },
    /// `netdev` ingress of a device. Every packet that arrives there is sent to the egress of an
    /// IFB device, where a qdisc shapes it. The packet has the class that a rule wrote, or none,
    /// which selects the qdisc's default class.
    ///
    /// The rules and the redirection (`fwd to`, net/netfilter/nft_fwd_netdev.c) are one table,
    /// replaced in one transaction. A `netdev` egress chain on the IFB would never run: packets
    /// redirected by tc skip it (`nf_skip_egress`, net/core/dev.c).
    Ingress {
        /// The device at which packets arrive.
        device: DeviceName,
        /// The IFB device that they are sent to.
        redirect_to: DeviceName,
    },
    /// `netdev` egress of a device that is a port of a bridge. It sees every packet that leaves
    /// there, including bridged ones, which never reach `inet`. These have not passed connection
    /// tracking, and have no input device. A packet with an 802.1Q tag in its metadata is looked
    /// into. Packets within PPPoE are seen by rules of [`Frame::Session`] alone
    /// (`nft_do_chain_netdev`, net/netfilter/nft_chain_filter.c).
    Egress {
        /// The device.
        device: DeviceName,
    },
    /// `inet` prerouting at raw priority: what arrives through any device, before connection
    /// tracking. Only this hook permits refusing packets.
    Prerouting,
    /// `inet` output at mangle priority: what this machine itself sends, through any device. Some
    /// fields are known only here ([`Field::is_at_output_only`]).
    Output,
    /// No hook: run by [`RuleVerdict::Jump`] or [`RuleVerdict::Goto`].
    Called,
    /// No hook, and jumped to only while it is switched on. The switch is a verdict map of its own,
    /// with the name of [`switch_name`]. While it is on, it has an element for each IP version, and
    /// in `netdev` tables one for PPPoE sessions. Switching is one small transaction that leaves
    /// rules and counters alone.
    Switched {
        /// Whether jumps to it have an effect.
        on: bool,
    },
    /// Any other hook, described: only observed, never desired.
    Other(String),
}

/// Returns the name of the verdict map that switches a chain.
#[must_use]
pub fn switch_name(chain: &str) -> String {
    format!("switch_{chain}")
}

/// One rule; the module describes its effect.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Rule {
    /// Where it finds the IP packet; the plain frame if it looks at none.
    #[serde(default, skip_serializing_if = "Frame::is_plain")]
    pub frame: Frame,
    /// The conditions, all of which must hold. A rule without any matches every packet.
    pub matches: Vec<Match>,
    /// The named counter that counts what it matches. Rules may share one.
    #[serde(default)]
    pub counter: Option<String>,
    /// What it does.
    pub effects: Vec<Effect>,
    /// What happens after it.
    pub verdict: RuleVerdict,
    /// The policy line that requires it.
    pub origin: Origin,
}

/// One condition.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Match {
    /// A field of the packet, its connection or the time has one of the values; if `negated`,
    /// another value.
    Test {
        /// The field.
        field: Field,
        /// Whether it must have none of the values.
        negated: bool,
        /// The values.
        values: Values,
    },
    /// A TCP segment without payload, judged by the IP length and both header lengths; if
    /// `negated`, one with payload. An IPv6 packet with extension headers counts as one with
    /// payload.
    TcpPayloadEmpty {
        /// The IP version.
        version: IpVersion,
        /// Whether it must have payload.
        negated: bool,
    },
    /// A rate or a number of connections, counted separately for each value of a field.
    Meter(Meter),
    /// Any other condition in a rule of the kernel, described: only observed, never desired.
    Other(String),
}

/// The values with which a field is compared.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Values {
    /// The range from..=to.
    Range(u128, u128),
    /// The elements of a set of the same table.
    Set(String),
    /// A text, for fields whose value is one.
    Text(String),
}

/// A count for each value of a field, kept in a set of [`Content::Meter`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Meter {
    /// The field by which packets are distinguished.
    pub field: Field,
    /// The set that keeps the counts. Rules may share one.
    pub set: String,
    /// What is counted.
    pub count: Count,
    /// True to match packets beyond the limit, false to match those within.
    pub over: bool,
}

/// What a meter counts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Count {
    /// A token bucket of packets that fills at `rate` per `per` seconds, holds `burst`, and is full
    /// at first (`nft_limit_eval`, net/netfilter/nft_limit.c).
    Packets {
        /// Packets per `per`.
        rate: u64,
        /// 1, 60, 3600 or 86400 seconds.
        per: u32,
        /// The size of the bucket in packets, at least 1.
        burst: u32,
    },
    /// A token bucket of bytes of IP packets. At egress it includes the Ethernet header, and the
    /// PPPoE header if there is one.
    Bytes {
        /// Bytes per second.
        rate: u64,
        /// The size of the bucket beyond one second's bytes, as the kernel counts it.
        burst: u32,
    },
    /// Open connections, including this packet's. The kernel drops a packet whose connection it
    /// cannot determine (`nft_connlimit_do_eval`, net/netfilter/nft_connlimit.c). So an earlier
    /// match excludes packets without a connection.
    ///
    /// The kernel counts the tuples of a list, and removes ended connections with a delay
    /// (`__nf_conncount_add`, net/netfilter/nf_conncount.c). So the number may be too high for up
    /// to about a second.
    Connections(u32),
}

/// What a rule does to a packet that fulfils its conditions.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Effect {
    /// Writes the class id to `skb->priority`.
    Class(Handle),
    /// Writes the class that a map ([`Content::Classes`] of the same table) has for the field's
    /// value. If the map has none, or the packet does not have the field, the rule ends there.
    ClassOf {
        /// The field that is looked up: an address. A match of its IP version comes before.
        field: Field,
        /// The map.
        map: String,
    },
    /// Lowers the maximum segment size that a TCP SYN announces to this many bytes of payload. A
    /// lower value stays, and so does a segment without the option (`nft_exthdr_tcp_set_eval`,
    /// net/netfilter/nft_exthdr.c). A match on TCP comes before.
    MaxSegment(u16),
    /// Writes `value` into the bits of `mask` of the packet's mark; other bits
    /// stay.
    Mark {
        /// The bits written.
        mask: u32,
        /// Their value, within the mask.
        value: u32,
    },
    /// Writes `value` into the bits of `mask` of the connection's mark; other
    /// bits stay. Needs a connection.
    ConnectionMark {
        /// The bits written.
        mask: u32,
        /// Their value, within the mask.
        value: u32,
    },
    /// Writes the code point; the two ECN bits stay. A match of the same IP version comes before.
    Dscp(IpVersion, Dscp),
}

/// What happens after a rule that matched.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum RuleVerdict {
    /// Continues with the next rule.
    Continue,
    /// Runs no further rule; the packet goes where the table's hook sends it.
    Final,
    /// Runs the chain's rules, then the next rule.
    Jump(String),
    /// Runs the chain's rules instead of the rest of this chain.
    Goto(String),
    /// Returns to where this chain was jumped to.
    Return,
    /// Refuses the packet by ICMP, like a closed port (`nft_reject_inet_eval`); only in a chain of
    /// [`Hook::Prerouting`].
    Refuse,
}

impl Rule {
    /// Returns a rule that sets a class and is the last one for its packets.
    #[must_use]
    pub fn classify(matches: Vec<Match>, class: Handle, origin: Origin) -> Self {
        Self {
            frame: Frame::Plain,
            matches,
            counter: None,
            effects: vec![Effect::Class(class)],
            verdict: RuleVerdict::Final,
            origin,
        }
    }

    /// Returns the class that it writes, if any.
    #[must_use]
    pub fn class(&self) -> Option<Handle> {
        self.effects.iter().rev().find_map(|effect| match effect {
            Effect::Class(class) => Some(*class),
            _ => None,
        })
    }
}

impl Table {
    /// Returns the table in the canonical form in which tables are compared.
    #[must_use]
    pub fn canonical(&self) -> Self {
        let mut table = self.clone();
        let sorted = self.sets.is_sorted_by(|a, b| a.name <= b.name);
        if !sorted || !self.sets.iter().all(Set::is_canonical) {
            let mut sets: Vec<Set> = self.sets.iter().map(Set::canonical).collect();
            sets.arrange_by(|a, b| a.name.cmp(&b.name));
            table.sets = sets.into();
        }
        // The order of chains has no meaning, and the kernel appends new ones.
        table.chains.arrange_by(|a, b| a.name.cmp(&b.name));
        table
    }

    /// Returns the devices to which its chains are attached or redirect.
    pub fn devices(&self) -> impl Iterator<Item = &DeviceName> {
        self.chains.iter().flat_map(|chain| match &chain.hook {
            Hook::Postrouting { device } | Hook::Egress { device } => vec![device],
            Hook::Ingress {
                device,
                redirect_to,
            } => vec![device, redirect_to],
            Hook::Prerouting
            | Hook::Output
            | Hook::Called
            | Hook::Switched { .. }
            | Hook::Other(_) => vec![],
        })
    }

    /// Returns the set of this name.
    #[must_use]
    pub fn set(&self, name: &str) -> Option<&Set> {
        // Sets are sorted by name in canonical form.
        match self
            .sets
            .binary_search_by(|set| set.name.as_str().cmp(name))
        {
            Ok(at) => self.sets.get(at),
            Err(_) => self.sets.iter().find(|set| set.name == name),
        }
    }

    /// Returns the names of all counters, each once, sorted.
    #[must_use]
    pub fn counters(&self) -> Vec<&str> {
        let rules = self.chains.iter().flat_map(|chain| &chain.rules);
        let mut names: Vec<&str> = rules.filter_map(|rule| rule.counter.as_deref()).collect();
        names.arrange();
        names.dedup();
        names
    }
}
