// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Conditions on packets, one file each: how a condition is written and parsed, what excludes
//! it, and which other conditions imply it.
//!
//! [`Conditions`] holds the conditions of one rule or service as values. Crate `compile` turns
//! each into matches (`classify/condition/lower/mod.rs`). To add a condition, follow
//! `docs/adding/condition.md`; the compiler reports missing steps.

pub(crate) mod address;
pub(crate) mod code_point;
pub(crate) mod connection;
pub(crate) mod control_group;
pub(crate) mod drt;
pub(crate) mod facts;
pub(crate) mod fragment;
pub(crate) mod icmp;
pub(crate) mod interface;
pub(crate) mod length;
pub(crate) mod mac;
pub(crate) mod mark;
pub(crate) mod meter;
pub(crate) mod number;
pub(crate) mod payload;
pub(crate) mod port;
pub(crate) mod protocol;
pub(crate) mod sender;
pub(crate) mod tcp;
pub(crate) mod user;

pub use address::{LocalAddresses, LocalNames, RemoteAddresses, RemoteNames};
pub use code_point::CodePoints;
pub use connection::{Connection, ConnectionState};
pub use control_group::{ControlGroup, ControlGroups};
pub use facts::{Conditions, Kind, Known};
pub use fragment::{Fragment, Fragments};
pub use icmp::{IcmpType, IcmpTypes};
pub use interface::Interfaces;
pub use length::{Lengths, PacketLengths};
pub use mac::Macs;
pub use mark::{Mark, PacketMark};
pub use meter::{Count, Meter, Per};
pub use payload::Payloads;
pub use port::{EitherPorts, LocalPorts, RemotePorts};
pub use protocol::{Protocol, Protocols};
pub use sender::{Sender, SentBy};
pub use tcp::{Flags, LONGEST_PURE_ACK, PureAck, TcpFlags};
pub use user::{Ids, UserGroups, Users};

use crate::codes;
use crate::condition::facts::{ConditionRow, Facts, Finding};
use crate::field::{self, Rows, Table};
use crate::named::group::Groups;
use std::any::Any;
use weirgate_document::{Reader, SourceSpan};

/// Conditions that `not` may contain too, because each tests one field of a packet.
pub(crate) const PLAIN: &[ConditionRow] = &[
    protocol::ROW,
    port::LOCAL,
    port::REMOTE,
    port::EITHER,
    address::LOCAL,
    address::REMOTE,
    code_point::DSCP,
    code_point::TOS,
    drt::URGENCY,
    drt::IMPORTANCE,
    length::ROW,
    tcp::FLAGS_ROW,
    icmp::ROW,
    mac::ROW,
    interface::ROW,
    sender::ROW,
    mark::ROW,
];

/// All other conditions.
pub(crate) const MORE: &[ConditionRow] = &[
    tcp::PURE_ACK,
    payload::ROW,
    user::UID,
    user::GID,
    control_group::ROW,
    connection::ROW,
    fragment::ROW,
];

/// The rows of every condition, for tables that accept all of them.
pub(crate) const ALL: [&dyn Rows; 2] = [&PLAIN, &MORE];

/// The table `[rule.not]`.
pub(crate) const NOT: Table = Table {
    name: "not",
    about: "Conditions of which none may hold",
    rows: &[&PLAIN],
};

/// The table `[[service.NAME.match]]`.
pub(crate) const MATCH: Table = Table {
    name: "match",
    about: "One set of conditions that identifies a service",
    rows: &ALL,
};

macro_rules! conditions {
    ($($(#[$about:meta])* $name:ident($type:ty) $known:expr),+ $(,)?) => {
        /// One condition of a rule or a service. The order of the variants is that of conditions
        /// in [`Conditions`], and of matches in the kernel's rules.
        #[derive(Debug, Clone, Copy)]
        pub enum Condition<'a> {
            $($(#[$about])* $name(&'a $type)),+
        }

        enum Order {
            $($name),+
        }

        impl<'a> Condition<'a> {
            fn of(facts: &'a dyn Facts) -> Option<Self> {
                let one: &dyn Any = facts;
                $(
                    if let Some(one) = one.downcast_ref() {
                        return Some(Self::$name(one));
                    }
                )+
                None
            }

            /// Returns the source of the information that it tests.
            #[must_use]
            pub const fn known(self) -> Known {
                match self {
                    $(Self::$name(_) => $known),+
                }
            }

            fn facts(self) -> &'a dyn Facts {
                match self {
                    $(Self::$name(one) => one),+
                }
            }
        }

        $(
            impl Kind for $type {
                const ORDER: usize = Order::$name as usize;
            }
        )+
    };
}

conditions! {
    /// Upper-layer protocols.
    Protocol(Protocols) Known::Packet,
    /// Addresses of the inside host.
    LocalAddress(LocalAddresses) Known::Packet,
    /// Addresses of the outside host.
    RemoteAddress(RemoteAddresses) Known::Packet,
    /// Code points of the IP header.
    CodePoint(CodePoints) Known::Packet,
    /// Lengths of the IP packet.
    Length(PacketLengths) Known::Packet,
    /// Types of ICMP.
    IcmpType(IcmpTypes) Known::Packet,
    /// Ports of the inside host.
    LocalPort(LocalPorts) Known::Packet,
    /// Ports of the outside host.
    RemotePort(RemotePorts) Known::Packet,
    /// Source MAC addresses of upstream packets.
    Mac(Macs) Known::Input("a MAC address of the inside"),
    /// Users that own the sending sockets on this machine.
    User(Users) Known::Sender("the user or group that sent them"),
    /// Groups that own the sending sockets on this machine.
    UserGroup(UserGroups) Known::Sender("the user or group that sent them"),
    /// TCP flags.
    TcpFlags(Flags) Known::Packet,
    /// The packet's mark.
    Mark(PacketMark) Known::Mark,
    /// The group of DNS names to which the inside host belongs.
    LocalName(LocalNames) Known::Packet,
    /// The group of DNS names to which the outside host belongs.
    RemoteName(RemoteNames) Known::Packet,
    /// Whether it is an acknowledgement without data.
    PureAck(PureAck) Known::Packet,
    /// Whether the router itself sent the packet, or forwards it.
    Sender(SentBy) Known::Input("whether the router sent them"),
    /// The state of the connection in connection tracking.
    Connection(Connection) Known::Connection,
    /// Devices through which upstream packets came in.
    Interface(Interfaces) Known::Input("the inside device that they came in through"),
    /// Control groups in which the sending sockets were created.
    ControlGroup(ControlGroups) Known::Sender("the control group that sent them"),
    /// The protocol detected in the flow's first payloads.
    Payload(Payloads) Known::Packet,
    /// Ports of either host.
    Port(EitherPorts) Known::Packet,
    /// Fragments of IP packets.
    Fragment(Fragments) Known::Packet,
}

impl<'a> Condition<'a> {
    /// Returns its first position in the policy's text.
    #[must_use]
    pub fn span(self) -> Option<&'a SourceSpan> {
        self.facts().span()
    }

    /// Returns the largest length of packets for which it holds, in bytes from the IP header on;
    /// `None` if it sets no limit.
    #[must_use]
    pub fn longest(self) -> Option<u16> {
        self.facts().longest()
    }
}

impl Conditions {
    /// Returns the conditions, at most one of each kind, in the order of the kinds.
    pub fn iter(&self) -> impl Iterator<Item = Condition<'_>> + Clone {
        // Every condition has a variant, because only the listed kinds can be added.
        self.facts().filter_map(Condition::of)
    }

    /// Returns whether a condition needs connection tracking or a mark.
    #[must_use]
    pub fn ask_tracking(&self) -> bool {
        self.iter()
            .any(|one| matches!(one.known(), Known::Connection | Known::Mark))
    }
}

/// Returns whether a table has any condition.
pub(crate) fn has_any(table: &mut Reader<'_, '_>, when: &Conditions) -> bool {
    // `pure-ack = false` is not a condition.
    let written = |row: &ConditionRow| row.name() != "pure-ack" && table.has(row.name());
    let written = PLAIN.iter().chain(MORE).any(written);
    written || when.facts().next().is_some()
}

/// Reads the conditions of a rule or service.
pub(crate) fn read(table: &mut Reader<'_, '_>, groups: &Groups) -> Conditions {
    let mut when = Conditions::default();
    field::read(table, PLAIN, groups, &mut when);
    field::read(table, MORE, groups, &mut when);
    let mut add = |(code, span, wrong, right): Finding| {
        table.problems().error(code, span, wrong, right);
    };
    for one in when.facts() {
        one.contradictions(&when, &mut add);
    }
    when.two_origins(&mut add);
    when
}

/// Reads `not`: conditions that each test one field.
pub(crate) fn read_never(mut table: Reader<'_, '_>, groups: &Groups) -> Conditions {
    let mut when = Conditions::default();
    field::read(&mut table, PLAIN, groups, &mut when);
    if table.is_empty() {
        table.problems().error(
            codes::CONTRADICTION,
            table.span(),
            "`not` excludes nothing",
            "name at least one condition, or leave `not` out",
        );
    }
    when
}
