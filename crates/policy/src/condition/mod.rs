// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Conditions on packets, one file each: how a condition is written and read, what excludes it, and
//! which other conditions imply it.
//!
//! [`Conditions`] holds the conditions of one rule or service as values. Crate
//! `compile` turns each into matches (`classify/condition/lower/mod.rs`). To add
//! one, follow `docs/adding/condition.md`; what is missing does not compile.

pub(crate) mod address;
pub(crate) mod code_point;
pub(crate) mod connection;
pub(crate) mod control_group;
pub(crate) mod drt;
pub(crate) mod facts;
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
pub(crate) mod reach;
pub(crate) mod sender;
pub(crate) mod tcp;
pub(crate) mod user;

pub use address::{LocalAddresses, LocalNames, RemoteAddresses, RemoteNames};
pub use code_point::CodePoints;
pub use connection::{Connection, ConnectionState};
pub use control_group::{ControlGroup, ControlGroups};
pub use facts::{Conditions, Kind, Known};
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

/// Conditions that may also stand in `not`, because each is about one field of
/// a packet.
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

/// The others.
pub(crate) const MORE: &[ConditionRow] = &[
    tcp::PURE_ACK,
    payload::ROW,
    user::UID,
    user::GID,
    control_group::ROW,
    connection::ROW,
];

/// The rows of every condition, for tables that have them all.
pub(crate) const ALL: [&dyn Rows; 2] = [&PLAIN, &MORE];

/// `[rule.not]`.
pub(crate) const NOT: Table = Table {
    name: "not",
    about: "Conditions of which none may hold",
    rows: &[&PLAIN],
};

/// `[[service.NAME.match]]`.
pub(crate) const MATCH: Table = Table {
    name: "match",
    about: "One set of conditions that identifies a service",
    rows: &ALL,
};

macro_rules! conditions {
    ($($(#[$about:meta])* $name:ident($type:ty) $known:expr),+ $(,)?) => {
        /// One condition of a rule or a service. They stand in [`Conditions`],
        /// and matches in the kernel's rules, in the order of the variants.
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

            /// From where on the kernel can tell it.
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
    /// Cards that upstream packets came from.
    Mac(Macs) Known::Input("a MAC address"),
    /// Users whose sockets on this machine send.
    User(Users) Known::Sender("who sent it"),
    /// Groups of such sockets.
    UserGroup(UserGroups) Known::Sender("who sent it"),
    /// TCP flags.
    TcpFlags(Flags) Known::Packet,
    /// The packet's mark.
    Mark(PacketMark) Known::Mark,
    /// The inside host is one of a group of DNS names.
    LocalName(LocalNames) Known::Packet,
    /// The outside host is.
    RemoteName(RemoteNames) Known::Packet,
    /// An acknowledgement without data.
    PureAck(PureAck) Known::Packet,
    /// The router's own packets, or forwarded ones.
    Sender(SentBy) Known::Input("whose it is"),
    /// What connection tracking knows.
    Connection(Connection) Known::Connection,
    /// Devices through which upstream packets came in.
    Interface(Interfaces) Known::Input("the device it came in through"),
    /// Control groups in which such sockets were made.
    ControlGroup(ControlGroups) Known::Sender("which control group sent it"),
    /// What the flow's first payloads betray.
    Payload(Payloads) Known::Packet,
    /// Ports of either host.
    Port(EitherPorts) Known::Packet,
}

impl<'a> Condition<'a> {
    /// Its first place in the policy's text.
    #[must_use]
    pub fn span(self) -> Option<&'a SourceSpan> {
        self.facts().span()
    }

    /// The longest packet for which it holds, in bytes from the IP header on;
    /// `None` where it sets no limit.
    #[must_use]
    pub fn longest(self) -> Option<u16> {
        self.facts().longest()
    }
}

impl Conditions {
    /// The conditions, at most one of each kind, in the order of the kinds.
    pub fn iter(&self) -> impl Iterator<Item = Condition<'_>> + Clone {
        // Only kinds of the list can be added.
        self.facts().filter_map(Condition::of)
    }

    /// Whether one needs what only connection tracking or a mark says.
    #[must_use]
    pub fn ask_tracking(&self) -> bool {
        self.iter()
            .any(|one| matches!(one.known(), Known::Connection | Known::Mark))
    }
}

/// Whether a table has any condition.
pub(crate) fn has_any(table: &mut Reader<'_, '_>, when: &Conditions) -> bool {
    // `pure-ack = false` is none.
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

/// Reads `not`: conditions each of which is about one field.
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
