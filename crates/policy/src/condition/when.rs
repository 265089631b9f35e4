// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The conditions of a rule or service together.

use crate::codes;
use crate::condition::{Carrier, Condition, ConditionRow, Kind, MORE, PLAIN};
use crate::field;
use crate::model::Rule;
use crate::named::group::Groups;
use weirgate_document::{Reader, Value};

/// Conditions, all of which must hold; of a list any element. Without a
/// condition it holds for every packet.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct When(Vec<Condition>);

impl When {
    /// The conditions, at most one of each kind, in the order of the kinds.
    pub fn iter(&self) -> impl Iterator<Item = &Condition> + Clone {
        self.0.iter()
    }

    /// The condition of a kind.
    #[must_use]
    pub fn find<T: Kind>(&self) -> Option<&T> {
        self.0.iter().find_map(T::of)
    }

    pub(crate) fn has<T: Kind>(&self) -> bool {
        self.find::<T>().is_some()
    }

    pub(crate) fn add(&mut self, one: impl Into<Condition>) {
        let one = one.into();
        let at = self
            .0
            .partition_point(|before| before.order() <= one.order());
        self.0.insert(at, one);
    }

    /// Adds a list, unless nothing of it could be read.
    pub(crate) fn add_list<T, C: Into<Condition>>(
        &mut self,
        list: Vec<Value<T>>,
        condition: impl FnOnce(Vec<Value<T>>) -> C,
    ) {
        if !list.is_empty() {
            self.add(condition(list));
        }
    }

    /// The condition of a kind, to be extended.
    pub(crate) fn take<T: Kind + Clone>(&mut self) -> Option<T> {
        let found = self.find::<T>().cloned();
        self.0.retain(|one| T::of(one).is_none());
        found
    }

    pub(crate) fn needs(&self, carrier: Carrier) -> bool {
        let mut facts = self.0.iter().map(Condition::facts);
        facts.any(|one| one.carrier() == Some(carrier))
    }

    pub(crate) fn elements(&self) -> usize {
        self.0.iter().map(|one| one.facts().elements()).sum()
    }

    /// Whether it holds for every packet that `later` takes.
    pub(crate) fn covers(&self, later: &Self) -> bool {
        self.0.iter().all(|one| one.facts().covers(later))
    }
}

impl Rule {
    /// Its own conditions, then those of its services; `never` is not among
    /// them.
    pub fn asked(&self) -> impl Iterator<Item = &When> + Clone {
        std::iter::once(&self.when).chain(&self.services)
    }

    /// The conditions of a kind that it or one of its services has.
    pub fn find<T: Kind + 'static>(&self) -> impl Iterator<Item = &T> {
        self.asked().filter_map(When::find)
    }
}

/// Whether a table has any condition.
pub(crate) fn has_any(table: &mut Reader<'_, '_>, when: &When) -> bool {
    // `pure-ack = false` is none.
    let written = |row: &ConditionRow| row.name() != "pure-ack" && table.has(row.name());
    let written = PLAIN.iter().chain(MORE).any(written);
    written || !when.0.is_empty()
}

/// Reads the conditions of a rule or service.
pub(crate) fn read(table: &mut Reader<'_, '_>, groups: &Groups) -> When {
    let mut when = When::default();
    field::read(table, PLAIN, groups, &mut when);
    field::read(table, MORE, groups, &mut when);
    for one in &when.0 {
        one.facts()
            .contradictions(&when, &mut |(code, place, wrong, right)| {
                table.problems().error(code, place, wrong, right);
            });
    }
    when
}

/// Reads `not`: conditions each of which is about one field.
pub(crate) fn read_never(mut table: Reader<'_, '_>, groups: &Groups) -> When {
    let mut when = When::default();
    field::read(&mut table, PLAIN, groups, &mut when);
    if table.is_empty() {
        table.problems().error(
            codes::CONTRADICTION,
            table.span(),
            "`not` excludes nothing",
            "name at least one condition, or leave `not` out",
        );
    }
    when
}
