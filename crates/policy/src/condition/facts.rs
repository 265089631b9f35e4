// SPDX-License-Identifier: Apache-2.0 OR MIT
//! All conditions of a rule or service, and the facts that each condition states about itself.
//!
//! Nothing here names a condition, so that each can be read by itself; the list
//! of them is in the parent module.

use crate::field::Row;
use crate::named::group::Groups;
use std::any::Any;
use std::fmt;
use std::sync::Arc;
use weirgate_document::{SourceSpan, Value};

/// A condition's row in the registry of fields. Its reader adds the condition to
/// a [`Conditions`].
pub(crate) type ConditionRow = Row<Conditions, Groups>;

/// A type of condition, by which [`Conditions::find`] finds it: one of those that
/// [`Condition`](crate::Condition) lists.
pub trait Kind: Any {
    /// Where among the conditions it stands.
    const ORDER: usize;
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

/// Where packets are from that fulfil a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A socket on this machine: the code of what contradicts it, and what such a
    /// packet has that no other has.
    Here(&'static str, &'static str),
    /// A device: how the policy says so.
    Outside(&'static str),
}

/// Two conditions that exclude each other: the problem's code, its place, what
/// is wrong, and what would be right.
pub(crate) type Finding = (&'static str, SourceSpan, String, &'static str);

/// What a condition says about itself.
pub(crate) trait Facts: Same + Any + fmt::Debug + Send + Sync {
    /// Where it stands first.
    fn span(&self) -> Option<&SourceSpan>;

    /// Whether it holds for every packet that `later` takes. Where that cannot
    /// be decided, it is false: the rule is then not reported as hidden.
    fn covers(&self, _later: &Conditions) -> bool {
        false
    }

    /// The protocol that it needs, where it needs one.
    fn carrier(&self) -> Option<Carrier> {
        None
    }

    /// Where the packets are from, where it asks for that.
    fn origin(&self) -> Option<Origin> {
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
    fn contradictions(&self, _when: &Conditions, _add: &mut dyn FnMut(Finding)) {}
}

/// Equality of conditions whose types are not known.
pub(crate) trait Same {
    fn same(&self, other: &dyn Facts) -> bool;
}

impl<T: Facts + PartialEq> Same for T {
    fn same(&self, other: &dyn Facts) -> bool {
        let other: &dyn Any = other;
        other.downcast_ref() == Some(self)
    }
}

/// Conditions, all of which must hold; of a list any element. Without a
/// condition it holds for every packet.
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

    /// The condition of a kind.
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

    /// Adds a list, unless nothing of it could be read.
    pub(crate) fn add_list<T, C: Kind + Facts>(
        &mut self,
        list: Vec<Value<T>>,
        condition: impl FnOnce(Vec<Value<T>>) -> C,
    ) {
        if !list.is_empty() {
            self.add(condition(list));
        }
    }

    /// Removes the condition of a kind, to be extended.
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

    /// Conditions on packets that came in, beside one that only what this machine
    /// sends can fulfil: the last of those says it.
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

    /// Whether it holds for every packet that `later` takes.
    pub(crate) fn covers(&self, later: &Self) -> bool {
        self.facts().all(|one| one.covers(later))
    }
}

/// Where a list begins.
pub(super) fn first<T>(list: &[Value<T>]) -> Option<&SourceSpan> {
    list.first().map(|one| &one.span)
}

/// Whether each value of the later list lies within one of the earlier.
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
