// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Translates each condition of a policy to fields and values of nftables.
//!
//! A condition that the kernel cannot evaluate where the rules are has a helper chain if
//! possible, and a file of its own here.

mod control_group;

use crate::classify::condition::lists::{Lists, Ranges, addresses, port_ranges, single};
use control_group::Groups;
use weirgate_document::{Problems, Value};
use weirgate_policy::{
    CodePoints, Condition, Connection, ConnectionState, Direction, Ids, Lengths, Mark,
    PacketLengths, Policy, Protocol, Protocols, Sender, TcpFlags,
};
use weirgate_signatures::Signature;
use weirgate_state::{Capabilities, Chain, Field, IpVersion, Match, Set};

/// Returns the helper chains that the conditions of a policy need, and adds their sets.
pub(crate) fn helpers(policy: &Policy, sets: &mut Vec<Set>) -> Vec<Chain> {
    control_group::chain(policy, sets).into_iter().collect()
}

/// Reports what the conditions of a policy need but the kernel lacks.
pub(crate) fn check(policy: &Policy, kernel: &Capabilities, release: &str, problems: &Problems) {
    control_group::check(policy, kernel, release, problems);
}

/// The translation of a condition.
pub(super) enum Lowered<'p> {
    /// It depends on the IP version, and none was given.
    ByVersion,
    /// The field has one of these values.
    Values(Field, Ranges),
    /// The field has an address of this group of DNS names.
    Names(Field, IpVersion, &'p str),
    /// One of the two fields has one of these values.
    Either(Field, Field, Ranges),
    /// All matches apply.
    All(Vec<Match>),
    /// All matches of one alternative apply; the alternatives exclude each other.
    Alternatives(Vec<Vec<Match>>),
}

impl Lowered<'_> {
    /// Returns the ways to fulfil the condition, which exclude each other; `None` if no packet
    /// of the IP version can.
    pub(super) fn alternatives(self, lists: &mut Lists<'_>) -> Option<Vec<Vec<Match>>> {
        Some(match self {
            Self::Values(_, values) if values.is_empty() => return None,
            Self::Values(field, values) => vec![vec![lists.any(field, &values)]],
            Self::Names(field, version, group) => {
                vec![vec![lists.of_names(field, version, group)]]
            }
            Self::Either(first, second, values) => {
                let first = lists.any(first, &values);
                let second = lists.any(second, &values);
                // The second alternative excludes the first, so that no packet counts twice.
                vec![vec![first.clone()], vec![first.negated(), second]]
            }
            Self::All(matches) => vec![matches],
            Self::Alternatives(alternatives) => alternatives,
            Self::ByVersion => vec![Vec::new()],
        })
    }

    /// Returns matches for the negation. A condition that no packet of the IP version can fulfil
    /// needs none. Conditions that `not` accepts are single matches or alternatives of them.
    pub(super) fn negated(self, lists: &mut Lists<'_>) -> Vec<Match> {
        let matches = match self {
            Self::Either(first, second, values) => {
                vec![lists.any(first, &values), lists.any(second, &values)]
            }
            other => other.alternatives(lists).unwrap_or_default().concat(),
        };
        matches.into_iter().map(Match::negated).collect()
    }
}

/// The properties of the policy and the chain that conditions depend on.
pub(crate) struct Lowering {
    direction: Direction,
    /// The bits of a packet's mark with the signature that was found in its payload.
    payload_mask: u32,
    /// The lowest of these bits.
    payload_lowest: u8,
    /// The control groups as numbered in packets' marks.
    groups: Groups,
}

impl Lowering {
    pub(crate) fn new(policy: &Policy, direction: Direction) -> Self {
        Self {
            direction,
            payload_mask: policy.marks.payload(),
            payload_lowest: policy.marks.payload_lowest,
            groups: Groups::of(policy),
        }
    }

    pub(super) fn direction(&self) -> Direction {
        self.direction
    }

    /// Returns the fields of the inside host and of the outside host.
    fn sides<T>(&self, source: T, destination: T) -> (T, T) {
        match self.direction {
            Direction::Up => (source, destination),
            Direction::Down => (destination, source),
        }
    }

    /// Translates a condition for packets of one IP version, or of both.
    pub(super) fn lower<'p>(
        &self,
        condition: Condition<'p>,
        version: Option<IpVersion>,
    ) -> Lowered<'p> {
        use Lowered::{All, Alternatives, Either, Names, Values};
        let of_version = |lowered: &dyn Fn(IpVersion) -> Lowered<'p>| {
            version.map_or(Lowered::ByVersion, lowered)
        };
        let address = |version| {
            let (source, destination) = (Field::Source(version), Field::Destination(version));
            self.sides(source, destination)
        };
        let (local_port, remote_port) = self.sides(Field::SourcePort, Field::DestinationPort);
        match condition {
            Condition::Protocol(protocols) => protocol(protocols, version),
            Condition::LocalAddress(list) => {
                of_version(&|version| Values(address(version).0, addresses(&list.0, version)))
            }
            Condition::RemoteAddress(list) => {
                of_version(&|version| Values(address(version).1, addresses(&list.0, version)))
            }
            Condition::LocalName(name) => {
                of_version(&|version| Names(address(version).0, version, &name.0.value))
            }
            Condition::RemoteName(name) => {
                of_version(&|version| Names(address(version).1, version, &name.0.value))
            }
            Condition::CodePoint(CodePoints(list)) => of_version(&|version| {
                let values = list.iter().map(|one| single(one.value.value().into()));
                Values(Field::Dscp(version), values.collect())
            }),
            Condition::Length(lengths) => of_version(&|version| length(lengths, version)),
            Condition::IcmpType(list) => of_version(&|version| {
                let types = list.0.iter().filter_map(|kind| match version {
                    IpVersion::V4 => kind.value.v4,
                    IpVersion::V6 => kind.value.v6,
                });
                let values = types.map(|kind| single(kind.into())).collect();
                Values(Field::IcmpType(version), values)
            }),
            Condition::LocalPort(list) => Values(local_port, port_ranges(&list.0)),
            Condition::RemotePort(list) => Values(remote_port, port_ranges(&list.0)),
            Condition::Port(list) => {
                let values = port_ranges(&list.0);
                Either(Field::SourcePort, Field::DestinationPort, values)
            }
            Condition::Mac(list) => {
                let values = list.0.iter().map(|mac| single(mac.value.0.into()));
                Values(Field::SourceMac, values.collect())
            }
            Condition::User(list) => Values(Field::User, ids(&list.0)),
            Condition::UserGroup(list) => Values(Field::Group, ids(&list.0)),
            Condition::TcpFlags(flags) => {
                let TcpFlags { mask, value } = flags.0.value;
                Values(Field::TcpFlags { mask }, vec![single(value.into())])
            }
            Condition::Mark(asked) => {
                let Mark { mask, value } = asked.0.value;
                Values(Field::Mark { mask }, vec![single(value.into())])
            }
            Condition::Fragment(_) => of_version(&|version| {
                let whole = Match::one(Field::FragmentOffset(version), 0);
                All(vec![whole.negated()])
            }),
            Condition::PureAck(_) => of_version(&|version| All(pure_ack(version))),
            Condition::Sender(sender) => {
                let own = Match::text(Field::InputDevice, "");
                All(vec![match sender.0.value {
                    Sender::Router => own,
                    Sender::Forwarded => own.negated(),
                }])
            }
            Condition::Connection(asked) => All(connection(asked)),
            Condition::Interface(list) => {
                let device = |name: &str| vec![Match::text(Field::InputDevice, name)];
                let names = list.0.iter().map(|device| device.value.as_str());
                Alternatives(names.map(device).collect())
            }
            Condition::ControlGroup(asked) => Alternatives(self.groups.alternatives(asked)),
            Condition::Payload(list) => Alternatives(self.payload(&list.0)),
        }
    }

    /// Returns the ways to match signatures, one for each: marks are in host byte order, so a
    /// set cannot contain them. All signatures together match any signature.
    fn payload(&self, list: &[Value<Signature>]) -> Vec<Vec<Match>> {
        let field = Field::Mark {
            mask: self.payload_mask,
        };
        let asked = |one: &Signature| list.iter().any(|value| value.value == *one);
        if Signature::ALL.iter().all(asked) {
            return vec![vec![Match::one(field, 0).negated()]];
        }
        let number = |one: Signature| u128::from(one.number() << self.payload_lowest);
        let asked = Signature::ALL.into_iter().filter(asked);
        asked
            .map(|one| vec![Match::one(field, number(one))])
            .collect()
    }
}

/// Translates protocols; ICMP exists in only one IP version.
fn protocol(protocols: &Protocols, version: Option<IpVersion>) -> Lowered<'static> {
    let other = match version {
        Some(IpVersion::V4) => Some(Protocol::ICMPV6),
        Some(IpVersion::V6) => Some(Protocol::ICMP),
        None => None,
    };
    if let ([one], None) = (protocols.0.as_slice(), version)
        && [Protocol::ICMP, Protocol::ICMPV6].contains(&one.value)
    {
        return Lowered::ByVersion;
    }
    let fit = protocols.0.iter().filter(|one| Some(one.value) != other);
    let values = fit.map(|one| single(one.value.0.into())).collect();
    Lowered::Values(Field::Protocol, values)
}

/// Translates the lengths that packets of an IP version can have: an IPv6 header has 40 bytes.
fn length(lengths: &PacketLengths, version: IpVersion) -> Lowered<'static> {
    let least = if version == IpVersion::V6 { 40 } else { 20 };
    let possible = lengths.0.iter().filter(|length| length.value.to >= least);
    let range = |length: Lengths| (length.from.max(least).into(), length.to.into());
    let values = possible.map(|length| range(length.value)).collect();
    Lowered::Values(Field::Length(version), values)
}

fn ids(list: &[Value<Ids>]) -> Ranges {
    let range = |ids: Ids| (ids.from.into(), ids.to.into());
    list.iter().map(|ids| range(ids.value)).collect()
}

/// Returns matches for an acknowledgement without data.
pub(crate) fn pure_ack(version: IpVersion) -> Vec<Match> {
    let TcpFlags { mask, value } = TcpFlags::PURE_ACK;
    vec![
        Match::tcp_flags(mask, value),
        Match::TcpPayloadEmpty {
            version,
            negated: false,
        },
    ]
}

fn connection(connection: &Connection) -> Vec<Match> {
    let mut matches = Vec::new();
    if !connection.states.is_empty() {
        let bit = |state: &Value<ConnectionState>| match state.value {
            ConnectionState::Invalid => 1,
            ConnectionState::Established => 2,
            ConnectionState::Related => 4,
            ConnectionState::New => 8,
        };
        let bits = connection.states.iter().map(bit);
        let mask = bits.fold(0, |all, bit| all | bit);
        matches.push(Match::one(Field::ConnectionState { mask }, 0).negated());
    }
    if let Some(helper) = &connection.helper {
        matches.push(Match::text(Field::Helper, &helper.value));
    }
    let beyond = |field: Field, amount: u64| {
        let from = u128::from(amount.min(u64::MAX - 1)) + 1;
        Match::range(field, from, field.greatest())
    };
    if let Some(bytes) = &connection.bytes_over {
        matches.push(beyond(Field::ConnectionBytes, bytes.value.as_bytes()));
    }
    if let Some(packets) = &connection.packets_over {
        matches.push(beyond(Field::ConnectionPackets, packets.value));
    }
    if let Some(size) = &connection.mean_size {
        let (from, to) = (size.value.from.into(), size.value.to.into());
        matches.push(Match::range(Field::ConnectionMeanSize, from, to));
    }
    matches
}
