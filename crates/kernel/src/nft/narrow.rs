// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reading a table back by the rules that a change wrote.
//!
//! The kernel echoes each rule that it makes with its number and that of the
//! rule before it (`nf_tables_rule_notify`, net/netfilter/nf_tables_api.c). So a
//! change of one rule of hundreds is read back by asking for that rule, and for
//! those that are to be gone. Whatever is not as plain as that is read whole.

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

/// Rules that are written and read one by one; where there are more, the chain
/// is read whole. The echoes of so many fit any socket's buffer, and what does
/// not fit is lost.
pub(crate) const ONE_BY_ONE: usize = 16;

/// What a transaction left in one chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fresh {
    edit: Edit,
    /// The numbers of the rules that came.
    came: Vec<u64>,
    /// The numbers of all rules of the chain now.
    all: Vec<u64>,
}

/// What transactions left, by the chains' keys among [`Handles`].
pub(crate) type Left = BTreeMap<String, Fresh>;

/// What is known of transactions.
#[derive(Debug, Clone, Default)]
pub(crate) struct Written {
    /// What they left in chains that were edited.
    pub(crate) left: Left,
    /// The changes, by their tables' family and name.
    pub(crate) changes: BTreeMap<(bool, String), TableChange>,
}

/// Whether a change's edits are few enough to be echoed.
pub(crate) fn is_short(edits: &Edits) -> bool {
    let rules = edits
        .values()
        .map(|edit| edit.come.len().max(edit.gone.len()));
    rules.sum::<usize>() <= ONE_BY_ONE
}

/// What a transaction left in the chains of these edits, by what was echoed;
/// nothing where that does not fit.
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

/// `echoed` are the numbers of rules and of those before them, where the
/// kernel names one.
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

/// Whether a change is one of rules alone, in chains that stay.
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
    /// A table that was `before` until this change, by what the change wrote;
    /// `None` where the table has to be read whole.
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

    /// Puts what the kernel has now into a chain; false where it has not what
    /// was written.
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
