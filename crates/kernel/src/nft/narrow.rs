// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads a table back by only those rules that a change wrote.
//!
//! The kernel echoes each new rule with its handle and that of the rule before it
//! (`nf_tables_rule_notify`, net/netfilter/nf_tables_api.c). So after a change of one rule of
//! hundreds, only that rule is requested, and the deleted ones to see that they are gone. In all
//! other cases the whole table is read.

use super::decode;
use super::edit::{Edit, Edits, around};
use super::encode;
use super::handle::{self, Handles};
use super::rule::{End, sets_used};
use super::{label, read};
use crate::Kernel;
use crate::error::KernelError;
use nlink::netlink::nftables::NFTA_RULE_POSITION;
use std::collections::{BTreeMap, BTreeSet};
use weirgate_state::{Chain, DeviceName, Hook, Table, TableChange};
use weirgate_units::Inserted as _;

/// The most rules that are written and read individually; beyond this, the whole chain is read. The
/// echoes of this many rules fit into any socket buffer; further echoes would be lost.
pub(crate) const ONE_BY_ONE: usize = 16;

/// The result of a transaction in one chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fresh {
    edit: Edit,
    /// The handles of the new rules.
    came: Vec<u64>,
    /// The handles of all rules of the chain now.
    all: Vec<u64>,
}

/// The results of transactions, by the chains' keys in [`Handles`].
pub(crate) type Left = BTreeMap<String, Fresh>;

/// What is known about transactions.
#[derive(Debug, Clone, Default)]
pub(crate) struct Written {
    /// The results in chains that were edited.
    pub(crate) left: Left,
    /// The changes, by family and name of their tables.
    pub(crate) changes: BTreeMap<(bool, String), TableChange>,
}

/// Returns whether a change's edits are few enough to be echoed.
pub(crate) fn is_short(edits: &Edits) -> bool {
    let rules = edits
        .values()
        .map(|edit| edit.come.len().max(edit.gone.len()));
    rules.sum::<usize>() <= ONE_BY_ONE
}

/// Returns the result of a transaction in the chains of these edits, from what was echoed. Chains
/// whose echoes do not fit the edit are omitted.
pub(crate) fn left((netdev, table): (bool, &str), edits: Edits, heard: &[Vec<u8>]) -> Left {
    let mut left = Left::new();
    for (chain, edit) in edits {
        let own = heard
            .iter()
            .filter(|payload| decode::is_of(payload, table, &chain));
        let echoed: Vec<(Option<u64>, Option<u64>)> = own
            .map(|payload| {
                (
                    handle::of(payload),
                    handle::number(payload, NFTA_RULE_POSITION),
                )
            })
            .collect();
        if let Some(fresh) = fresh(edit, &echoed) {
            left.insert(handle::key(netdev, table, &chain), fresh);
        }
    }
    left
}

/// Returns the result for one chain. `echoed` has the handles of rules and of those before them, if
/// the kernel names one.
fn fresh(edit: Edit, echoed: &[(Option<u64>, Option<u64>)]) -> Option<Fresh> {
    if echoed.len() != edit.come.len() {
        return None;
    }
    let mut all = edit.head.clone();
    for (handle, position) in echoed {
        if position.is_some_and(|position| all.last() != Some(&position)) {
            return None;
        }
        all.push((*handle)?);
    }
    all.extend(&edit.tail);
    Some(Fresh {
        came: echoed.iter().filter_map(|(handle, _)| *handle).collect(),
        edit,
        all,
    })
}

/// Returns whether a change concerns only rules, in chains that stay.
fn is_plain(change: &TableChange) -> bool {
    let none = [
        &change.gone_chains,
        &change.gone_switches,
        &change.gone_sets,
        &change.sets,
        &change.chains,
        &change.switches,
    ];
    none.iter().all(|names| names.is_empty())
        && change.switched.is_empty()
        && change.emptied == change.written
}

impl Kernel {
    /// Returns a table that was `before` until this change, by reading what the change wrote.
    /// Returns `None` if the whole table has to be read.
    pub(crate) async fn narrowly(
        &self,
        (before, change): (&Table, &TableChange),
        left: &Left,
        handles: &mut Handles,
        index: impl Fn(&DeviceName) -> Option<u32>,
    ) -> Result<Option<Table>, KernelError> {
        let netdev = before.netdev;
        if !is_plain(change) {
            return Ok(None);
        }
        let has_switch = |chain: &&Chain| matches!(chain.hook, Hook::Switched { .. });
        let switched = before.chains.iter().filter(has_switch);
        let switched: BTreeSet<String> = switched.map(|chain| chain.name.clone()).inserted();
        let constants = sets_used(before.chains.iter().flat_map(|chain| &chain.rules));
        let known = read::Known {
            netdev,
            constants: &constants,
            switched: &switched,
        };
        let mut after = before.clone();
        let mut learnt = Handles::new();
        for chain in &mut after.chains {
            let key = handle::key(netdev, &before.name, &chain.name);
            if !change.written.contains(&chain.name) {
                continue;
            }
            let end = encode::end_of(before, chain, &index).ok();
            let (Some(fresh), Some(end)) = (left.get(&key), end) else {
                return Ok(None);
            };
            if !self.exchange(before, chain, fresh, (known, end)).await? {
                return Ok(None);
            }
            learnt.insert(key, fresh.all.clone());
        }
        handles.extend(learnt);
        Ok(Some(after))
    }

    /// Replaces rules of a chain by what the kernel has now. Returns false if the kernel does not
    /// have what was written.
    async fn exchange(
        &self,
        table: &Table,
        chain: &mut Chain,
        fresh: &Fresh,
        (known, end): (read::Known<'_>, End),
    ) -> Result<bool, KernelError> {
        let what = label(table.netdev, &table.name);
        for gone in &fresh.edit.gone {
            let ask = handle::ask(table.netdev, &table.name, &chain.name, *gone);
            if !self.nft.get(&ask, &what, true).await?.is_empty() {
                return Ok(false);
            }
        }
        let mut came = Vec::new();
        for handle in &fresh.came {
            let ask = handle::ask(table.netdev, &table.name, &chain.name, *handle);
            let found = self.nft.get(&ask, &what, true).await?;
            let path = (table.name.as_str(), chain.name.as_str());
            let rule = found
                .first()
                .and_then(|payload| decode::one(payload, path, known, end));
            let Some(rule) = rule else {
                return Ok(false);
            };
            came.push(rule);
        }
        let (first, _) = around(&chain.hook);
        let head = fresh.edit.head.len() - first;
        let gone = head..head + fresh.edit.gone.len();
        let mut rules = chain.rules.to_vec();
        rules.splice(gone, came);
        chain.rules = rules.into();
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit() -> Edit {
        Edit {
            head: vec![3, 4],
            gone: vec![7],
            come: 2..4,
            tail: vec![9],
        }
    }

    #[test]
    fn echoes_that_do_not_fit_are_not_believed() {
        let right = [(Some(11), Some(4)), (Some(12), Some(11))];
        let after = |echoed: &[_]| fresh(edit(), echoed).map(|fresh| fresh.all);
        assert_eq!(after(&right), Some(vec![3, 4, 11, 12, 9]));
        assert_eq!(after(&right[..1]), None, "one is missing");
        assert_eq!(after(&[right[1], right[0]]), None, "another order");
        assert_eq!(after(&[(None, Some(4)), right[1]]), None, "no number");
        assert_eq!(
            after(&[(Some(11), None), right[1]]),
            Some(vec![3, 4, 11, 12, 9]),
            "the kernel does not always say what stands before"
        );
    }

    #[test]
    fn many_rules_are_read_whole() {
        let of = |rules| Edit {
            come: 0..rules,
            ..edit()
        };
        let edits = |a, b| Edits::from([("a".to_owned(), of(a)), ("b".to_owned(), of(b))]);
        assert!(is_short(&edits(8, 8)));
        assert!(!is_short(&edits(8, 9)));
    }
}
