// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Decides which tables of a state need not be read again, because no other process has written
//! tables since.

use crate::nft::handle::Handles;
use crate::nft::narrow::{Left, Written};
use std::borrow::Cow;
use std::collections::BTreeMap;
use weirgate_plan::{Action, Plan};
use weirgate_state::{Table, TableChange};

/// Known tables by family and name: either completely known, or except for what a change wrote.
#[derive(Debug, Default)]
pub(crate) struct Parts<'a> {
    tables: BTreeMap<(bool, &'a str), (&'a Table, Option<TableChange>)>,
    /// The handles of rules before the change.
    pub(crate) handles: Cow<'a, Handles>,
    /// What is known about the rules that were written.
    pub(crate) left: Left,
}

impl<'a> Parts<'a> {
    /// Returns what is known after the steps of a plan, if its former tables were in force before.
    pub(crate) fn after(plan: &'a Plan, handles: &'a Handles, written: Written) -> Self {
        let Written { left, mut changes } = written;
        let mut parts = Self {
            left,
            ..Self::default()
        };
        parts.of_tables(&plan.before.tables, handles);
        for step in &plan.steps {
            match &step.action {
                Action::ChangeTable { before, after } => {
                    let key = (before.netdev, before.name.as_str());
                    let made = changes.remove(&(before.netdev, before.name.clone()));
                    match made.or_else(|| before.change_to(after)) {
                        Some(change) => parts.tables.insert(key, (before, Some(change))),
                        None => parts.tables.remove(&key),
                    };
                }
                Action::SetTable { table } => {
                    parts.tables.remove(&(table.netdev, table.name.as_str()));
                }
                Action::DeleteTable { netdev, name } => {
                    parts.tables.remove(&(*netdev, name.as_str()));
                }
                _ => {}
            }
        }
        parts
    }

    /// Adds tables that are unchanged, with these handles of their rules.
    pub(crate) fn of_tables(&mut self, tables: &'a [Table], handles: &'a Handles) {
        for table in tables {
            let key = (table.netdev, table.name.as_str());
            self.tables.insert(key, (table, None));
        }
        self.handles = Cow::Borrowed(handles);
    }

    /// Returns what is known about a table.
    pub(crate) fn of(&self, netdev: bool, name: &str) -> Option<(&'a Table, Option<&TableChange>)> {
        let mut known = self.tables.iter();
        let (_, (table, change)) = known.find(|(key, _)| **key == (netdev, name))?;
        Some((table, change.as_ref()))
    }
}

/// Returns the number of nf_tables transactions in the steps of a plan.
pub(crate) fn transactions(plan: &Plan) -> u32 {
    let writes = |action: &Action| {
        matches!(
            action,
            Action::ChangeTable { .. } | Action::SetTable { .. } | Action::DeleteTable { .. }
        )
    };
    let steps = plan.steps.iter().filter(|step| writes(&step.action));
    u32::try_from(steps.count()).unwrap_or(u32::MAX)
}
