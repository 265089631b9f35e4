// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Handles of rules, by which one rule is changed or read without the others. A rule keeps its
//! handle as long as it exists (`nf_tables_newrule`, net/netfilter/nf_tables_api.c). So the handles
//! of a generation of nf_tables are valid until a transaction changes the rules.

use super::{NFGENMSG, family, label, message};
use crate::netlink::wire::Attrs;
use nlink::netlink::MessageBuilder;
use nlink::netlink::nftables::{
    NFT_MSG_GETRULE, NFTA_RULE_CHAIN, NFTA_RULE_HANDLE, NFTA_RULE_TABLE,
};
use std::collections::BTreeMap;
use weirgate_state::Table;

/// The handles of each chain's rules in order, by the name that [`key`] gives the chain. Handles of
/// a chain that is missing here are not known.
pub type Handles = BTreeMap<String, Vec<u64>>;

/// Returns the key of a chain in [`Handles`].
pub(crate) fn key(netdev: bool, table: &str, chain: &str) -> String {
    format!("{} {chain}", label(netdev, table))
}

/// Returns the handle in a rule's listing.
pub(crate) fn of(payload: &[u8]) -> Option<u64> {
    number(payload, NFTA_RULE_HANDLE)
}

/// Reads a number of eight bytes from a rule's listing.
pub(super) fn number(payload: &[u8], attribute: u16) -> Option<u64> {
    let bytes = Attrs::after(payload, NFGENMSG).bytes(attribute)?;
    Some(u64::from_be_bytes(bytes.try_into().ok()?))
}

/// Records the handles of a table's rules from their listing, including empty lists for chains
/// without rules.
pub(crate) fn learn(handles: &mut Handles, table: &Table, rules: &[Vec<u8>]) {
    let (netdev, name) = (table.netdev, table.name.as_str());
    for chain in &table.chains {
        handles.insert(key(netdev, name, &chain.name), Vec::new());
    }
    for payload in rules {
        let attrs = Attrs::after(payload, NFGENMSG);
        let own = attrs.text(NFTA_RULE_TABLE).is_some_and(|own| own == name);
        let chain = attrs.text(NFTA_RULE_CHAIN).filter(|_| own);
        if let (Some(chain), Some(handle)) = (chain, of(payload))
            && let Some(list) = handles.get_mut(&key(netdev, name, &chain))
        {
            list.push(handle);
        }
    }
}

/// Copies the known handles of a table's chains.
pub(crate) fn keep(handles: &mut Handles, table: &Table, known: &Handles) {
    for chain in &table.chains {
        let key = key(table.netdev, &table.name, &chain.name);
        if let Some(list) = known.get(&key) {
            handles.insert(key, list.clone());
        }
    }
}

/// Requests the rule with this handle.
pub(crate) fn ask(netdev: bool, table: &str, chain: &str, handle: u64) -> MessageBuilder {
    let mut ask = message(NFT_MSG_GETRULE, 0, family(netdev));
    ask.append_attr_str(NFTA_RULE_TABLE, table);
    ask.append_attr_str(NFTA_RULE_CHAIN, chain);
    ask.append_attr(NFTA_RULE_HANDLE, &handle.to_be_bytes());
    ask
}
