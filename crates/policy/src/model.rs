// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rules and their conditions, and directions.

use crate::condition::address::LocalAddresses;
use crate::condition::facts::{Conditions, Kind};
use crate::condition::meter::{Count, Meter, Per};
use crate::field::words;
use crate::named::member::Prefix;
use weirgate_document::{SourceSpan, Value};
use weirgate_schedule::Schedule;
use weirgate_units::{Direction, Dscp, Rate};

/// One or both directions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Directions {
    /// Upstream only.
    Up,
    /// Downstream only.
    Down,
    /// Both.
    Both,
}

words!(Directions: "up" => Self::Up, "down" => Self::Down, "both" => Self::Both);

impl Directions {
    /// Returns whether this direction is included.
    #[must_use]
    pub const fn contains(self, direction: Direction) -> bool {
        matches!(
            (self, direction),
            (Self::Both, _) | (Self::Up, Direction::Up) | (Self::Down, Direction::Down)
        )
    }

    /// Returns whether both have a direction in common.
    #[must_use]
    pub fn overlap(self, other: Self) -> bool {
        Direction::BOTH
            .into_iter()
            .any(|one| self.contains(one) && other.contains(one))
    }
}

/// Rounds a rate down to one that tc can express, in whole bytes per second.
pub(crate) fn whole_bytes(rate: Rate) -> Rate {
    Rate::bits_per_second(rate.as_bits_per_second() / 8 * 8)
}

/// Subtracts a rate from another one; the result is at least 0.
pub(crate) fn less(rate: Rate, part: Rate) -> Rate {
    Rate::bits_per_second(
        rate.as_bits_per_second()
            .saturating_sub(part.as_bits_per_second()),
    )
}

/// Formats a rate for people: `102.192 kbit/s`.
#[must_use]
pub fn in_kbit(rate: Rate) -> String {
    let bits = rate.as_bits_per_second();
    let fraction = format!("{:03}", bits % 1000);
    match fraction.trim_end_matches('0') {
        "" => format!("{} kbit/s", bits / 1000),
        digits => format!("{}.{digits} kbit/s", bits / 1000),
    }
}

/// One of the conditions of a service that a rule names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceMatch {
    /// The service's name.
    pub service: String,
    /// The conditions.
    pub when: Conditions,
}

/// A rule. It matches a packet that fulfils `when`, one of `services` if there are any, no
/// condition of `never`, and `meter`.
///
/// Rules are tried in order. If a rule with `last` matches a packet, no later rule is tried.
/// After another rule, later rules may change the packet's class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// The line number of its table in its file, from 1.
    pub line: u32,
    /// The position of its table.
    pub span: SourceSpan,
    /// The name of the rule's counter, if it has one.
    pub name: Option<Value<String>>,
    /// The class; `None` if it only writes a code point.
    pub class: Option<Value<String>>,
    /// Its directions.
    pub directions: Directions,
    /// Its conditions.
    pub when: Conditions,
    /// Conditions, none of which may hold.
    pub never: Option<Conditions>,
    /// The conditions of the services that it names. One of them must match.
    pub services: Vec<ServiceMatch>,
    /// A limit on a rate or a number of connections.
    pub meter: Option<Value<Meter>>,
    /// The times at which the rule is active; `None` means always.
    pub during: Option<Schedule>,
    /// Whether no later rule is tried for its packets.
    pub last: bool,
    /// The position of `keep`: once the rule has matched a packet, it matches the whole
    /// connection.
    pub keep: Option<SourceSpan>,
    /// The code point that it writes into packets.
    pub set_dscp: Option<Value<Dscp>>,
    /// The largest MSS, in bytes of payload, that its SYNs and SYN-ACKs may announce.
    pub mss: Option<Value<u16>>,
    /// Its rule set, as an index into [`Policy::rulesets`].
    pub ruleset: Option<usize>,
}

/// A set of rules that is switched on and off together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ruleset {
    /// The line number of its table in its file, from 1.
    pub line: u32,
    /// Its name.
    pub name: Value<String>,
    /// Whether the rule set is on when the policy is applied.
    pub enabled: bool,
}

impl Rule {
    /// Returns its own conditions, then those of its services, but not `never`.
    pub fn asked(&self) -> impl Iterator<Item = &Conditions> + Clone {
        let services = self.services.iter().map(|service| &service.when);
        std::iter::once(&self.when).chain(services)
    }

    /// Returns the conditions of a kind, its own and those of its services.
    pub fn find<T: Kind>(&self) -> impl Iterator<Item = &T> {
        self.asked().filter_map(Conditions::find)
    }

    /// Returns whether it matches every packet that `later` matches, in all directions of `later`.
    /// Then `later` is never reached, because the first match ends the search.
    ///
    /// The comparison is exact for each element. A rule that only several earlier rules together
    /// hide is not found.
    pub(crate) fn covers(&self, later: &Self) -> bool {
        let directions = Direction::BOTH
            .into_iter()
            .all(|one| !later.directions.contains(one) || self.directions.contains(one));
        let plain = self.never.is_none()
            && self.services.is_empty()
            && self.meter.is_none()
            && self.during.is_none();
        // A rule of a rule set can be switched off, so it hides only rules of the same set.
        let there = self.ruleset.is_none() || self.ruleset == later.ruleset;
        self.last && directions && plain && there && self.when.covers(&later.when)
    }

    /// Returns whether it keeps a decision that is made upstream.
    #[must_use]
    pub fn decides_upstream(&self) -> bool {
        self.keep.is_some() && self.directions.contains(Direction::Up)
    }

    /// Returns whether its own conditions need connection tracking or a mark.
    #[must_use]
    pub fn asks_tracking_itself(&self) -> bool {
        let counted = self.meter.as_ref().is_some_and(|meter| {
            meter.value.per == Per::Connection || matches!(meter.value.count, Count::Connections(_))
        });
        self.when.ask_tracking() || counted || self.keep.is_some()
    }

    /// Returns whether its conditions, or those of its services, need connection tracking or a
    /// mark.
    #[must_use]
    pub fn asks_tracking(&self) -> bool {
        let mut services = self.services.iter();
        self.asks_tracking_itself() || services.any(|service| service.when.ask_tracking())
    }

    /// Returns the first private inside address in its own conditions, which NAT hides on the
    /// link.
    #[must_use]
    pub fn private_local(&self) -> Option<&Value<Prefix>> {
        let LocalAddresses(list) = self.when.find()?;
        let first = list.iter().find(|prefix| prefix.value.is_v4());
        first.filter(|prefix| prefix.value.is_private())
    }
}
