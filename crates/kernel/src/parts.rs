// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What of a state's tables need not be read again, because nobody but this
//! process wrote any table since they were read.

use std::collections::BTreeMap;
use weirgate_plan::{Action, Plan};
use weirgate_state::{Table, TableChange};

/// Tables that are known, by family and name: whole, or but for what a change
/// wrote.
#[derive(Debug, Default)]
pub(crate) struct Parts<'a>(BTreeMap<(bool, &'a str), (&'a Table, Option<TableChange>)>);

impl<'a> Parts<'a> {
    /// What is known after the steps of a plan whose former tables were there.
    pub(crate) fn after(plan: &'a Plan) -> Self {
        let mut parts = Self::default();
        for table in &plan.before.tables {
            parts.whole(table);
        }
        for step in &plan.steps {
            match &step.action {
                Action::ChangeTable { before, after } => {
                    let key = (before.netdev, before.name.as_str());
                    match before.change_to(after) {
                        Some(change) => parts.0.insert(key, (before, Some(change))),
                        None => parts.0.remove(&key),
                    };
                }
                Action::SetTable { table } => {
                    parts.0.remove(&(table.netdev, table.name.as_str()));
                }
                Action::DeleteTable { netdev, name } => {
                    parts.0.remove(&(*netdev, name.as_str()));
                }
                _ => {}
            }
        }
        parts
    }

    /// A table is as it was.
    pub(crate) fn whole(&mut self, table: &'a Table) {
        let key = (table.netdev, table.name.as_str());
        self.0.insert(key, (table, None));
    }

    /// What is known of a table.
    pub(crate) fn of(&self, netdev: bool, name: &str) -> Option<(&'a Table, Option<&TableChange>)> {
        let mut known = self.0.iter();
        let (_, (table, change)) = known.find(|(key, _)| **key == (netdev, name))?;
        Some((table, change.as_ref()))
    }
}

/// How many transactions of nf_tables the steps of a plan take.
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
