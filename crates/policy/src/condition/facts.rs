// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The conditions of a rule or service, and the facts that each condition provides about itself.
//!
//! This module does not refer to single conditions, so that each can be read on its own. The
//! parent module lists them.

use crate::field::Row;
use crate::named::group::Groups;
use std::any::Any;
use std::fmt;
use std::sync::Arc;
use weirgate_document::{SourceSpan, Value};

/// A condition's row in the registry of fields. Its reader adds the condition to a
/// [`Conditions`].
pub(crate) type ConditionRow = Row<Conditions, Groups>;

/// A type of condition, which [`Conditions::find`] looks up. [`Condition`](crate::Condition)
/// lists all of them.
pub trait Kind: Any {
    /// Its position in the order of conditions.
    const ORDER: usize;
}

/// The source of the information that a condition tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
    /// The packet itself, which is available everywhere.
    Packet,
    /// Connection tracking, after the packet has passed it.
    Connection,
    /// The packet's mark, after it has been set.
    Mark,
    /// The device or host that an upstream packet came from. The text names what a downstream
    /// packet does not reveal.
    Input(&'static str),
    /// The local socket that sends a packet. The text is used in the same way.
    Sender(&'static str),
}

/// What a condition requires of the upper-layer protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Carrier {
    /// The protocol must be TCP.
    Tcp,
    /// The protocol must have ports.
    Ports,
}

/// The origin that a condition implies for its packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A local socket: the code for contradictions, and what only these packets have.
    Here(&'static str, &'static str),
    /// Another host, through a device: how the policy expresses it.
    Outside(&'static str),
}

/// Two conditions that exclude each other: the problem's code, its position, the message and the
/// hint.
pub(crate) type Finding = (&'static str, SourceSpan, String, &'static str);

/// The facts that a condition provides.
pub(crate) trait Facts: Same + Any + fmt::Debug + Send + Sync {
    /// Returns the position of its first value.
    fn span(&self) -> Option<&SourceSpan>;

    /// Returns whether it holds for every packet that matches `later`. If that cannot be decided
    /// it is false, and the later rule is not reported as hidden.
    fn covers(&self, _later: &Conditions) -> bool {
        false
    }

    /// Returns what it requires of the protocol.
    fn carrier(&self) -> Option<Carrier> {
        None
    }

    /// Returns the origin that it requires.
    fn origin(&self) -> Option<Origin> {
        None
    }

    /// Returns the least and the largest number in its list, if it covers only lists with numbers
    /// between them. Other conditions return `None`.
    fn extent(&self) -> Option<(u128, u128)> {
        None
    }

    /// Returns the number of its values, for conditions that can have thousands; otherwise 0.
    fn elements(&self) -> usize {
        0
    }

    /// Returns the largest length of packets for which it holds, in bytes from the IP header on.
    fn longest(&self) -> Option<u16> {
        None
    }

    /// Reports conditions in `when` that exclude this condition or a part of it.
    fn contradictions(&self, _when: &Conditions, _add: &mut dyn FnMut(Finding)) {}
}

/// Equality of conditions of unknown types.
pub(crate) trait Same {
    fn same(&self, other: &dyn Facts) -> bool;
}

impl<T: Facts + PartialEq> Same for T {
    fn same(&self, other: &dyn Facts) -> bool {
        let other: &dyn Any = other;
        other.downcast_ref() == Some(self)
    }
}

/// Conditions, all of which must hold. Of a list, one element must match. Without a condition,
/// every packet matches.
#[derive(Debug, Clone, Default)]
pub struct Conditions(Vec<(usize, Arc<dyn Facts>)>);

impl PartialEq for Conditions {
    fn eq(&self, other: &Self) -> bool {
        let pairs = || self.facts().zip(other.facts());
        self.0.len() == other.0.len() && pairs().all(|(one, other)| one.same(other))
    }
}

impl Eq for Conditions {}

impl Conditions {
    pub(crate) fn facts(&self) -> impl Iterator<Item = &dyn Facts> + Clone {
        self.0.iter().map(|one| &*one.1)
    }

    /// Returns the condition of this kind.
    #[must_use]
    pub fn find<T: Kind>(&self) -> Option<&T> {
        self.facts().find_map(|one| {
            let one: &dyn Any = one;
            one.downcast_ref()
        })
    }

    pub(crate) fn has<T: Kind>(&self) -> bool {
        self.find::<T>().is_some()
    }

    pub(crate) fn add<T: Kind + Facts>(&mut self, one: T) {
        let at = self.0.partition_point(|before| before.0 <= T::ORDER);
        self.0.insert(at, (T::ORDER, Arc::new(one)));
    }

    /// Adds a list, unless none of its elements could be read.
    pub(crate) fn add_list<T, C: Kind + Facts>(
        &mut self,
        list: Vec<Value<T>>,
        condition: impl FnOnce(Vec<Value<T>>) -> C,
    ) {
        if !list.is_empty() {
            self.add(condition(list));
        }
    }

    /// Removes and returns the condition of a kind, so that it can be extended.
    pub(crate) fn take<T: Kind + Clone>(&mut self) -> Option<T> {
        let found = self.find::<T>().cloned();
        self.0.retain(|one| one.0 != T::ORDER);
        found
    }

    pub(crate) fn needs(&self, carrier: Carrier) -> bool {
        self.facts().any(|one| one.carrier() == Some(carrier))
    }

    pub(crate) fn elements(&self) -> usize {
        self.facts().map(Facts::elements).sum()
    }

    /// Reports conditions on packets that came in, next to a condition that only packets of this
    /// machine can fulfil. The report is at the last of the former.
    pub(crate) fn two_origins(&self, add: &mut dyn FnMut(Finding)) {
        let here = |one: &dyn Facts| match one.origin() {
            Some(Origin::Here(code, has)) => Some((code, has)),
            _ => None,
        };
        let Some((code, has)) = self.facts().filter_map(here).last() else {
            return;
        };
        for one in self.facts() {
            let (Some(Origin::Outside(what)), Some(span)) = (one.origin(), one.span()) else {
                continue;
            };
            let wrong = format!(
                "{what} matches packets that came in, but only packets of this machine have {has}"
            );
            let right = "leave one out; let the sending host mark packets that come in";
            add((code, span.clone(), wrong, right));
        }
    }

    /// Returns the order of each condition with a list of numbers, and their extent.
    pub(crate) fn extents(&self) -> impl Iterator<Item = (usize, (u128, u128))> {
        let all = self.0.iter();
        all.filter_map(|(order, one)| Some((*order, one.extent()?)))
    }

    /// Returns whether it holds for every packet that matches `later`.
    pub(crate) fn covers(&self, later: &Self) -> bool {
        self.facts().all(|one| one.covers(later))
    }
}

/// Returns the position of a list's first element.
pub(super) fn first<T>(list: &[Value<T>]) -> Option<&SourceSpan> {
    list.first().map(|one| &one.span)
}

/// Returns the least and the largest number of ranges.
pub(super) fn extent(ranges: impl Iterator<Item = (u128, u128)>) -> Option<(u128, u128)> {
    ranges.reduce(|all, one| (all.0.min(one.0), all.1.max(one.1)))
}

/// Returns whether each value of the later list lies within one of the earlier list.
pub(super) fn within<T: Copy>(
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
