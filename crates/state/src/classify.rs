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
    /// Anything else, described: observed only, never desired.
    Other(String),
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
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
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
    /// `ICMPv6` type from..=to (RFC 4443 section 2.1); 133 to 137 are neighbour
    /// discovery (RFC 4861 section 4).
    Icmpv6Type(u8, u8),
    /// The packet came in through this device (`meta iifname`; filled in at
    /// postrouting since Linux 5.7).
    InputDevice(DeviceName),
    /// The packet did not come in through this device; the router's own
    /// packets came in through none.
    NotInputDevice(DeviceName),
    /// Anything else found in a rule of the kernel, described: observed only,
    /// never desired.
    Other(String),
}

/// Upper-layer protocols whose header begins with two ports: TCP, UDP, DCCP,
/// SCTP. A rule that tests a port and names no protocol holds for these.
pub const PROTOCOLS_WITH_PORTS: [u8; 4] = [6, 17, 33, 132];

/// TCP's protocol number.
pub const TCP: u8 = 6;

/// `ICMPv6`'s protocol number.
pub const ICMPV6: u8 = 58;

impl Match {
    /// The IP version without which this cannot hold.
    #[must_use]
    pub fn version(&self) -> Option<IpVersion> {
        match self {
            Self::Version(version)
            | Self::Dscp(version, _)
            | Self::Length(version, _, _)
            | Self::TcpPayloadEmpty(version) => Some(*version),
            Self::Icmpv6Type(..) => Some(IpVersion::V6),
            Self::Source { address, .. } | Self::Destination { address, .. } => {
                Some(if address.is_ipv4() {
                    IpVersion::V4
                } else {
                    IpVersion::V6
                })
            }
            _ => None,
        }
    }

    /// The upper-layer protocol without which this cannot hold.
    #[must_use]
    pub fn protocol(&self) -> Option<u8> {
        match self {
            Self::Protocol(number) => Some(*number),
            Self::TcpFlags { .. } | Self::TcpPayloadEmpty(_) => Some(TCP),
            Self::Icmpv6Type(..) => Some(ICMPV6),
            _ => None,
        }
    }

    /// The same condition with the bits beyond a prefix cleared, an empty
    /// prefix as its IP version, and lengths that IPv6 cannot have left out.
    fn canonical(&self) -> Self {
        match self {
            Self::Source { prefix: 0, .. } | Self::Destination { prefix: 0, .. } => {
                match self.version() {
                    Some(version) => Self::Version(version),
                    None => self.clone(),
                }
            }
            Self::Source { address, prefix } => Self::Source {
                address: network(*address, *prefix),
                prefix: *prefix,
            },
            Self::Destination { address, prefix } => Self::Destination {
                address: network(*address, *prefix),
                prefix: *prefix,
            },
            Self::Length(IpVersion::V6, from, to) => {
                Self::Length(IpVersion::V6, (*from).max(40), *to)
            }
            other => other.clone(),
        }
    }
}

/// The address with all bits after the first `prefix` cleared.
fn network(address: std::net::IpAddr, prefix: u8) -> std::net::IpAddr {
    match address {
        std::net::IpAddr::V4(v4) => {
            let host = 32_u32.saturating_sub(u32::from(prefix));
            let mask = u32::MAX.checked_shl(host).unwrap_or(0);
            std::net::Ipv4Addr::from(u32::from(v4) & mask).into()
        }
        std::net::IpAddr::V6(v6) => {
            let host = 128_u32.saturating_sub(u32::from(prefix));
            let mask = u128::MAX.checked_shl(host).unwrap_or(0);
            std::net::Ipv6Addr::from(u128::from(v6) & mask).into()
        }
    }
}

impl Rule {
    /// The same rule in the one form in which rules are compared: matches
    /// sorted, none twice, and none that another match implies.
    #[must_use]
    pub fn canonical(&self) -> Self {
        let mut matches: Vec<Match> = self.matches.iter().map(Match::canonical).collect();
        matches.sort();
        matches.dedup();
        let all = matches.clone();
        matches.retain(|candidate| match candidate {
            Match::Version(version) => !all
                .iter()
                .any(|other| other != candidate && other.version() == Some(*version)),
            Match::Protocol(number) => !all
                .iter()
                .any(|other| other != candidate && other.protocol() == Some(*number)),
            _ => true,
        });
        Self {
            matches,
            class: self.class,
            origin: self.origin.clone(),
        }
    }
}

impl Table {
    /// The same table with every rule in canonical form.
    #[must_use]
    pub fn canonical(&self) -> Self {
        let mut table = self.clone();
        for chain in &mut table.chains {
            chain.rules = chain.rules.iter().map(Rule::canonical).collect();
        }
        table
    }

    /// The devices on which its chains hang or to which they redirect.
    pub fn devices(&self) -> impl Iterator<Item = &DeviceName> {
        self.chains.iter().flat_map(|chain| match &chain.hook {
            Hook::Postrouting { device } => vec![device],
            Hook::Ingress {
                device,
                redirect_to,
            } => vec![device, redirect_to],
            Hook::Other(_) => vec![],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(matches: Vec<Match>) -> Rule {
        Rule {
            matches,
            class: Handle::new(1, 0x10),
            origin: Origin::default(),
        }
    }

    #[test]
    fn implied_matches_disappear_and_others_stay() {
        let long = rule(vec![
            Match::TcpPayloadEmpty(IpVersion::V4),
            Match::Protocol(TCP),
            Match::Version(IpVersion::V4),
            Match::TcpPayloadEmpty(IpVersion::V4),
        ]);
        assert_eq!(
            long.canonical().matches,
            [Match::TcpPayloadEmpty(IpVersion::V4)]
        );
        let short = rule(vec![Match::Version(IpVersion::V6), Match::Protocol(TCP)]);
        assert_eq!(short.canonical().matches.len(), 2);
    }

    #[test]
    fn prefixes_lose_their_host_bits() {
        let source = |text: &str, prefix| Match::Source {
            address: text.parse().unwrap(),
            prefix,
        };
        let canonical = |m: Match| rule(vec![m]).canonical().matches[0].clone();
        assert_eq!(canonical(source("10.1.2.3", 8)), source("10.0.0.0", 8));
        assert_eq!(canonical(source("10.1.2.3", 32)), source("10.1.2.3", 32));
        assert_eq!(
            canonical(source("2001:db8::1", 32)),
            source("2001:db8::", 32)
        );
        assert_eq!(canonical(source("::", 0)), Match::Version(IpVersion::V6));
    }
}
