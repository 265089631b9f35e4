// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Classification: the one representation from which nftables messages, their
//! text and the explanation of a packet are all made.
//!
//! A rule writes the class id into `skb->priority`, which HTB takes as the
//! class without any tc filter (`htb_classify`, net/sched/sch_htb.c).
//!
//! # Meaning
//!
//! What the kernel does with a packet, and what anything that simulates it must
//! do:
//!
//! 1. The base chain whose [`Hook`] the packet passes runs from its first rule,
//!    with the class as it was (none).
//! 2. A rule's matches are tried in order. A match whose field the packet does
//!    not have fails, negated or not; the first that fails ends the rule and the
//!    next rule follows. A [`Meter`] is a match with a memory: it is charged when
//!    it is reached, that is when every match before it held.
//! 3. When all held, the rule's counter counts, then its effects happen in
//!    order, then its [`RuleVerdict`]. An effect that needs a connection, on a packet
//!    that has none, ends the rule there; so does [`Effect::ClassOf`] where its
//!    map has nothing for the field's value, and either on a packet that does
//!    not have the field.
//! 4. `Continue` goes on with the next rule, so that a later rule may write
//!    another class; `Jump` runs a chain and comes back; `Goto` runs it and
//!    comes back to where the present chain was called from; `Return` goes
//!    back; `Final` ends. A chain that ends returns, a base chain that ends is
//!    `Final`. A jump to a chain with `Hook::Switched { on: false }` does
//!    nothing.
//! 5. The packet leaves with the last class written. [`Field::Class`] is that
//!    class so far; before any, it is what the packet came with: 0, or what the
//!    sender of one of the router's own asked for (`SO_PRIORITY`), which is
//!    below 1:0 unless root wrote it.
//!
//! Nothing is implied: a rule that loads a port states the protocols that have
//! one. [`Rule::guarded`] adds such matches.

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
use crate::{DeviceName, Origin, Refreshed, Shared};
use serde::{Deserialize, Serialize};
use weirgate_units::Arrange as _;
use weirgate_units::{Dscp, Handle};

/// One table that weirgate owns whole.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Table {
    /// True for the `netdev` family (a hook on one device), false for `inet`.
    pub netdev: bool,
    /// Its name.
    pub name: String,
    /// Its sets, by name.
    #[serde(default)]
    pub sets: Shared<Set>,
    /// Its chains, called ones too.
    pub chains: Vec<Chain>,
}

/// A set that rules look values up in, or in which meters keep their counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Set {
    /// Its name, as nft takes it.
    pub name: String,
    /// What its elements are.
    pub key: Key,
    /// Its contents.
    pub content: Content,
    /// Which policy line wants it.
    pub origin: Origin,
}

/// What a set holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Content {
    /// These values, as ranges from..=to; sorted and apart in canonical form.
    /// They are values of the field that is looked up as [`Field::raw`] gives
    /// them.
    Fixed(Vec<(u128, u128)>),
    /// A map: of each of these ranges from..=to the class; sorted and apart in
    /// canonical form. [`Effect::ClassOf`] alone looks things up in it.
    Classes(Vec<(u128, u128, Handle)>),
    /// Addresses of DNS names, or numbers of what comes and goes: what was found last.
    /// Which names they are and what was found takes no part in comparison: a plan
    /// sees no difference, and the elements are replaced in place.
    Refreshed(Refreshed),
    /// What meters put there, at most `size` keys; further keys do not match.
    /// A key is forgotten `timeout` seconds after the last packet of its;
    /// without a timeout, with its last connection.
    Meter {
        /// The greatest number of keys.
        size: u32,
        /// Seconds; `None` for meters of connections.
        timeout: Option<u32>,
    },
}

/// A chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chain {
    /// Its name.
    pub name: String,
    /// Where it hangs.
    pub hook: Hook,
    /// Its rules in order.
    pub rules: Shared<Rule>,
}

/// Where a chain hangs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Hook {
    /// `inet` postrouting at mangle priority, before source NAT: forwarded and
    /// own packets with inside addresses, limited to one outgoing device.
    Postrouting {
        /// The outgoing device.
        device: DeviceName,
    },
    /// `netdev` ingress of a device: every packet that arrives there is sent
    /// to the egress of an IFB device, where a qdisc shapes it, with the class
    /// that a rule gave it (or none, which selects the qdisc's default class).
    ///
    /// The rules and the redirection (`fwd to`, net/netfilter/nft_fwd_netdev.c)
    /// are one table, replaced in one transaction. A `netdev` egress chain on
    /// the IFB would never run: packets redirected by tc skip it
    /// (`nf_skip_egress`, net/core/dev.c).
    Ingress {
        /// The device at which packets arrive.
        device: DeviceName,
        /// The IFB device whose egress gets them.
        redirect_to: DeviceName,
    },
    /// `netdev` egress of a device, a port of a bridge: every packet that leaves
    /// there, also bridged ones, which never come to `inet`. It has not passed
    /// connection tracking, and shows no device that it came in through. A tag
    /// of 802.1Q that stands beside the packet does not hide what is in it; what
    /// PPPoE carries is seen by rules of [`Frame::Session`] alone
    /// (`nft_do_chain_netdev`, net/netfilter/nft_chain_filter.c).
    Egress {
        /// The device.
        device: DeviceName,
    },
    /// `inet` prerouting at raw priority: what arrives by any device, before
    /// connection tracking. Only such a chain may refuse packets.
    Prerouting,
    /// `inet` output at mangle priority: what this machine itself sends, by any
    /// device. Some fields are known only here ([`Field::is_at_output_only`]).
    Output,
    /// Nowhere: run by [`RuleVerdict::Jump`] or [`RuleVerdict::Goto`].
    Called,
    /// Nowhere, and jumped to only while it is switched on. The switch is a
    /// verdict map of its own, named as [`switch_name`] says, with an element
    /// for each IP version while it is on, in `netdev` tables one for sessions of
    /// PPPoE too; switching is one small transaction that leaves rules and
    /// counters alone.
    Switched {
        /// Whether jumps to it do something.
        on: bool,
    },
    /// Anything else, described: observed only, never desired.
    Other(String),
}

/// The verdict map that switches a chain.
#[must_use]
pub fn switch_name(chain: &str) -> String {
    format!("switch_{chain}")
}

/// One rule; see the module for what it does.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Rule {
    /// Where it finds the IP packet; the plain one where it looks at none.
    #[serde(default, skip_serializing_if = "Frame::is_plain")]
    pub frame: Frame,
    /// Conditions, all of which must hold; none matches everything.
    pub matches: Vec<Match>,
    /// The named counter that counts what it matches. Rules may share one.
    #[serde(default)]
    pub counter: Option<String>,
    /// What it does.
    pub effects: Vec<Effect>,
    /// What happens after it.
    pub verdict: RuleVerdict,
    /// Which policy line wants it.
    pub origin: Origin,
}

/// One condition.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Match {
    /// A field of the packet, its connection or the time has one of the
    /// values; `negated`, it has another.
    Test {
        /// The field.
        field: Field,
        /// Whether the values are those it must not have.
        negated: bool,
        /// The values.
        values: Values,
    },
    /// A TCP segment with no payload at all, by IP length and both header
    /// lengths; `negated`, with some. An IPv6 packet with extension headers is
    /// taken for one with payload.
    TcpPayloadEmpty {
        /// The IP version.
        version: IpVersion,
        /// Whether it must have payload.
        negated: bool,
    },
    /// A rate or a number of connections, counted for each value of a field.
    Meter(Meter),
    /// Anything else found in a rule of the kernel, described: observed only,
    /// never desired.
    Other(String),
}

/// What a field is compared with.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Values {
    /// From..=to.
    Range(u128, u128),
    /// The elements of a set of the same table.
    Set(String),
    /// A text, for fields that hold one.
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
    /// True to match what is beyond, false to match what is within.
    pub over: bool,
}

/// What a meter counts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Count {
    /// A bucket of packets that fills at `rate` per `per` seconds and holds
    /// `burst`, full at first (`nft_limit_eval`, net/netfilter/nft_limit.c).
    Packets {
        /// Packets per `per`.
        rate: u64,
        /// 1, 60, 3600 or 86400 seconds.
        per: u32,
        /// The bucket, in packets; at least 1.
        burst: u32,
    },
    /// The same in bytes of IP packets per second; at egress with the header of
    /// Ethernet, and that of PPPoE where there is one.
    Bytes {
        /// Bytes in a second.
        rate: u64,
        /// The bucket beyond a second's bytes, as the kernel counts it.
        burst: u32,
    },
    /// Connections that are open, this packet's included. A packet of which
    /// the kernel cannot tell the connection is dropped (`nft_connlimit_do_eval`,
    /// net/netfilter/nft_connlimit.c), so a match stands before that leaves out
    /// those without one.
    ///
    /// The kernel counts the tuples of a list, and is not always quick to take
    /// ended connections off it (`__nf_conncount_add`,
    /// net/netfilter/nf_conncount.c): the number may be higher for up to about
    /// a second.
    Connections(u32),
}

/// What a rule does to a packet that fulfils its conditions.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Effect {
    /// Writes the class id to `skb->priority`.
    Class(Handle),
    /// Writes the class that a map ([`Content::Classes`] of the same table) has
    /// for the field's value; nothing, and the rule ends there, where it has
    /// none or the packet does not have the field.
    ClassOf {
        /// What is looked up: an address. A match of its IP version stands
        /// before.
        field: Field,
        /// The map.
        map: String,
    },
    /// Lowers the largest segment that a TCP SYN announces to so many bytes of
    /// payload; a lower one stays, and a segment without the option stays
    /// (`nft_exthdr_tcp_set_eval`, net/netfilter/nft_exthdr.c). Stands after a
    /// match on TCP.
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
    /// Writes the code point; the two bits of ECN stay. Stands after a match of
    /// the same IP version.
    Dscp(IpVersion, Dscp),
}

/// What happens after a rule that matched.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum RuleVerdict {
    /// The next rule.
    Continue,
    /// No further rule; the packet goes where the table's hook sends it.
    Final,
    /// The chain's rules, then the next rule.
    Jump(String),
    /// The chain's rules instead of the rest of this chain.
    Goto(String),
    /// Back to where this chain was jumped to from.
    Return,
    /// Refused by ICMP as by a port that is not open (`nft_reject_inet_eval`);
    /// only in a chain of [`Hook::Prerouting`].
    Refuse,
}

impl Rule {
    /// A rule that sets a class and is the last one for its packets.
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

    /// The class it writes, if it writes one.
    #[must_use]
    pub fn class(&self) -> Option<Handle> {
        self.effects.iter().rev().find_map(|effect| match effect {
            Effect::Class(class) => Some(*class),
            _ => None,
        })
    }
}

impl Table {
    /// The same table in the one form in which tables are compared.
    #[must_use]
    pub fn canonical(&self) -> Self {
        let mut table = self.clone();
        let sorted = self.sets.is_sorted_by(|a, b| a.name <= b.name);
        if !sorted || !self.sets.iter().all(Set::is_canonical) {
            let mut sets: Vec<Set> = self.sets.iter().map(Set::canonical).collect();
            sets.arrange_by(|a, b| a.name.cmp(&b.name));
            table.sets = sets.into();
        }
        // The order of chains means nothing, and the kernel appends new ones.
        table.chains.arrange_by(|a, b| a.name.cmp(&b.name));
        table
    }

    /// The devices on which its chains hang or to which they redirect.
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

    /// The set of this name.
    #[must_use]
    pub fn set(&self, name: &str) -> Option<&Set> {
        // In a table of canonical form it is found at once.
        match self
            .sets
            .binary_search_by(|set| set.name.as_str().cmp(name))
        {
            Ok(at) => self.sets.get(at),
            Err(_) => self.sets.iter().find(|set| set.name == name),
        }
    }

    /// The names of all counters, each once, sorted.
    #[must_use]
    pub fn counters(&self) -> Vec<&str> {
        let rules = self.chains.iter().flat_map(|chain| &chain.rules);
        let mut names: Vec<&str> = rules.filter_map(|rule| rule.counter.as_deref()).collect();
        names.arrange();
        names.dedup();
        names
    }
}
