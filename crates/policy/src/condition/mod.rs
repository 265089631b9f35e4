// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Conditions on packets, a file for each: how it is written, how it is read,
//! what excludes it, and which other conditions imply it.
//!
//! [`When`] holds the conditions of one rule or service as values. Crate
//! `compile` turns each into matches (`classify/condition/lower.rs`). To add
//! one, follow `docs/adding/condition.md`; what is missing does not compile.

pub(crate) mod address;
pub(crate) mod code_point;
pub(crate) mod connection;
pub(crate) mod control_group;
pub(crate) mod drt;
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
pub(crate) mod when;

pub use when::When;

use crate::field::{Row, Rows, Table};
use crate::named::group::Groups;
use weirgate_document::{Span, Value};

/// A condition's row in the registry of fields. Its reader adds the condition to
/// a [`When`].
pub(crate) type ConditionRow = Row<When, Groups>;

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
    about: "Conditions none of which may hold",
    rows: &[&PLAIN],
};

/// `[[service.NAME.match]]`.
pub(crate) const MATCH: Table = Table {
    name: "match",
    about: "One way to be of a service",
    rows: &ALL,
};

macro_rules! conditions {
    ($($(#[$about:meta])* $name:ident($type:ty)),+ $(,)?) => {
        /// One condition of a rule or a service. Conditions stand in a [`When`],
        /// and matches in the kernel's rules, in the order of the variants.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum Condition {
            $($(#[$about])* $name($type)),+
        }

        #[derive(PartialEq, Eq, PartialOrd, Ord)]
        enum Order {
            $($name),+
        }

        impl Condition {
            const fn order(&self) -> Order {
                match self {
                    $(Self::$name(_) => Order::$name),+
                }
            }

            fn facts(&self) -> &dyn Facts {
                match self {
                    $(Self::$name(one) => one),+
                }
            }
        }

        $(
            impl From<$type> for Condition {
                fn from(one: $type) -> Self {
                    Self::$name(one)
                }
            }

            impl Kind for $type {
                fn of(one: &Condition) -> Option<&Self> {
                    match one {
                        Condition::$name(one) => Some(one),
                        _ => None,
                    }
                }
            }
        )+
    };
}

conditions! {
    /// Upper-layer protocols.
    Protocol(protocol::Protocols),
    /// Addresses of the inside host.
    LocalAddress(address::LocalAddresses),
    /// Addresses of the outside host.
    RemoteAddress(address::RemoteAddresses),
    /// Code points of the IP header.
    CodePoint(code_point::CodePoints),
    /// Lengths of the IP packet.
    Length(length::PacketLengths),
    /// Types of ICMP.
    IcmpType(icmp::IcmpTypes),
    /// Ports of the inside host.
    LocalPort(port::LocalPorts),
    /// Ports of the outside host.
    RemotePort(port::RemotePorts),
    /// Cards that upstream packets came from.
    Mac(mac::Macs),
    /// Users whose sockets on this machine send.
    User(user::Users),
    /// Groups of such sockets.
    UserGroup(user::UserGroups),
    /// TCP flags.
    TcpFlags(tcp::Flags),
    /// The packet's mark.
    Mark(mark::PacketMark),
    /// The inside host is one of a group of DNS names.
    LocalName(address::LocalNames),
    /// The outside host is.
    RemoteName(address::RemoteNames),
    /// An acknowledgement without data.
    PureAck(tcp::PureAck),
    /// The router's own packets, or forwarded ones.
    Sender(sender::SentBy),
    /// What connection tracking knows.
    Connection(connection::Connection),
    /// Devices that upstream packets came in through.
    Interface(interface::Interfaces),
    /// Control groups in which such sockets were made.
    ControlGroup(control_group::ControlGroups),
    /// What the flow's first payloads betray.
    Payload(payload::Payloads),
    /// Ports of either host.
    Port(port::EitherPorts),
}

/// A type of condition, by which [`When::find`] finds it.
pub trait Kind: Into<Condition> {
    /// The condition as this type, if it is of it.
    fn of(one: &Condition) -> Option<&Self>;
}

/// From where on the path of a packet the kernel can tell a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
    /// From the packet itself, everywhere.
    Packet,
    /// From connection tracking, once the packet has passed it.
    Connection,
    /// From the packet's mark, once somebody has set it.
    Mark,
    /// From where an upstream packet came in. The text is what a downstream one
    /// does not show.
    Input(&'static str),
    /// From the socket on this machine that sends a packet; the text alike.
    Sender(&'static str),
}

/// What an upper-layer protocol must be for a condition ever to hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Carrier {
    /// TCP.
    Tcp,
    /// One with ports.
    Ports,
}

/// Two conditions that exclude each other: the problem's code, its place, what
/// is wrong, and what would be right.
pub(crate) type Finding = (&'static str, Span, String, &'static str);

/// What a condition says about itself.
pub(crate) trait Facts {
    /// Where it stands first.
    fn span(&self) -> Option<&Span>;

    /// From where on it is known.
    fn known(&self) -> Known;

    /// Whether it holds for every packet that `later` takes. Where that cannot
    /// be told, it is false: the rule is then not reported as hidden.
    fn covers(&self, later: &When) -> bool;

    /// The protocol that it needs, where it needs one.
    fn carrier(&self) -> Option<Carrier> {
        None
    }

    /// How many values it lists; counted where they may be thousands.
    fn elements(&self) -> usize {
        0
    }

    /// The longest packet for which it holds, in bytes from the IP header on.
    fn longest(&self) -> Option<u16> {
        None
    }

    /// What of `when` excludes this condition, or a part of it.
    fn contradictions(&self, _when: &When, _add: &mut dyn FnMut(Finding)) {}
}

impl Condition {
    /// Where it stands first in the policy's text.
    #[must_use]
    pub fn span(&self) -> Option<&Span> {
        self.facts().span()
    }

    /// From where on the kernel can tell it.
    #[must_use]
    pub fn known(&self) -> Known {
        self.facts().known()
    }

    /// The longest packet for which it holds, in bytes from the IP header on;
    /// `None` where it sets no limit.
    #[must_use]
    pub fn longest(&self) -> Option<u16> {
        self.facts().longest()
    }
}

/// Where a list begins.
fn first<T>(list: &[Value<T>]) -> Option<&Span> {
    list.first().map(|one| &one.span)
}

/// Whether each value of the later list lies within one of the earlier.
fn within<T: Copy>(
    earlier: &[Value<T>],
    later: Option<&[Value<T>]>,
    contains: impl Fn(T, T) -> bool,
) -> bool {
    later.is_some_and(|later| {
        later.iter().all(|inner| {
            earlier
                .iter()
                .any(|outer| contains(outer.value, inner.value))
        })
    })
}
