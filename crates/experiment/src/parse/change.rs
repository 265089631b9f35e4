// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The field `then` of an arm: policies applied while traffic runs.

use super::registry::{Field, Own, Table, Text};
use super::scope::Scope;
use super::{arm, codes, field};
use crate::Change;
use weirgate_document::Reader;
use weirgate_units::Span;

/// The largest number of changes in one arm.
const MOST_CHANGES: usize = 32;

pub(super) const THEN: Field<Own> = Field::new(
    "then",
    Own("list of tables"),
    "Policies that are applied while traffic runs, at most 32, in order of time",
);

const AT: Field<Own> = Field::new(
    "at",
    Own("time"),
    "When the change begins, after 0 and before the end of the last phase",
)
.required("say when the policy changes: `at = \"20s\"`");
const POLICY: Field<Text> = Field::new(
    "policy",
    Text,
    "The path of the policy that replaces the previous one, or is applied to a link without one",
)
.required("name the policy: `policy = \"policies/x.toml\"`");

pub(super) const TABLE: Table = Table::new(
    "[[arm.then]]",
    "A policy that changes while traffic runs",
    &[&AT, &POLICY],
);

/// Reads the changes of an arm in order of time. Also returns how many are written, so that a
/// metric may refer to one with a mistake, which is reported only once.
pub(super) fn changes(table: &mut Reader<'_, '_>, scope: &Scope) -> (Vec<Change>, usize) {
    let tables = table.tables(THEN.name);
    let written = tables.len();
    if tables.len() > MOST_CHANGES {
        let message = format!("an arm changes its policy at most {MOST_CHANGES} times");
        let problems = table.problems();
        problems.error(codes::LIMIT, field::head(table), message, "leave some out");
        return (Vec::new(), written);
    }
    let mut found: Vec<Change> = Vec::new();
    for mut one in tables {
        let Some(change) = change(&mut one, scope.duration()) else {
            continue;
        };
        if let Some(before) = found.last().filter(|before| before.at >= change.at) {
            let message = format!(
                "the change at {} is written after the one at {}",
                change.at, before.at
            );
            let hint = "write changes in order of time, each later than the one before";
            let problems = one.problems();
            problems.error(codes::TIME, field::head(&one), message, hint);
            continue;
        }
        found.push(change);
    }
    (found, written)
}

fn change(table: &mut Reader<'_, '_>, duration: Span) -> Option<Change> {
    let at = AT
        .is_there(table)
        .then(|| table.parsed::<Span>(AT.name))
        .flatten();
    let path = POLICY.get(table);
    let policy = path.and_then(|path| arm::file(table, path));
    let at = at?;
    if at.value == Span::ZERO || (duration > Span::ZERO && at.value >= duration) {
        let message = format!("at {} no traffic runs yet, or none any more", at.value);
        let hint = format!("write a time after 0 and before {duration}, when the last phase ends");
        let problems = table.problems();
        problems.error(codes::TIME, at.span, message, hint);
        return None;
    }
    Some(Change {
        at: at.value,
        policy: policy?,
    })
}
