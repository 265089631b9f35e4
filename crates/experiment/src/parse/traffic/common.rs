// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fields that traffic and probes share.

use crate::Node;
use crate::parse::registry::{Field, Integer, Own, Switch, Text};
use crate::parse::scope::Scope;
use crate::parse::{codes, field, schedule};
use weirgate_document::Reader;
use weirgate_units::{Dscp, Span};

/// Largest IP packet: the MTU of the lab's devices.
const LARGEST_PACKET: i64 = 1_500;
/// Shortest interval between packets of one sender: 100 000 packets/s.
pub(super) const SHORTEST_INTERVAL: Span = Span::from_micros(10);
/// Length of the stamp in datagrams in bytes: sequence number and time. An ICMP echo has its own
/// sequence number.
pub(super) const STAMP: i64 = 12;

pub(super) const NODE_HINT: &str = "name a place: host1, gateway, provider, server1";
pub(super) const SPAN_HINT: &str = "write a time span, such as `\"10ms\"`";

pub(super) const PORT: Field<Integer> =
    Field::new("port", Integer(1, 65_535), "The port at the far end").default("chosen");
pub(super) const DSCP: Field<Own> = Field::new(
    "dscp",
    Own("code point: name or number"),
    "The code point of its packets",
)
.default("0");
pub(super) const IPV6: Field<Switch> =
    Field::new("ipv6", Switch, "Whether it uses IPv6").default("false");
pub(super) const CLASS: Field<Text> = Field::new(
    "class",
    Text,
    "The policy class that its packets should get, for metrics such as `sojourn.CLASS.max_ms`. If \
     every sender names its class, the shorter bounds of `weirgate check` apply to classes whose \
     traffic is within the guarantee",
);

pub(super) const PACKET: Field<Own> = Field::new(
    "packet",
    Own("bytes up to 1500"),
    "The length of the IP packet, headers included",
)
.required("write the IP packet's length, such as `packet = 40`");
/// Returns whether a node is on the gateway's side of the line.
pub(super) fn inside(node: Node) -> bool {
    matches!(node, Node::Host(_) | Node::Gateway)
}

pub(super) fn crosses_line(table: &Reader<'_, '_>, from: Node, to: Node) {
    if inside(from) == inside(to) {
        let message = format!("packets from {from} to {to} do not cross the line");
        let hint = "one end is a host or the gateway, the other the provider or a server";
        table
            .problems()
            .error(codes::DIRECTION, field::head(table), message, hint);
    }
}

/// The fields that traffic and probes share.
pub(super) struct Common {
    pub(super) from: Option<Node>,
    pub(super) to: Option<Node>,
    pub(super) runs: Option<Vec<(Span, Span)>>,
    pub(super) dscp: Dscp,
    pub(super) ipv6: bool,
    pub(super) class: Option<String>,
}

pub(super) fn common(
    table: &mut Reader<'_, '_>,
    scope: &mut Scope,
    [from, to]: [&Field<Own>; 2],
) -> Common {
    let from = scope.node(table, from);
    let to = scope.node(table, to);
    let runs = schedule::runs(table, scope);
    let dscp = table.parsed::<Dscp>(DSCP.name);
    let ipv6 = IPV6.get(table);
    let class = CLASS.get(table);
    let class = class.filter(|class| field::well_formed(table, "class", class));
    if let Some(class) = &class {
        scope.classes.insert(class.value.clone());
    }
    Common {
        from,
        to,
        runs,
        dscp: dscp.map(|dscp| dscp.value).unwrap_or_default(),
        ipv6: ipv6.is_some_and(|ipv6| ipv6.value),
        class: class.map(|class| class.value),
    }
}

/// Reads an IP packet length that leaves room for `inner` bytes after the IP header.
pub(super) fn packet(table: &mut Reader<'_, '_>, ipv6: bool, inner: i64) -> Option<u16> {
    let packet = table.integer(PACKET.name, 0..=65_535)?;
    let header = if ipv6 { 40 } else { 20 };
    let least = header + inner;
    if !(least..=LARGEST_PACKET).contains(&packet.value) {
        let message = format!("an IP packet of {} bytes cannot be sent here", packet.value);
        let hint = format!("write {least} (headers and what the lab adds) to {LARGEST_PACKET}");
        table
            .problems()
            .error(codes::PACKET, packet.span, message, hint);
        return None;
    }
    Some(packet.value as u16)
}
