// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The texts of steps, as `plan` and `apply` print them: one line each.

use crate::action::{Action, QdiscParent, Step};
use crate::diff::hooks;
use crate::model::{kit, rows};
use crate::text::nft::table_name;
use std::collections::BTreeSet;
use std::fmt;
use weirgate_state::{QdiscKind, Rule, Table};
use weirgate_units::Inserted as _;

fn on(flag: bool) -> &'static str {
    if flag { "on" } else { "off" }
}

impl fmt::Display for Action {
    /// Writes one line of plain English.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DeleteTable { netdev, name } => {
                write!(f, "remove table {}", table_name(*netdev, name))
            }
            Self::CreateIfb { device } => write!(f, "create IFB device {device}"),
            Self::SetOffloads { device, offloads } => {
                let (tso, gso) = (on(offloads.tso), on(offloads.gso));
                let gro = on(offloads.gro);
                write!(f, "{device}: switch tso {tso}, gso {gso}, gro {gro}")?;
                match offloads.segments {
                    None => Ok(()),
                    Some(most) => write!(f, ", gso_max_segs {most}"),
                }
            }
            Self::AddQdisc {
                device,
                parent,
                qdisc,
            } => write!(
                f,
                "{device}: add {} {} at {parent}",
                qdisc.kind.name(),
                qdisc.handle
            ),
            Self::ReplaceQdisc {
                device,
                parent,
                qdisc,
            } => {
                let what = match parent {
                    QdiscParent::Root => String::from("the root"),
                    QdiscParent::Class(id) => format!("the queue of class {id}"),
                };
                let (kind, handle) = (qdisc.kind.name(), qdisc.handle);
                write!(f, "{device}: replace {what} by {kind} {handle}")
            }
            Self::ChangeQdisc {
                device,
                parent,
                qdisc,
            } => write!(
                f,
                "{device}: change {} {} at {parent}",
                qdisc.kind.name(),
                qdisc.handle
            ),
            Self::ChangeStab {
                device,
                handle,
                stab,
            } => write!(
                f,
                "{device}: {} the size table of {handle}",
                if stab.is_some() { "replace" } else { "remove" }
            ),
            Self::DeleteQdisc {
                device,
                parent,
                handle,
            } => write!(f, "{device}: delete qdisc {handle} at {parent}"),
            Self::AddClass { device, class } => write!(
                f,
                "{device}: add class {} below {} with rate {}, ceil {}, prio {}",
                class.id, class.parent, class.rate, class.ceil, class.prio
            ),
            Self::ChangeClass { device, class } => write!(
                f,
                "{device}: change class {} to rate {}, ceil {}, prio {}",
                class.id, class.rate, class.ceil, class.prio
            ),
            Self::DeleteClass { device, id } => write!(f, "{device}: delete class {id}"),
            Self::SetTable { table } => {
                let rules: usize = table.chains.iter().map(|chain| chain.rules.len()).sum();
                write!(
                    f,
                    "set table {}: {rules} rule{}",
                    table_name(table.netdev, &table.name),
                    if rules == 1 { "" } else { "s" }
                )
            }
            Self::ChangeTable { before, after } => describe_change(f, before, after),
            Self::ForgetDecisions { values, .. } => write!(
                f,
                "connections: forget {} kept decision{} whose rule changed",
                values.len(),
                if values.len() == 1 { "" } else { "s" }
            ),
            Self::SetHooks { device, after, .. } => hooks::describe(f, device, after.as_ref()),
            Self::DeleteIfb { device } => write!(f, "remove IFB device {device}"),
        }
    }
}

impl fmt::Display for Step {
    /// Writes the action, and the policy line behind it if known. The configuration of the kit's
    /// shaper or of the engine of rows follows.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.action)?;
        if self.origin.line != 0 || !self.origin.reason.is_empty() {
            write!(f, "  # {}", self.origin)?;
        }
        // Their classes have no steps of their own.
        match &self.action {
            Action::AddQdisc { qdisc, .. }
            | Action::ReplaceQdisc { qdisc, .. }
            | Action::ChangeQdisc { qdisc, .. } => match &qdisc.kind {
                QdiscKind::Kit(kit) => write!(f, "\n    {}", kit::listed(kit)),
                QdiscKind::Rows(rows) => write!(f, "\n    {}", rows::listed(rows)),
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }
}

/// Writes what a change does, in one line.
fn describe_change(f: &mut fmt::Formatter<'_>, before: &Table, after: &Table) -> fmt::Result {
    let change = before.change_to(after).unwrap_or_else(|| after.made());
    let mut parts: Vec<String> = Vec::new();
    let (mut come, mut go) = (0, 0);
    for name in change.written.union(&change.emptied) {
        let (old, new) = (rules(before, name), rules(after, name));
        come += only_in(new, old);
        go += only_in(old, new);
    }
    if come + go > 0 {
        let comes = if come == 1 {
            "rule added"
        } else {
            "rules added"
        };
        parts.push(format!("{come} {comes}, {go} removed"));
    }
    if !change.sets.is_empty() {
        parts.push(format!(
            "{} lists or meters created again",
            change.sets.len()
        ));
    }
    for (chain, on) in &change.switched {
        parts.push(format!(
            "{chain} switched {}",
            if *on { "on" } else { "off" }
        ));
    }
    if parts.is_empty() {
        parts.push(String::from("the order of rules, or names"));
    }
    let name = table_name(after.netdev, &after.name);
    write!(f, "change table {name}: {}", parts.join(", "))
}

/// Returns the rules of a chain; none if it does not exist.
fn rules<'a>(table: &'a Table, chain: &str) -> &'a [Rule] {
    let chain = table.chain(chain);
    chain.map_or(&[], |chain| chain.rules.as_slice())
}

/// Counts the different rules that are only in the first of two lists. Common rules at the
/// beginning and at the end are skipped.
fn only_in(list: &[Rule], other: &[Rule]) -> usize {
    let same = |(a, b): &(&Rule, &Rule)| a == b;
    let head = list.iter().zip(other).take_while(same).count();
    let (list, rest) = (&list[head..], &other[head..]);
    let backwards = list.iter().rev().zip(rest.iter().rev());
    let tail = backwards.take_while(same).count();
    let middle: BTreeSet<&Rule> = list[..list.len() - tail].iter().inserted();
    if middle.is_empty() {
        return 0;
    }
    let other: BTreeSet<&Rule> = other.iter().inserted();
    middle.difference(&other).count()
}
