// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Connections of connection tracking: lists them, and clears the decisions in their marks.
//!
//! Messages and attributes are those of linux/netfilter/nfnetlink_conntrack.h; the kernel loads
//! `nf_conntrack_netlink` at the first request.

use crate::Kernel;
use crate::error::KernelError;
use crate::netlink::channel::Request;
use crate::netlink::wire::Attrs;
use crate::nft::NFGENMSG;
use libc::{EINVAL, ENOENT};
use nlink::netlink::MessageBuilder;
use nlink::netlink::attr::NLA_F_NESTED;
use nlink::netlink::message::NLM_F_REQUEST;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use weirgate_state::Origin;

const NFNL_SUBSYS_CTNETLINK: u16 = libc::NFNL_SUBSYS_CTNETLINK as u16;
const CT_NEW: u16 = 0;
const CT_GET: u16 = 1;
const CT_DELETE: u16 = 2;
const CT_GET_STATS: u16 = 5;

const CTA_TUPLE_ORIG: u16 = 1;
const CTA_TUPLE_REPLY: u16 = 2;
const CTA_STATUS: u16 = 3;
const CTA_PROTOINFO: u16 = 4;
const CTA_TIMEOUT: u16 = 7;
const CTA_MARK: u16 = 8;
const CTA_COUNTERS_ORIG: u16 = 9;
const CTA_COUNTERS_REPLY: u16 = 10;
const CTA_ZONE: u16 = 18;
const CTA_MARK_MASK: u16 = 21;
const CTA_TUPLE_IP: u16 = 1;
const CTA_TUPLE_PROTO: u16 = 2;
const CTA_IP_V4_SRC: u16 = 1;
const CTA_IP_V4_DST: u16 = 2;
const CTA_IP_V6_SRC: u16 = 3;
const CTA_IP_V6_DST: u16 = 4;
const CTA_PROTO_NUM: u16 = 1;
const CTA_PROTO_SRC_PORT: u16 = 2;
const CTA_PROTO_DST_PORT: u16 = 3;
const CTA_PROTO_ICMP_TYPE: u16 = 5;
const CTA_PROTO_ICMPV6_TYPE: u16 = 8;
const CTA_PROTOINFO_TCP: u16 = 1;
const CTA_PROTOINFO_TCP_STATE: u16 = 1;
const CTA_COUNTERS_PACKETS: u16 = 1;
const CTA_COUNTERS_BYTES: u16 = 2;
/// The maximum number of tracked connections, in this thread's namespace.
const LIMIT: &str = "/proc/sys/net/netfilter/nf_conntrack_max";
/// How many connections one call changes: the socket's receive buffer has room for as many
/// refusals.
const PART: usize = 128;
/// The error without nf_conntrack_netlink (`nfnetlink_rcv_msg`, net/netfilter/nfnetlink.c).
const NO_TRACKING: i32 = EINVAL;
/// `IPS_SEEN_REPLY`.
const SEEN_REPLY: u32 = 2;

/// One direction of a connection, as its packets have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tuple {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// The upper-layer protocol.
    pub protocol: u8,
    /// Source port; 0 if the protocol has none.
    pub source_port: u16,
    /// Destination port; 0 if the protocol has none.
    pub destination_port: u16,
    /// The type of an ICMP message; 0 for other protocols.
    pub icmp_type: u8,
}

/// The traffic of one direction of a connection so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Carried {
    /// Packets.
    pub packets: u64,
    /// Bytes of IP packets.
    pub bytes: u64,
}

/// A connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connection {
    /// The direction of the packet that opened it, with addresses before translation.
    pub original: Tuple,
    /// The direction of replies, with addresses as they arrive.
    pub reply: Tuple,
    /// Whether a reply was seen.
    pub answered: bool,
    /// `enum tcp_conntrack` (linux/netfilter/nf_conntrack_tcp.h), for TCP.
    pub tcp_state: Option<u8>,
    /// Seconds until the entry expires without further packets.
    pub timeout: u32,
    /// Its mark.
    pub mark: u32,
    /// The traffic of the original and of the reply direction; `None` if
    /// `net.netfilter.nf_conntrack_acct` was off when it began.
    pub carried: Option<(Carried, Carried)>,
}

/// Numbers of connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ConnectionCount {
    /// All of them.
    pub all: u64,
    /// Connections for which no reply was seen.
    pub unanswered: u64,
    /// Connections with a mark other than 0.
    pub marked: u64,
}

/// A summary of the connection table: the first connections, and counts of all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ConnectionTable {
    /// The first [`ConnectionTable::MOST`], in the table's order.
    pub first: Vec<Connection>,
    /// All of them.
    pub count: ConnectionCount,
    /// Counts by protocol and destination port, for the first [`ConnectionTable::MOST_SERVICES`] of
    /// these.
    pub services: BTreeMap<(u8, u16), ConnectionCount>,
    /// Counts of the connections to other services.
    pub others: ConnectionCount,
}

impl ConnectionTable {
    /// The number of connections that are stored individually.
    pub const MOST: usize = 32_768;
    /// The number of services that are distinguished.
    pub const MOST_SERVICES: usize = 4_096;

    /// Adds a connection.
    pub fn add(&mut self, one: Connection) {
        self.count.add(&one);
        let key = (one.original.protocol, one.original.destination_port);
        let room = self.services.len() < Self::MOST_SERVICES;
        match self.services.entry(key) {
            Entry::Occupied(known) => known.into_mut().add(&one),
            Entry::Vacant(new) if room => new.insert(ConnectionCount::default()).add(&one),
            Entry::Vacant(_) => self.others.add(&one),
        }
        if self.first.len() < Self::MOST {
            self.first.push(one);
        }
    }
}

impl ConnectionCount {
    fn add(&mut self, one: &Connection) {
        self.all += 1;
        self.unanswered += u64::from(!one.answered);
        self.marked += u64::from(one.mark != 0);
    }
}

impl Kernel {
    /// Returns every tracked connection of the namespace.
    pub async fn connections(&self) -> Result<Vec<Connection>, KernelError> {
        let listed = self.listed().await?;
        Ok(listed.iter().filter_map(|payload| read(payload)).collect())
    }

    /// Returns a summary of connections. Its memory is bounded, even if an attacker fills the
    /// table.
    pub async fn connection_table(&self) -> Result<ConnectionTable, KernelError> {
        let message = message(CT_GET, 0);
        let add = |table: &mut ConnectionTable, payload: &[u8]| {
            if let Some(one) = read(payload) {
                table.add(one);
            }
        };
        let listed = self.nft.fold(&message, "listing connections", false, add);
        listed.await
    }

    /// Returns the maximum number of tracked connections; `None` without connection tracking.
    #[must_use]
    pub fn connection_limit(&self) -> Option<u64> {
        let text = std::fs::read_to_string(LIMIT).ok()?;
        text.trim().parse().ok()
    }

    /// Removes from connection tracking every connection whose mark has this value under `mask`.
    /// The next packet of each begins a new connection, with a new address translation. This is one
    /// request for any number of connections (`ctnetlink_flush_conntrack`,
    /// net/netfilter/nf_conntrack_netlink.c). Does nothing on a kernel that does not list
    /// connections.
    pub async fn drop_connections(&self, mask: u32, value: u32) -> Result<(), KernelError> {
        let mut message = message(CT_DELETE, 0);
        message.append_attr_u32_be(CTA_MARK, value);
        message.append_attr_u32_be(CTA_MARK_MASK, mask);
        let request = Request {
            message,
            object: format!("forget connections of mark {value:#x}/{mask:#x}"),
            origin: Origin::default(),
            frame: false,
        };
        match self.change_connections(vec![request]).await {
            Err(KernelError::Refused(refusal)) if refusal.errno == NO_TRACKING => Ok(()),
            dropped => dropped,
        }
    }

    /// Makes the kernel load connection tracking if it is a module. A BPF program only finds the
    /// functions of modules that are present when it is loaded (`find_ksym_btf_id`,
    /// tools/lib/bpf/libbpf.c). Does nothing on a kernel without it.
    pub(crate) async fn load_tracking(&self) {
        // The statistics are the shortest answer.
        let message = message(CT_GET_STATS, 0);
        let _ = self.nft.get(&message, "asking for connections", true).await;
    }

    async fn listed(&self) -> Result<Vec<Vec<u8>>, KernelError> {
        let message = message(CT_GET, 0);
        self.nft.get(&message, "listing connections", false).await
    }

    /// Clears the bits of `mask` in the marks of connections that have one of the values there. A
    /// connection that has ended in between is not an error. Does nothing on a kernel that does not
    /// list connections: there the marks stay until their connections end.
    pub(crate) async fn forget(
        &self,
        mask: u32,
        values: &BTreeSet<u32>,
    ) -> Result<(), KernelError> {
        let listed = match self.listed().await {
            Err(KernelError::Refused(refusal)) if refusal.errno == NO_TRACKING => return Ok(()),
            listed => listed?,
        };
        let mut requests = listed
            .iter()
            .filter(|payload| {
                let whole = Attrs::after(payload, NFGENMSG).u32_be(CTA_MARK);
                whole.is_some_and(|whole| values.contains(&(whole & mask)))
            })
            .filter_map(|payload| cleared(payload, mask));
        loop {
            let part: Vec<Request> = requests.by_ref().take(PART).collect();
            if part.is_empty() {
                return Ok(());
            }
            self.change_connections(part).await?;
        }
    }

    /// Sends requests for connections, any of which may have ended in between.
    async fn change_connections(&self, requests: Vec<Request>) -> Result<(), KernelError> {
        let refused = self.nft.each(requests).await?;
        match refused.into_iter().find(|refusal| refusal.errno != ENOENT) {
            Some(refusal) => Err(KernelError::Refused(refusal)),
            None => Ok(()),
        }
    }
}

fn message(kind: u16, family: u8) -> MessageBuilder {
    let mut message = MessageBuilder::new((NFNL_SUBSYS_CTNETLINK << 8) | kind, NLM_F_REQUEST);
    message.append_bytes(&[family, 0, 0, 0]);
    message
}

/// Returns the request that clears these bits of a listed connection's mark
/// (`ctnetlink_change_mark`, net/netfilter/nf_conntrack_netlink.c).
fn cleared(payload: &[u8], mask: u32) -> Option<Request> {
    let attrs = Attrs::after(payload, NFGENMSG);
    let mut message = message(CT_NEW, *payload.first()?);
    message.append_attr(CTA_TUPLE_ORIG | NLA_F_NESTED, attrs.bytes(CTA_TUPLE_ORIG)?);
    if let Some(zone) = attrs.bytes(CTA_ZONE) {
        message.append_attr(CTA_ZONE, zone);
    }
    message.append_attr_u32_be(CTA_MARK, 0);
    message.append_attr_u32_be(CTA_MARK_MASK, mask);
    Some(Request {
        message,
        object: String::from("forget a connection's kept decision"),
        origin: Origin::default(),
        frame: false,
    })
}

fn read(payload: &[u8]) -> Option<Connection> {
    let attrs = Attrs::after(payload, NFGENMSG);
    let carried = |kind| {
        let counters = attrs.nest(kind);
        let number = |kind| counters.u64(kind).map(u64::from_be);
        Some(Carried {
            packets: number(CTA_COUNTERS_PACKETS)?,
            bytes: number(CTA_COUNTERS_BYTES)?,
        })
    };
    let state = attrs.nest(CTA_PROTOINFO).nest(CTA_PROTOINFO_TCP);
    Some(Connection {
        original: tuple(&attrs.nest(CTA_TUPLE_ORIG))?,
        reply: tuple(&attrs.nest(CTA_TUPLE_REPLY))?,
        answered: attrs.u32_be(CTA_STATUS).unwrap_or(0) & SEEN_REPLY != 0,
        tcp_state: state
            .bytes(CTA_PROTOINFO_TCP_STATE)
            .and_then(|bytes| bytes.first().copied()),
        timeout: attrs.u32_be(CTA_TIMEOUT).unwrap_or(0),
        mark: attrs.u32_be(CTA_MARK).unwrap_or(0),
        carried: carried(CTA_COUNTERS_ORIG).zip(carried(CTA_COUNTERS_REPLY)),
    })
}

fn tuple(attrs: &Attrs<'_>) -> Option<Tuple> {
    let (ip, proto) = (attrs.nest(CTA_TUPLE_IP), attrs.nest(CTA_TUPLE_PROTO));
    let v4 = |kind| {
        let bytes: [u8; 4] = ip.bytes(kind)?.try_into().ok()?;
        Some(IpAddr::V4(Ipv4Addr::from(bytes)))
    };
    let v6 = |kind| {
        let bytes: [u8; 16] = ip.bytes(kind)?.try_into().ok()?;
        Some(IpAddr::V6(Ipv6Addr::from(bytes)))
    };
    let byte = |kind| proto.bytes(kind).and_then(|bytes| bytes.first().copied());
    let port = |kind| {
        let bytes: Option<[u8; 2]> = proto.bytes(kind).and_then(|bytes| bytes.try_into().ok());
        bytes.map_or(0, u16::from_be_bytes)
    };
    Some(Tuple {
        source: v4(CTA_IP_V4_SRC).or_else(|| v6(CTA_IP_V6_SRC))?,
        destination: v4(CTA_IP_V4_DST).or_else(|| v6(CTA_IP_V6_DST))?,
        protocol: byte(CTA_PROTO_NUM)?,
        source_port: port(CTA_PROTO_SRC_PORT),
        destination_port: port(CTA_PROTO_DST_PORT),
        icmp_type: byte(CTA_PROTO_ICMP_TYPE)
            .or_else(|| byte(CTA_PROTO_ICMPV6_TYPE))
            .unwrap_or(0),
    })
}
