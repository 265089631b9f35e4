// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Each condition of a policy as fields and values of nftables: one arm for each.
//!
//! A condition that the kernel cannot tell where the rules stand has a helper
//! chain where it can, and a file of its own here.

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

/// The helper chains that the conditions of a policy need, with their sets.
pub(crate) fn helpers(policy: &Policy, sets: &mut Vec<Set>) -> Vec<Chain> {
    control_group::chain(policy, sets).into_iter().collect()
}

/// What conditions of a policy need that the kernel lacks.
pub(crate) fn check(policy: &Policy, kernel: &Capabilities, release: &str, problems: &Problems) {
    control_group::check(policy, kernel, release, problems);
}

/// What a condition comes to.
pub(super) enum Lowered<'p> {
    /// It differs between the IP versions, and none was given.
    ByVersion,
    /// The field has one of these values.
    Values(Field, Ranges),
    /// The field has an address of this group of DNS names.
    Names(Field, IpVersion, &'p str),
    /// Either field has one of these values.
    Either(Field, Field, Ranges),
    /// All of these hold.
    All(Vec<Match>),
    /// All of one alternative hold; no packet fulfils two.
    Ways(Vec<Vec<Match>>),
}

impl Lowered<'_> {
    /// Every way to fulfil it, apart from each other; `None` where nothing of
    /// the IP version does.
    pub(super) fn ways(self, lists: &mut Lists<'_>) -> Option<Vec<Vec<Match>>> {
        Some(match self {
            Self::Values(_, values) if values.is_empty() => return None,
            Self::Values(field, values) => vec![vec![lists.any(field, &values)]],
            Self::Names(field, version, group) => {
                vec![vec![lists.of_names(field, version, group)]]
            }
            Self::Either(first, second, values) => {
                let first = lists.any(first, &values);
                let second = lists.any(second, &values);
                // Apart from each other, so that no packet counts twice.
                vec![vec![first.clone()], vec![first.negated(), second]]
            }
            Self::All(matches) => vec![matches],
            Self::Ways(ways) => ways,
            Self::ByVersion => vec![Vec::new()],
        })
    }

    /// It does not hold. What nothing of the IP version fulfils is not tested.
    /// Conditions that `not` takes are single matches, or alternatives of them.
    pub(super) fn negated(self, lists: &mut Lists<'_>) -> Vec<Match> {
        let matches = match self {
            Self::Either(first, second, values) => {
                vec![lists.any(first, &values), lists.any(second, &values)]
            }
            other => other.ways(lists).unwrap_or_default().concat(),
        };
        matches.into_iter().map(Match::negated).collect()
    }
}

/// What conditions need to know of the whole policy and of the chain.
pub(super) struct Lowering {
    direction: Direction,
    /// The bits of a packet's mark that say what its payload betrays.
    payload_mask: u32,
    /// The lowest of them.
    payload_lowest: u8,
    /// The control groups, as packets' marks number them.
    groups: Groups,
}

impl Lowering {
    pub(super) fn new(policy: &Policy, direction: Direction) -> Self {
        Self {
            direction,
            payload_mask: policy.marks.payload(),
            payload_lowest: policy.marks.payload_lowest,
            groups: Groups::of(policy),
        }
    }

    /// The field of the inside host and that of the outside host.
    fn sides<T>(&self, source: T, destination: T) -> (T, T) {
        match self.direction {
            Direction::Up => (source, destination),
            Direction::Down => (destination, source),
        }
    }

    /// A condition for packets of a version, or for those of both.
    pub(super) fn lower<'p>(
        &self,
        condition: Condition<'p>,
        version: Option<IpVersion>,
    ) -> Lowered<'p> {
        use Lowered::{All, Either, Names, Values, Ways};
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
                Ways(names.map(device).collect())
            }
            Condition::ControlGroup(asked) => Ways(self.groups.ways(asked)),
            Condition::Payload(list) => Ways(self.payload(&list.0)),
        }
    }

    /// What a flow's payload betrays, one way for each: marks stand in the host's
    /// order, in which no set holds them. All of them together is anything.
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

/// ICMP alone is of one version.
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

/// Lengths that packets of a version can have: an IPv6 header has 40 bytes.
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

/// A pure acknowledgement.
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
