// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Classification: nftables tables that set the class of a packet.
//!
//! A rule writes the class id into `skb->priority`, which HTB takes as the
//! class without any tc filter (`htb_classify`, net/sched/sch_htb.c).

use crate::{DeviceName, Origin};
use serde::{Deserialize, Serialize};
use weirgate_units::{Dscp, Handle};

/// One table that weirgate owns whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    /// True for the `netdev` family (a hook on one device), false for `inet`.
    pub netdev: bool,
    /// Its name.
    pub name: String,
    /// Its chains.
    pub chains: Vec<Chain>,
}

/// A base chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chain {
    /// Its name.
    pub name: String,
    /// Where it hangs.
    pub hook: Hook,
    /// Its rules in order.
    pub rules: Vec<Rule>,
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
}

/// One rule: all matches hold, then the class is set and the chain ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// Conditions, all of which must hold; none matches everything.
    pub matches: Vec<Match>,
    /// The class id written to `skb->priority`.
    pub class: Handle,
    /// Which policy line wants it.
    pub origin: Origin,
}

/// An IP version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum IpVersion {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// One condition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Match {
    /// The IP version.
    Version(IpVersion),
    /// The upper-layer protocol number (`meta l4proto`).
    Protocol(u8),
    /// Source address within a prefix.
    Source {
        /// The network address.
        address: std::net::IpAddr,
        /// Prefix length in bits.
        prefix: u8,
    },
    /// Destination address within a prefix.
    Destination {
        /// The network address.
        address: std::net::IpAddr,
        /// Prefix length in bits.
        prefix: u8,
    },
    /// Source port from..=to (TCP, UDP, SCTP, DCCP).
    SourcePort(u16, u16),
    /// Destination port from..=to.
    DestinationPort(u16, u16),
    /// The code point of the IPv4 or IPv6 header.
    Dscp(IpVersion, Dscp),
    /// IP packet length from..=to: total length of IPv4, 40 + payload length
    /// of IPv6.
    Length(IpVersion, u16, u16),
    /// TCP flags: `flags & mask == value`, bits as in the header's 14th byte.
    TcpFlags {
        /// Bits looked at.
        mask: u8,
        /// Their required value.
        value: u8,
    },
    /// TCP with no payload at all, by IP length and both header lengths.
    TcpPayloadEmpty(IpVersion),
    /// Anything else found in a rule of the kernel, described: observed only,
    /// never desired.
    Other(String),
}
