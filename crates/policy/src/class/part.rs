// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parts of classes: `[[share]]` guarantees a share of classes to the hosts of a group.
//! `[[cap]]` limits each host of a group, in one class or in all together.

use crate::amount::Amount;
use crate::class::ack::ACK;
use crate::class::zero;
use crate::codes;
use crate::field::{self, Cell, FieldKind, Row, Table, row};
use crate::named::group::{self, Groups};
use crate::named::member::Prefix;
use std::net::IpAddr;
use weirgate_document::{Reader, SourceSpan, Value};
use weirgate_units::{Arrange as _, Direction, Rate, Share};

/// The largest number of hosts with limits in one direction.
pub const MOST_CAPPED: usize = 1_024;

/// A share of classes for the hosts of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupShare {
    /// The line number of its table, from 1.
    pub line: u32,
    /// The position of its table.
    pub span: SourceSpan,
    /// The group's name.
    pub group: Value<String>,
    /// The group's addresses.
    pub addresses: Vec<Prefix>,
    /// The group's share of each class's guarantee.
    pub share: Value<Share>,
    /// The group's ceiling in a class. A share is of the gate's rate.
    pub ceiling: Option<Value<Amount>>,
    /// The classes; empty for all but `ack`.
    pub classes: Vec<Value<String>>,
}

/// A limit for each host of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostCap {
    /// The line number of its table, from 1.
    pub line: u32,
    /// The position of its table.
    pub span: SourceSpan,
    /// The group's name.
    pub group: Value<String>,
    /// Its hosts: each IPv4 address is one host, and each IPv6 address or prefix of at least 64
    /// bits is one host.
    pub hosts: Vec<Prefix>,
    /// The class in which it applies; `None` means all classes together.
    pub class: Option<Value<String>>,
    /// The upstream limit of a host, in wire bits.
    pub up: Option<Value<Rate>>,
    /// The downstream limit of a host, in wire bits.
    pub down: Option<Value<Rate>>,
}

impl HostCap {
    /// Returns whether it applies to all classes together.
    #[must_use]
    pub fn is_over_all(&self) -> bool {
        self.class.is_none()
    }

    /// Returns whether it divides the class with this name between hosts.
    #[must_use]
    pub fn divides(&self, class: &str) -> bool {
        self.class.as_ref().is_none_or(|own| own.value == class)
    }

    /// Returns the limit in a direction, if it has one.
    #[must_use]
    pub fn rate(&self, direction: Direction) -> Option<Rate> {
        let stated = match direction {
            Direction::Up => &self.up,
            Direction::Down => &self.down,
        };
        stated.as_ref().map(|rate| rate.value)
    }
}

impl GroupShare {
    /// Returns whether it divides the class with this name.
    #[must_use]
    pub fn divides(&self, class: &str) -> bool {
        let named = || self.classes.iter().any(|name| name.value == class);
        class != ACK && (self.classes.is_empty() || named())
    }
}

/// The table `[[share]]`.
pub(crate) const SHARE: Table = Table {
    name: "share",
    about: "A share of classes for a group of hosts",
    rows: &[&SHARE_ROWS],
};

/// The table `[[cap]]`.
pub(crate) const CAP: Table = Table {
    name: "cap",
    about: "A limit for each host of a group",
    rows: &[&CAP_ROWS],
};

/// A group's name and its addresses.
type Members = (Value<String>, Vec<Prefix>);

/// The fields of `[[share]]` as written.
#[derive(Default)]
struct WrittenShare {
    group: Option<Members>,
    share: Option<Value<Share>>,
    ceiling: Option<Value<Amount>>,
    classes: Vec<Value<String>>,
}

/// The fields of `[[cap]]` as written.
#[derive(Default)]
struct WrittenCap {
    group: Option<Members>,
    class: Option<Value<String>>,
    up: Option<Value<Rate>>,
    down: Option<Value<Rate>>,
}

type ShareRow = Row<WrittenShare, Groups>;
type CapRow = Row<WrittenCap, Groups>;

/// The hint for a missing `group`.
const NAME_GROUP: &str = "name a group of addresses, such as `group = \"sales\"`";

const SHARE_ROWS: &[ShareRow] = &[
    ShareRow::new(
        "group",
        FieldKind::Text("sales"),
        "A group of addresses",
        |cell, share| share.group = members(cell),
    )
    .needed(NAME_GROUP),
    row!(WrittenShare: "share" => share, "The group's share of the guarantee of each class")
        .needed("state the group's part, such as `share = \"30%\"`"),
    row!(WrittenShare: "ceiling" => ceiling, "The largest rate of the group in a class"),
    row!(WrittenShare: "classes": FieldKind::List("normal") => classes,
        "The classes in which the group has this share")
    .default("all but `ack`"),
];

const CAP_ROWS: &[CapRow] = &[
    CapRow::new(
        "group",
        FieldKind::Text("guests"),
        "A group of addresses",
        |cell, cap| cap.group = members(cell),
    )
    .needed(NAME_GROUP),
    row!(WrittenCap: "class": FieldKind::Text("guest") => class,
        "The class in which hosts are limited")
    .default("all classes together"),
    CapRow::new(
        "up",
        FieldKind::Rate,
        "The largest upstream rate of a host, in bits on the wire",
        |cell, cap| cap.up = rate(cell),
    ),
    CapRow::new(
        "down",
        FieldKind::Rate,
        "The largest downstream rate of a host, in bits on the wire",
        |cell, cap| cap.down = rate(cell),
    ),
];

/// Reads `group` and returns the addresses of the group that it names.
fn members(cell: &mut Cell<'_, '_, '_, Groups>) -> Option<Members> {
    let name = cell.text()?;
    let found = group::members(cell.context, &name, "addresses", cell.problems(), |group| {
        &group.addresses
    });
    let name = name.map(|name| name.trim_start_matches('@').to_owned());
    Some((name, found?))
}

fn rate(cell: &mut Cell<'_, '_, '_, Groups>) -> Option<Value<Rate>> {
    let rate = cell.parsed();
    rate.inspect(|rate| zero(cell.table, rate))
}

/// Reads `[[share]]`.
pub(crate) fn read_share(mut table: Reader<'_, '_>, groups: &Groups) -> Option<GroupShare> {
    let mut written = WrittenShare::default();
    field::read(&mut table, SHARE_ROWS, groups, &mut written);
    let WrittenShare {
        group,
        share,
        ceiling,
        classes,
    } = written;
    if let Some(share) = share
        .as_ref()
        .filter(|share| share.value == Share::default())
    {
        table.problems().error(
            codes::GROUP_SHARE,
            share.span.clone(),
            "a group with a share of 0 could starve",
            "write at least `1%`",
        );
    }
    let whole = Amount::Share(Share::WHOLE);
    let nothing = [
        Amount::Share(Share::default()),
        Amount::Rate(Rate::default()),
    ];
    if let Some(ceiling) = &ceiling
        && (nothing.contains(&ceiling.value)
            || matches!((ceiling.value, whole), (Amount::Share(own), Amount::Share(most)) if own > most))
    {
        table.problems().error(
            codes::CEILING,
            ceiling.span.clone(),
            "a group's ceiling is above 0 and at most the whole link",
            "write a part of the link such as `80%`, or leave it out",
        );
    }
    let (group, addresses) = group?;
    Some(GroupShare {
        line: table.line(),
        span: table.span(),
        group,
        addresses,
        share: share?,
        ceiling,
        classes,
    })
}

/// Reads `[[cap]]`.
pub(crate) fn read_cap(mut table: Reader<'_, '_>, groups: &Groups) -> Option<HostCap> {
    let mut written = WrittenCap::default();
    field::read(&mut table, CAP_ROWS, groups, &mut written);
    if !table.has("up") && !table.has("down") {
        table.problems().error(
            codes::HOST_CAP,
            table.span(),
            "this limit has no rate",
            "state `up`, `down` or both, such as `down = \"5mbit\"`",
        );
    }
    let (group, addresses) = written.group?;
    let mut hosts = Vec::new();
    for prefix in &addresses {
        if !enumerated(*prefix, &mut hosts) {
            table.problems().error(
                codes::HOST_CAP,
                group.span.clone(),
                format!(
                    "`{}` has more than {MOST_CAPPED} hosts, each of which would be a class of \
                     its own",
                    group.value
                ),
                "name a smaller group; IPv4 hosts are addresses, IPv6 hosts are prefixes of 64 bits",
            );
            return None;
        }
    }
    hosts.arrange_by_key(|host| (host.address, host.length));
    hosts.dedup();
    Some(HostCap {
        line: table.line(),
        span: table.span(),
        group,
        hosts,
        class: written.class,
        up: written.up,
        down: written.down,
    })
}

/// Adds the hosts of a prefix. Returns false if there are too many.
fn enumerated(prefix: Prefix, hosts: &mut Vec<Prefix>) -> bool {
    let own = if prefix.is_v4() { 32 } else { 64 };
    if prefix.length >= own {
        hosts.push(prefix);
        return hosts.len() <= MOST_CAPPED;
    }
    let bits = u32::from(own - prefix.length);
    if bits > MOST_CAPPED.ilog2() || hosts.len() + (1 << bits) > MOST_CAPPED {
        return false;
    }
    hosts.extend((0..1_u32 << bits).map(|at| {
        let address = match prefix.address {
            IpAddr::V4(v4) => IpAddr::from((v4.to_bits() + at).to_be_bytes()),
            IpAddr::V6(v6) => IpAddr::from((v6.to_bits() + (u128::from(at) << 64)).to_be_bytes()),
        };
        Prefix {
            address,
            length: own,
        }
    }));
    true
}
