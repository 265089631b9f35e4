// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds which rules of a chain have to be replaced: those between the unchanged ones at its
//! beginning and at its end. The kernel finds rules by handles (`nf_tables_newrule`,
//! net/netfilter/nf_tables_api.c). So one rule of hundreds can be changed without sending the
//! others again.

use super::handle::{self, Handles};
use super::{family, label, message};
use crate::error::KernelError;
use crate::netlink::channel::Channel;
use nlink::netlink::nftables::{NFT_MSG_GETRULE, NFTA_RULE_CHAIN, NFTA_RULE_TABLE};
use std::collections::BTreeMap;
use std::ops::Range;
use weirgate_state::{Chain, Hook, Rule, Table, TableChange};

/// The difference between two versions of a chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Edit {
    /// The handles of the unchanged rules before it.
    pub(crate) head: Vec<u64>,
    /// The handles of the rules to delete.
    pub(crate) gone: Vec<u64>,
    /// The new rules to insert, as a range of the new chain.
    pub(crate) come: Range<usize>,
    /// The handles of the unchanged rules after it.
    pub(crate) tail: Vec<u64>,
}

/// The edits of a table's chains, by name. A chain without an edit is flushed and rewritten.
pub(crate) type Edits = BTreeMap<String, Edit>;

/// Returns how many rules the kernel has in a chain before and after the chain's own. See
/// `chain_rules` in `encode`.
pub(super) const fn around(hook: &Hook) -> (usize, usize) {
    match hook {
        Hook::Postrouting { .. } => (1, 0),
        Hook::Ingress { .. } => (0, 1),
        Hook::Egress { .. }
        | Hook::Prerouting
        | Hook::Output
        | Hook::Called
        | Hook::Switched { .. }
        | Hook::Other(_) => (0, 0),
    }
}

impl Edit {
    /// Returns the edit from `old` to `new`; `None` if no rule stays, or the handles do not belong
    /// to `old`.
    fn of(old: &Chain, new: &Chain, handles: &[u64], change: &TableChange) -> Option<Self> {
        let (first, last) = around(&old.hook);
        if old.hook != new.hook || handles.len() != first + old.rules.len() + last {
            return None;
        }
        let stays = |(a, b): &(&Rule, &Rule)| a == b && !change.rebinds(a);
        let pairs = || old.rules.iter().zip(&new.rules);
        let head = pairs().take_while(stays).count();
        let backwards = old.rules.iter().rev().zip(new.rules.iter().rev());
        let most = old.rules.len().min(new.rules.len()) - head;
        let tail = backwards.take(most).take_while(stays).count();
        if head + tail == 0 {
            return None;
        }
        let end = first + old.rules.len() - tail;
        Some(Self {
            head: handles[..first + head].to_vec(),
            gone: handles[first + head..end].to_vec(),
            come: head..new.rules.len() - tail,
            tail: handles[end..].to_vec(),
        })
    }

    /// Returns the handle of the rule before which the new ones are inserted; `None` at the end.
    pub(crate) fn before(&self) -> Option<u64> {
        self.tail.first().copied()
    }
}

/// Returns the edits from `before`, which is in force, to `after`. Handles that are not known are
/// requested through `nft`.
pub(crate) async fn edits(
    nft: &Channel,
    before: &Table,
    after: &Table,
    change: &TableChange,
    known: &Handles,
) -> Result<Edits, KernelError> {
    let mut edits = Edits::new();
    for name in change.emptied.intersection(&change.written) {
        if let (Some(old), Some(new)) = (before.chain(name), after.chain(name)) {
            let edit = match known.get(&handle::key(before.netdev, &before.name, name)) {
                Some(handles) => Edit::of(old, new, handles, change),
                None => Edit::of(old, new, &handles(nft, before, name).await?, change),
            };
            edits.extend(edit.map(|edit| (name.clone(), edit)));
        }
    }
    Ok(edits)
}

/// Requests the handles of a chain's rules, in order.
async fn handles(nft: &Channel, table: &Table, chain: &str) -> Result<Vec<u64>, KernelError> {
    let mut ask = message(NFT_MSG_GETRULE, 0, family(table.netdev));
    ask.append_attr_str(NFTA_RULE_TABLE, &table.name);
    ask.append_attr_str(NFTA_RULE_CHAIN, chain);
    let what = label(table.netdev, &table.name);
    let found = nft.get(&ask, &what, false).await?;
    let handle = |payload: &Vec<u8>| handle::of(payload);
    Ok(found.iter().filter_map(handle).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use weirgate_state::{DeviceName, Field, Match, Origin};
    use weirgate_units::Handle;

    fn chain(ports: &[u128]) -> Chain {
        let rule = |port: &u128| {
            let port = Match::one(Field::SourcePort, *port);
            Rule::classify(vec![port], Handle::new(1, 0x10), Origin::default())
        };
        Chain {
            name: String::from("up"),
            hook: Hook::Postrouting {
                device: DeviceName::new("wan").expect("a name"),
            },
            rules: ports.iter().map(rule).collect(),
        }
    }

    /// Applies an edit to a list of handles, as the kernel does.
    fn edited(handles: &[u64], edit: &Edit) -> Vec<u64> {
        let mut left: Vec<u64> = handles.to_vec();
        left.retain(|handle| !edit.gone.contains(handle));
        for new in edit.come.clone() {
            let at = edit
                .before()
                .and_then(|before| left.iter().position(|handle| *handle == before));
            left.insert(at.unwrap_or(left.len()), 1_000 + new as u64);
        }
        left
    }

    #[test]
    fn only_what_differs_is_replaced() {
        let old = chain(&[1, 2, 3, 4]);
        let handles = [9, 11, 12, 13, 14];
        let change = TableChange::default();
        for (ports, gone, left) in [
            (&[1, 2, 5, 4][..], &[13][..], &[9, 11, 12, 1_002, 14][..]),
            (&[1, 2, 4], &[13], &[9, 11, 12, 14]),
            (&[1, 2, 3, 4, 5, 6], &[], &[9, 11, 12, 13, 14, 1_004, 1_005]),
            (&[7, 8, 1, 2, 3, 4], &[], &[9, 1_000, 1_001, 11, 12, 13, 14]),
            (&[1, 1, 2, 3, 4], &[], &[9, 11, 1_001, 12, 13, 14]),
            (&[1], &[12, 13, 14], &[9, 11]),
        ] {
            let edit = Edit::of(&old, &chain(ports), &handles, &change).expect("an edit");
            assert_eq!(edit.gone, gone, "{ports:?}");
            assert_eq!(edited(&handles, &edit), left, "{ports:?}");
        }
        assert_eq!(Edit::of(&old, &chain(&[5]), &handles, &change), None);
        assert_eq!(Edit::of(&old, &chain(&[1]), &handles[1..], &change), None);
    }
}
