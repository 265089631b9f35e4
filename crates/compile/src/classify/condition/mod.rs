// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Conditions as matches: every way in which a packet can fulfil them, apart
//! from each other but for services.
//!
//! A list of several values is looked up in a set; lists that are a group's
//! bear its name, equal lists share one set.

pub(crate) mod control_group;

use crate::classify::condition::control_group::Groups;
use crate::classify::naming;
use std::collections::BTreeMap;
use std::net::IpAddr;
use weirgate_document::Value;
use weirgate_policy::{
    ConnectionState, Direction, From, Lengths, Policy, Ports, Prefix, Protocol, Schedule, TcpFlags,
    When,
};
use weirgate_signatures::Signature;
use weirgate_state::{
    Content, Field, Frame, IpVersion, Key, Match, Origin, Refreshed, Rule, Set, Verdict,
    port_protocols,
};

type Ranges = Vec<(u128, u128)>;

/// The sets of a table, as they are needed.
pub(crate) struct Lists<'a> {
    sets: &'a mut Vec<Set>,
    /// Where each is, by name.
    places: BTreeMap<String, usize>,
    /// Contents of groups by name.
    named: Vec<(String, Key, Ranges)>,
    /// Names of groups that are looked up.
    refreshed: Vec<(String, Refreshed)>,
    /// The bits of a packet's mark that say what its payload betrays, and the
    /// lowest of them.
    payload: (u32, u8),
    /// The control groups, as packets' marks number them.
    groups: Groups,
}

impl<'a> Lists<'a> {
    pub(crate) fn new(policy: &Policy, sets: &'a mut Vec<Set>) -> Self {
        let mut named = Vec::new();
        for group in &policy.groups {
            let name = format!("group_{}", group.name.value.replace('-', "_"));
            for version in IpVersion::BOTH {
                let list = addresses(&group.addresses, version);
                let key = Key::Address(version);
                named.push((format!("{name}_{}", version.number()), key, list));
            }
            let ports = port_ranges(&group.ports);
            named.push((format!("{name}_ports"), Key::Short, ports));
            let macs = group.macs.iter().map(|mac| single(mac.value.0.into()));
            named.push((format!("{name}_macs"), Key::Mac, macs.collect()));
        }
        for (_, _, list) in &mut named {
            *list = sorted(list);
        }
        named.retain(|(_, _, list)| !list.is_empty());
        let refreshed = policy
            .groups
            .iter()
            .filter(|group| !group.names.is_empty())
            .map(|group| {
                let hosts = group.names.iter().map(|name| name.value.clone());
                let every = group.refresh.as_nanos() / 1_000_000_000;
                let refreshed = Refreshed {
                    names: hosts.collect(),
                    every: u32::try_from(every).unwrap_or(u32::MAX),
                    found: Vec::new(),
                };
                (group.name.value.clone(), refreshed)
            })
            .collect();
        let places = sets.iter().enumerate();
        let places = places.map(|(at, set)| (set.name.clone(), at)).collect();
        Self {
            sets,
            places,
            named,
            refreshed,
            payload: (policy.payload_mask(), policy.payload_lowest),
            groups: Groups::of(policy),
        }
    }

    /// The field has an address of a group's names.
    fn of_names(&mut self, field: Field, version: IpVersion, group: &str) -> Match {
        let mut known = self.refreshed.iter();
        let found = known.find(|(name, _)| name == group);
        let name = format!("group_{}_{}", group.replace('-', "_"), version.number());
        self.add(Set {
            name: name.clone(),
            key: Key::Address(version),
            content: Content::Refreshed(found.map(|found| found.1.clone()).unwrap_or_default()),
            origin: Origin::default(),
        });
        Match::within(field, &name)
    }

    /// Adds a set unless one of its name is there.
    pub(crate) fn add(&mut self, set: Set) {
        if !self.places.contains_key(&set.name) {
            self.places.insert(set.name.clone(), self.sets.len());
            self.sets.push(set);
        }
    }

    /// The field has a value of the list.
    fn any(&mut self, field: Field, list: &Ranges) -> Match {
        let list = sorted(list);
        if let [(from, to)] = list.as_slice() {
            return Match::range(field, *from, *to);
        }
        let Some(key) = field.key() else {
            return Match::range(field, 0, 0);
        };
        // Values of other numbering cannot share a set with plain ones.
        let plain = matches!(key, Key::Address(_) | Key::Mac)
            || matches!(field, Field::SourcePort | Field::DestinationPort);
        let group = self
            .named
            .iter()
            .find(|known| known.1 == key && known.2 == list);
        let name = match group.filter(|_| plain) {
            Some((name, _, _)) => name.clone(),
            None => self.anonymous(field, key, &list),
        };
        let raw = list
            .iter()
            .map(|(from, to)| (field.raw(*from), field.raw(*to)))
            .collect();
        self.add(Set {
            name: name.clone(),
            key,
            content: Content::Fixed(raw),
            origin: Origin::default(),
        });
        Match::within(field, &name)
    }

    /// Lists of the same values share a set, whose name is made of them, so
    /// that it stays where other lists come and go.
    fn anonymous(&self, field: Field, key: Key, list: &Ranges) -> String {
        let raw: Ranges = list
            .iter()
            .map(|(from, to)| (field.raw(*from), field.raw(*to)))
            .collect();
        let name = format!("list_{}", naming::digest(&format!("{key:?}{raw:?}")));
        let content = Content::Fixed(raw);
        let taken = |name: &str| {
            let known = self.places.get(name).and_then(|at| self.sets.get(*at));
            known.is_some_and(|set| set.key != key || set.content != content)
        };
        let mut free = name.clone();
        let mut number = 2;
        while taken(&free) {
            free = format!("{name}_{number}");
            number += 1;
        }
        free
    }
}

const fn single(value: u128) -> (u128, u128) {
    (value, value)
}

/// Sorted, with ranges that meet or touch made one.
fn sorted(list: &Ranges) -> Ranges {
    let set = Set {
        name: String::new(),
        key: Key::Long,
        content: Content::Fixed(list.clone()),
        origin: Origin::default(),
    };
    match set.canonical().content {
        Content::Fixed(list) => list,
        Content::Classes(_) | Content::Meter { .. } | Content::Refreshed(_) => Vec::new(),
    }
}

fn addresses(list: &[Value<Prefix>], version: IpVersion) -> Ranges {
    list.iter()
        .filter(|prefix| prefix.value.is_v4() == (version == IpVersion::V4))
        .map(|prefix| {
            let Prefix { address, length } = prefix.value;
            let (value, bits) = match address {
                IpAddr::V4(v4) => (u128::from(u32::from(v4)), 32_u32),
                IpAddr::V6(v6) => (u128::from(v6), 128),
            };
            let host = 128 - (bits - u32::from(length));
            let rest = u128::MAX.checked_shr(host).unwrap_or(0);
            (value & !rest, value | rest)
        })
        .collect()
}

fn port_ranges(list: &[Value<Ports>]) -> Ranges {
    let range = |ports: Ports| (ports.from.into(), ports.to.into());
    list.iter().map(|ports| range(ports.value)).collect()
}

/// Lengths that packets of a version can have: an IPv6 header has 40 bytes.
fn length_ranges(list: &[Value<Lengths>], version: IpVersion) -> Ranges {
    let least = if version == IpVersion::V6 { 40 } else { 20 };
    list.iter()
        .filter(|length| length.value.to >= least)
        .map(|length| (length.value.from.max(least).into(), length.value.to.into()))
        .collect()
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

/// Whether the conditions ask for what packets have only after connection
/// tracking and routing.
pub(crate) fn needs_tracking(when: &When) -> bool {
    when.connection.span().is_some()
        || when.mark.is_some()
        || !when.macs.is_empty()
        || !when.interfaces.is_empty()
        || when.from.is_some()
        || of_sockets(when)
}

/// Whether the conditions ask for the socket that sent a packet.
fn of_sockets(when: &When) -> bool {
    !when.users.is_empty() || !when.groups.is_empty() || !when.control_groups.is_empty()
}

/// When a schedule is on, in the kernel's terms; once, without matches, where
/// there is none.
pub(crate) fn times(schedule: Option<&Schedule>, lists: &mut Lists<'_>) -> Vec<Vec<Match>> {
    let Some(schedule) = schedule else {
        return vec![Vec::new()];
    };
    let mut found = Vec::new();
    for season in &schedule.seasons {
        let moments: Ranges = season
            .moments
            .iter()
            .map(|(from, to)| (nanoseconds(*from), nanoseconds(*to)))
            .collect();
        for span in &season.spans {
            let mut matches = Vec::new();
            if !moments.is_empty() {
                matches.push(lists.any(Field::Moment, &moments));
            }
            if span.days.len() < 7 {
                let days = span.days.iter().map(|day| single((*day).into())).collect();
                matches.push(lists.any(Field::Day, &days));
            }
            if span.from > 0 || span.to < 86_399 {
                matches.push(Match::range(Field::Hour, span.from.into(), span.to.into()));
            }
            found.push(matches);
        }
    }
    found
}

fn nanoseconds(seconds: u64) -> u128 {
    u128::from(seconds) * 1_000_000_000
}

/// Every way to fulfil all of `parts` and nothing of `never`. `by_version`
/// makes one for each IP version in any case.
pub(crate) fn matches(
    parts: &[&When],
    never: Option<&When>,
    direction: Direction,
    by_version: bool,
    lists: &mut Lists<'_>,
) -> Vec<Vec<Match>> {
    let mut parts: Vec<(&When, bool)> = parts.iter().map(|when| (*when, false)).collect();
    parts.extend(never.map(|when| (when, true)));
    let upstream_only = |when: &When| {
        !when.macs.is_empty()
            || !when.interfaces.is_empty()
            || when.from.is_some()
            || of_sockets(when)
    };
    if direction == Direction::Down && parts.iter().any(|(when, _)| upstream_only(when)) {
        return Vec::new();
    }
    let split = by_version || parts.iter().any(|(when, _)| depends_on_version(when));
    let versions: Vec<Option<IpVersion>> = if split {
        IpVersion::BOTH.map(Some).to_vec()
    } else {
        vec![None]
    };
    let mut found = Vec::new();
    for version in versions {
        let mut ways: Vec<Vec<Match>> = vec![Vec::new()];
        if let Some(version) = version {
            ways[0].push(Match::version_is(version));
        }
        for (when, negated) in &parts {
            let one = if *negated {
                Some(vec![none_of(when, version, direction, lists)])
            } else {
                all_of(when, version, direction, lists)
            };
            ways = match one {
                Some(more) => multiplied(&ways, &more),
                None => Vec::new(),
            };
        }
        found.extend(ways);
    }
    found
}

fn multiplied(ways: &[Vec<Match>], more: &[Vec<Match>]) -> Vec<Vec<Match>> {
    let with = |way: &Vec<Match>| {
        let way = way.clone();
        more.iter()
            .map(move |one| [way.clone(), one.clone()].concat())
    };
    ways.iter().flat_map(with).collect()
}

fn depends_on_version(when: &When) -> bool {
    let icmp = |p: &Value<Protocol>| [Protocol::ICMP, Protocol::ICMPV6].contains(&p.value);
    !when.dscp.is_empty()
        || !when.lengths.is_empty()
        || when.pure_ack
        || !when.local_addresses.is_empty()
        || !when.remote_addresses.is_empty()
        || when.local_names.is_some()
        || when.remote_names.is_some()
        || !when.icmp_types.is_empty()
        || (when.protocols.len() == 1 && icmp(&when.protocols[0]))
}

/// The fields of the inside and of the outside host.
fn sides<T>(direction: Direction, source: T, destination: T) -> (T, T) {
    match direction {
        Direction::Up => (source, destination),
        Direction::Down => (destination, source),
    }
}

fn protocols(when: &When, version: Option<IpVersion>) -> Ranges {
    let other = match version {
        Some(IpVersion::V4) => Some(Protocol::ICMPV6),
        Some(IpVersion::V6) => Some(Protocol::ICMP),
        None => None,
    };
    let fit = when.protocols.iter().filter(|one| Some(one.value) != other);
    fit.map(|one| single(one.value.0.into())).collect()
}

/// The conditions on names of a version.
fn named(
    when: &When,
    version: Option<IpVersion>,
    direction: Direction,
    lists: &mut Lists<'_>,
) -> Vec<Match> {
    let Some(version) = version else {
        return Vec::new();
    };
    let (local, remote) = sides(
        direction,
        Field::Source(version),
        Field::Destination(version),
    );
    [(local, &when.local_names), (remote, &when.remote_names)]
        .into_iter()
        .filter_map(|(field, group)| {
            let group = group.as_ref()?;
            Some(lists.of_names(field, version, &group.value))
        })
        .collect()
}

/// The simple conditions of a version as field and values; `None` for a list
/// of which nothing is of the version.
fn simple(
    when: &When,
    version: Option<IpVersion>,
    direction: Direction,
) -> Vec<(Field, Option<Ranges>)> {
    let mut found: Vec<(Field, Option<Ranges>)> = Vec::new();
    let mut add = |field: Field, stated: bool, list: Ranges| {
        if stated {
            found.push((field, Some(list).filter(|list| !list.is_empty())));
        }
    };
    add(
        Field::Protocol,
        !when.protocols.is_empty(),
        protocols(when, version),
    );
    if let Some(version) = version {
        let (local, remote) = sides(
            direction,
            Field::Source(version),
            Field::Destination(version),
        );
        let list = &when.local_addresses;
        add(local, !list.is_empty(), addresses(list, version));
        let list = &when.remote_addresses;
        add(remote, !list.is_empty(), addresses(list, version));
        let dscp = when
            .dscp
            .iter()
            .map(|dscp| single(dscp.value.value().into()));
        add(Field::Dscp(version), !when.dscp.is_empty(), dscp.collect());
        let lengths = length_ranges(&when.lengths, version);
        add(Field::Length(version), !when.lengths.is_empty(), lengths);
        let types = when.icmp_types.iter().filter_map(|kind| match version {
            IpVersion::V4 => kind.value.v4,
            IpVersion::V6 => kind.value.v6,
        });
        let types = types.map(|kind| single(kind.into())).collect();
        add(Field::IcmpType(version), !when.icmp_types.is_empty(), types);
    }
    let (local, remote) = sides(direction, Field::SourcePort, Field::DestinationPort);
    let list = &when.local_ports;
    add(local, !list.is_empty(), port_ranges(list));
    let list = &when.remote_ports;
    add(remote, !list.is_empty(), port_ranges(list));
    let macs = when.macs.iter().map(|mac| single(mac.value.0.into()));
    add(Field::SourceMac, !when.macs.is_empty(), macs.collect());
    for (field, list) in [(Field::User, &when.users), (Field::Group, &when.groups)] {
        let ids = list.iter();
        let ids = ids.map(|ids| (ids.value.from.into(), ids.value.to.into()));
        add(field, !list.is_empty(), ids.collect());
    }
    if let Some(flags) = &when.tcp_flags {
        let TcpFlags { mask, value } = flags.value;
        add(Field::TcpFlags { mask }, true, vec![single(value.into())]);
    }
    if let Some(mark) = &when.mark {
        let mask = mark.value.mask;
        let value = mark.value.value;
        add(Field::Mark { mask }, true, vec![single(value.into())]);
    }
    found
}

fn all_of(
    when: &When,
    version: Option<IpVersion>,
    direction: Direction,
    lists: &mut Lists<'_>,
) -> Option<Vec<Vec<Match>>> {
    let mut matches = Vec::new();
    for (field, list) in simple(when, version, direction) {
        matches.push(lists.any(field, &list?));
    }
    matches.extend(named(when, version, direction, lists));
    if let (true, Some(version)) = (when.pure_ack, version) {
        matches.extend(pure_ack(version));
    }
    if let Some(from) = &when.from {
        let own = Match::text(Field::InputDevice, "");
        matches.push(match from.value {
            From::Router => own,
            From::Forwarded => own.negated(),
        });
    }
    connection(when, &mut matches);
    let mut ways = vec![matches];
    if !when.interfaces.is_empty() {
        let each = |device: &Value<weirgate_state::DeviceName>| {
            vec![Match::text(Field::InputDevice, device.value.as_str())]
        };
        let each: Vec<Vec<Match>> = when.interfaces.iter().map(each).collect();
        ways = multiplied(&ways, &each);
    }
    ways = multiplied(&ways, &lists.groups.ways(when));
    if !when.payload.is_empty() {
        ways = multiplied(&ways, &payload(when, lists.payload));
    }
    if !when.ports.is_empty() {
        let list = port_ranges(&when.ports);
        let source = lists.any(Field::SourcePort, &list);
        let destination = lists.any(Field::DestinationPort, &list);
        // Apart from each other, so that no packet counts twice.
        let either = [vec![source.clone()], vec![source.negated(), destination]];
        ways = multiplied(&ways, &either);
    }
    Some(ways)
}

/// What a flow's payload betrays, one way for each: marks stand in the host's
/// order, in which no set holds them. All of them together is anything.
fn payload(when: &When, (mask, lowest): (u32, u8)) -> Vec<Vec<Match>> {
    let field = Field::Mark { mask };
    let asked = |one: &Signature| when.payload.iter().any(|value| value.value == *one);
    if Signature::ALL.iter().all(asked) {
        return vec![vec![Match::one(field, 0).negated()]];
    }
    let asked = Signature::ALL.into_iter().filter(asked);
    asked
        .map(|one| vec![Match::one(field, u128::from(one.number() << lowest))])
        .collect()
}

fn connection(when: &When, matches: &mut Vec<Match>) {
    let connection = &when.connection;
    if !connection.states.is_empty() {
        let bit = |state: &Value<ConnectionState>| match state.value {
            ConnectionState::Invalid => 1,
            ConnectionState::Established => 2,
            ConnectionState::Related => 4,
            ConnectionState::New => 8,
        };
        let mask = connection
            .states
            .iter()
            .map(bit)
            .fold(0, |all, bit| all | bit);
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
        let Lengths { from, to } = size.value;
        matches.push(Match::range(
            Field::ConnectionMeanSize,
            from.into(),
            to.into(),
        ));
    }
}

/// None of the conditions holds. A list without anything of the version holds
/// for no packet, so nothing is to be tested.
fn none_of(
    when: &When,
    version: Option<IpVersion>,
    direction: Direction,
    lists: &mut Lists<'_>,
) -> Vec<Match> {
    let mut matches = Vec::new();
    for (field, list) in simple(when, version, direction) {
        if let Some(list) = list {
            matches.push(lists.any(field, &list).negated());
        }
    }
    let named = named(when, version, direction, lists);
    matches.extend(named.into_iter().map(Match::negated));
    if !when.ports.is_empty() {
        let list = port_ranges(&when.ports);
        for field in [Field::SourcePort, Field::DestinationPort] {
            matches.push(lists.any(field, &list).negated());
        }
    }
    for device in &when.interfaces {
        let text = device.value.as_str();
        matches.push(Match::text(Field::InputDevice, text).negated());
    }
    if let Some(from) = &when.from {
        let own = Match::text(Field::InputDevice, "");
        matches.push(match from.value {
            From::Router => own.negated(),
            From::Forwarded => own,
        });
    }
    matches
}

/// Adds the set of protocols with ports to a table that uses it.
pub(crate) fn complete(sets: &mut Vec<Set>, chains: &[weirgate_state::Chain]) {
    let wanted = Match::within(Field::Protocol, weirgate_state::PORT_PROTOCOLS);
    let rules = || chains.iter().flat_map(|chain| &chain.rules);
    if rules().any(|rule| rule.matches.contains(&wanted)) {
        sets.push(port_protocols());
    }
}

/// The matches with what they presuppose.
pub(crate) fn guard(matches: Vec<Match>) -> Vec<Match> {
    let rule = Rule {
        frame: Frame::Plain,
        matches,
        counter: None,
        effects: Vec::new(),
        verdict: Verdict::Continue,
        origin: Origin::default(),
    };
    rule.guarded().matches
}
