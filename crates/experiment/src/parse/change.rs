// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The field `then` of an arm: policies applied while traffic runs.

use super::scope::Scope;
use super::{arm, codes, field};
use crate::Change;
use weirgate_document::Reader;
use weirgate_units::Span;

/// The most changes of one arm.
const MOST_CHANGES: usize = 32;

/// The changes of an arm, in order of time, and how many are written: metrics
/// may speak of one with a mistake, which is reported once.
pub(super) fn changes(table: &mut Reader<'_, '_>, scope: &Scope) -> (Vec<Change>, usize) {
    let tables = table.tables("then");
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
    let at = if table.has("at") {
        table.parsed::<Span>("at")
    } else {
        table.missing("at", "say when the policy changes: `at = \"20s\"`")
    };
    let path = if table.has("policy") {
        table.text("policy")
    } else {
        table.missing("policy", "name the policy: `policy = \"policies/x.toml\"`")
    };
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
