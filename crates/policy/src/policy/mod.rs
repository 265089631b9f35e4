// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The checked policy. Every part keeps its position in the text, so that messages and kernel
//! rules can refer to the line.

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
use weirgate_units::{Direction, Rate};

/// A whole policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// The link that is shared.
    pub link: Link,
    /// How arriving packets are policed instead of queued.
    pub policing: Option<Policing>,
    /// How senders beyond the line are limited by the receiving side.
    pub receive: Option<Receive>,
    /// The range of rates within which a changing line is followed.
    pub track: Option<Track>,
    /// The reservation for acknowledgements.
    pub ack: Option<Ack>,
    /// The classes as written, without the class that `ack` creates.
    pub classes: Vec<Class>,
    /// The rules, in the order in which they are tried.
    pub rules: Vec<Rule>,
    /// The rule sets that rules belong to.
    pub rulesets: Vec<Ruleset>,
    /// The groups. Rules already contain their members.
    pub groups: Vec<Group>,
    /// The services that rules may name: the library's and the policy's own. A packet belongs to
    /// a service if it matches one of its conditions.
    pub services: BTreeMap<String, Vec<Conditions>>,
    /// The conditioners. The first one at a device and side that matches a packet conditions it.
    pub conditioners: Vec<Conditioner>,
    /// Shares of classes for groups, as written.
    pub shares: Vec<GroupShare>,
    /// Limits for each host of a group, as written.
    pub caps: Vec<HostCap>,
    /// How code points are cleared or rewritten.
    pub dscp: Option<DscpTreatment>,
    /// The mark bits that weirgate uses.
    pub marks: Marks,
    /// The files from which it was read.
    pub sources: Sources,
}

impl Policy {
    /// Returns whether a rule has a `payload`.
    #[must_use]
    pub fn looks_at_payloads(&self) -> bool {
        self.rules.iter().any(|rule| rule.payload().is_some())
    }

    /// Returns whether BPF programs are attached to the ingress of devices.
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

    /// Returns the line's rate in a direction. It is `None` if the policy does not shape this
    /// direction, but leaves it alone or polices it to [`Policy::policed_rate`].
    #[must_use]
    pub fn line_rate(&self, direction: Direction) -> Option<Rate> {
        match direction {
            Direction::Up => Some(self.link.up.value),
            Direction::Down if self.link.inbound.value == Inbound::None => None,
            Direction::Down if self.link.inbound.value.polices() => None,
            Direction::Down => self.link.down.as_ref().map(|down| down.value),
        }
    }

    /// Returns the classes of a direction as written.
    pub fn classes_of(&self, direction: Direction) -> impl Iterator<Item = &Class> {
        self.classes
            .iter()
            .filter(move |class| class.directions.contains(direction))
    }
}
