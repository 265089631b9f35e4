// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rules and their conditions, and directions.

use crate::condition::address::LocalAddresses;
use crate::condition::facts::{Conditions, Kind};
use crate::condition::meter::{Count, Meter, Per};
use crate::field::words;
use crate::named::member::Prefix;
use weirgate_document::{SourceSpan, Value};
use weirgate_schedule::Schedule;
use weirgate_units::Direction;
use weirgate_units::{Dscp, Rate};

/// The directions something is for; at least one.
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
    /// Whether this direction is among them.
    #[must_use]
    pub const fn contains(self, direction: Direction) -> bool {
        matches!(
            (self, direction),
            (Self::Both, _) | (Self::Up, Direction::Up) | (Self::Down, Direction::Down)
        )
    }

    /// Whether they have a direction in common.
    #[must_use]
    pub fn overlap(self, other: Self) -> bool {
        Direction::BOTH
            .into_iter()
            .any(|one| self.contains(one) && other.contains(one))
    }
}

/// A rate that tc can express: whole bytes per second.
pub(crate) fn whole_bytes(rate: Rate) -> Rate {
    Rate::bits_per_second(rate.as_bits_per_second() / 8 * 8)
}

/// What a rate leaves of another, no less than nothing.
pub(crate) fn less(rate: Rate, part: Rate) -> Rate {
    Rate::bits_per_second(
        rate.as_bits_per_second()
            .saturating_sub(part.as_bits_per_second()),
    )
}

/// A rate as people read it: `102.192 kbit/s`.
#[must_use]
pub fn in_kbit(rate: Rate) -> String {
    let bits = rate.as_bits_per_second();
    let fraction = format!("{:03}", bits % 1000);
    match fraction.trim_end_matches('0') {
        "" => format!("{} kbit/s", bits / 1000),
        digits => format!("{}.{digits} kbit/s", bits / 1000),
    }
}

/// Conditions by which a packet is of a service that a rule names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceMatch {
    /// The service.
    pub service: String,
    /// What a packet of it fulfils.
    pub when: Conditions,
}

/// A rule of the scheme. A packet fulfils it that fulfils `when`, one of
/// `services` where there are any, not a single condition of `never`, and
/// `meter`.
///
/// Rules are tried in order. One that is `last` ends the scheme for its
/// packets; after another, later rules may put the packet elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// The line of its table, from 1, in its file.
    pub line: u32,
    /// Where its table begins.
    pub span: SourceSpan,
    /// The name of the rule's counter, if it has one of its own.
    pub name: Option<Value<String>>,
    /// The class; `None` where it only writes a code point.
    pub class: Option<Value<String>>,
    /// Its directions.
    pub directions: Directions,
    /// Its conditions.
    pub when: Conditions,
    /// Conditions of which none may hold.
    pub never: Option<Conditions>,
    /// The ways to be of any of the services that it names.
    pub services: Vec<ServiceMatch>,
    /// A rate or a number of connections.
    pub meter: Option<Value<Meter>>,
    /// The times at which it is there; `None` is always.
    pub during: Option<Schedule>,
    /// No later rule sees its packets.
    pub last: bool,
    /// Whether the rule, once it matched a packet, matches the whole connection.
    pub keep: Option<SourceSpan>,
    /// The code point that it writes.
    pub set_dscp: Option<Value<Dscp>>,
    /// The largest TCP segment, in bytes of payload, that its SYNs and SYN-ACKs
    /// may ask for.
    pub mss: Option<Value<u16>>,
    /// The rule set it belongs to, as an index into [`Policy::rulesets`].
    pub ruleset: Option<usize>,
}

/// A set of rules that is switched on and off as one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ruleset {
    /// The line of its table, from 1, in its file.
    pub line: u32,
    /// Its name.
    pub name: Value<String>,
    /// Whether the rule set is on when the policy is applied.
    pub enabled: bool,
}

impl Rule {
    /// Its own conditions, then those of its services; `never` is not among
    /// them.
    pub fn asked(&self) -> impl Iterator<Item = &Conditions> + Clone {
        let services = self.services.iter().map(|way| &way.when);
        std::iter::once(&self.when).chain(services)
    }

    /// The conditions of a kind that it or one of its services has.
    pub fn find<T: Kind>(&self) -> impl Iterator<Item = &T> {
        self.asked().filter_map(Conditions::find)
    }

    /// Whether it keeps a decision that the upstream makes.
    #[must_use]
    pub fn decides_upstream(&self) -> bool {
        self.keep.is_some() && self.directions.contains(Direction::Up)
    }

    /// Whether it needs, services aside, what only connection tracking or a mark says.
    #[must_use]
    pub fn asks_tracking_itself(&self) -> bool {
        let counted = self.meter.as_ref().is_some_and(|meter| {
            meter.value.per == Per::Connection || matches!(meter.value.count, Count::Connections(_))
        });
        self.when.ask_tracking() || counted || self.keep.is_some()
    }

    /// Whether it or one of its services needs what only connection tracking or a mark
    /// says.
    #[must_use]
    pub fn asks_tracking(&self) -> bool {
        let mut services = self.services.iter();
        self.asks_tracking_itself() || services.any(|way| way.when.ask_tracking())
    }

    /// The first inside address of its own that is hardly on the link without NAT.
    #[must_use]
    pub fn private_local(&self) -> Option<&Value<Prefix>> {
        let LocalAddresses(list) = self.when.find()?;
        let first = list.iter().find(|prefix| prefix.value.is_v4());
        first.filter(|prefix| prefix.value.is_private())
    }
}
