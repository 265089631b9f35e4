// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The checked policy. Every part keeps its place in the text, so that messages and rules can name
//! the line.

pub(crate) mod rates;
pub(crate) mod shares;

use crate::class::Class;
use crate::class::ack::Ack;
use crate::class::part::{GroupShare, HostCap};
use crate::condition::facts::Conditions;
use crate::conditioner::Conditioner;
use crate::file::include::Sources;
use crate::link::Link;
use crate::link::inbound::{Inbound, Policing};
use crate::link::track::Track;
use crate::marks::Marks;
use crate::model::{Rule, Ruleset};
use crate::named::group::Group;
use crate::receive::Receive;
use crate::rule::treatment::DscpTreatment;
use std::collections::BTreeMap;
use weirgate_units::Direction;
use weirgate_units::Rate;

/// A whole policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// The link that is shared.
    pub link: Link,
    /// How arriving packets are policed instead of queued.
    pub policing: Option<Policing>,
    /// How senders outside are limited from here.
    pub receive: Option<Receive>,
    /// Between which rates a line is followed that changes.
    pub track: Option<Track>,
    /// The reservation for acknowledgements, if any.
    pub ack: Option<Ack>,
    /// The classes as written, without the one that `ack` creates.
    pub classes: Vec<Class>,
    /// The rules, in the order of the scheme.
    pub rules: Vec<Rule>,
    /// The rule sets that rules belong to.
    pub rulesets: Vec<Ruleset>,
    /// The groups, whose members rules already have.
    pub groups: Vec<Group>,
    /// The services that rules may name, each by the conditions of any of which a
    /// packet is of it: the library's, and the policy's own.
    pub services: BTreeMap<String, Vec<Conditions>>,
    /// What gives packets colours where they enter or leave a device; the first
    /// of a place whose packets they are conditions them.
    pub conditioners: Vec<Conditioner>,
    /// Parts of classes for groups, as written.
    pub shares: Vec<GroupShare>,
    /// Limits for each host of a group, as written.
    pub caps: Vec<HostCap>,
    /// How code points are cleared or rewritten.
    pub dscp: Option<DscpTreatment>,
    /// Which bits of marks are weirgate's.
    pub marks: Marks,
    /// The files it was read from.
    pub sources: Sources,
}

impl Policy {
    /// Whether a rule has a `payload`.
    #[must_use]
    pub fn looks_at_payloads(&self) -> bool {
        self.rules.iter().any(|rule| rule.payload().is_some())
    }

    /// Whether programs are attached where packets arrive.
    #[must_use]
    pub fn needs_programs(&self) -> bool {
        self.looks_at_payloads()
            || self.policed_rate().is_some()
            || !self.conditioners.is_empty()
            || self.link.moves_in_order().is_some()
            || self
                .link
                .automatic
                .is_some_and(|chosen| chosen.has_windows())
    }

    /// The line's rate in a direction, `None` where the policy does not shape
    /// it, but leaves it alone or polices it to [`Policy::policed_rate`].
    #[must_use]
    pub fn line_rate(&self, direction: Direction) -> Option<Rate> {
        match direction {
            Direction::Up => Some(self.link.up.value),
            Direction::Down if self.link.inbound.value == Inbound::None => None,
            Direction::Down if self.link.inbound.value.polices() => None,
            Direction::Down => self.link.down.as_ref().map(|down| down.value),
        }
    }

    /// The classes of a direction as written.
    pub fn classes_of(&self, direction: Direction) -> impl Iterator<Item = &Class> {
        self.classes
            .iter()
            .filter(move |class| class.directions.contains(direction))
    }
}
