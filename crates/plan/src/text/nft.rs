// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tables in the syntax of nft(8), for readers of a plan.

use weirgate_state::{Rule, RuleVerdict, Table};

/// Returns family and name of a table, as nft writes them.
pub(crate) fn table_name(netdev: bool, name: &str) -> String {
    format!("{} {name}", if netdev { "netdev" } else { "inet" })
}

/// Returns a file for `nft -f` that creates the table.
pub(crate) fn table_text(table: &Table) -> String {
    table.canonical().nft_text()
}

/// Returns a file for `nft -f` that turns one table into another.
pub(crate) fn change_text(before: &Table, after: &Table) -> String {
    after.canonical().change_text(before)
}

/// Returns one rule as text; a rule that continues says so.
pub(crate) fn rule_text(table: &Table, rule: &Rule) -> String {
    let text = table.rule_text(rule);
    match rule.verdict {
        RuleVerdict::Continue => format!("{text}; continue"),
        _ => text,
    }
}
