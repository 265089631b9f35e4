// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kernel's numbers of rules, by which one is changed or read without the
//! others. A rule keeps its number as long as it exists (`nf_tables_newrule`,
//! net/netfilter/nf_tables_api.c), so the numbers of a generation of nf_tables
//! are good until a transaction that writes them.

use super::{NFGENMSG, family, label, message};
use crate::netlink::wire::Attrs;
use nlink::netlink::MessageBuilder;
use nlink::netlink::nftables::{
    NFT_MSG_GETRULE, NFTA_RULE_CHAIN, NFTA_RULE_HANDLE, NFTA_RULE_TABLE,
};
use std::collections::BTreeMap;
use weirgate_state::Table;

/// The numbers of a chain's rules in their order, by the name that
/// [`key`] gives the chain. One that is not here is not known.
pub type Handles = BTreeMap<String, Vec<u64>>;

/// What a chain is called among [`Handles`].
pub(crate) fn key(netdev: bool, table: &str, chain: &str) -> String {
    format!("{} {chain}", label(netdev, table))
}

/// The number in a rule's listing.
pub(crate) fn of(payload: &[u8]) -> Option<u64> {
    number(payload, NFTA_RULE_HANDLE)
}

/// A number of eight bytes in a rule's listing.
pub(super) fn number(payload: &[u8], attribute: u16) -> Option<u64> {
    let bytes = Attrs::after(payload, NFGENMSG).bytes(attribute)?;
    Some(u64::from_be_bytes(bytes.try_into().ok()?))
}

/// Learns the numbers of a table's rules from their listing; of its chains
/// without rules, that they have none.
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

/// Those of a table's chains, of what is known.
pub(crate) fn keep(handles: &mut Handles, table: &Table, known: &Handles) {
    for chain in &table.chains {
        let key = key(table.netdev, &table.name, &chain.name);
        if let Some(list) = known.get(&key) {
            handles.insert(key, list.clone());
        }
    }
}

/// Asks for a rule of this number.
pub(crate) fn ask(netdev: bool, table: &str, chain: &str, handle: u64) -> MessageBuilder {
    let mut ask = message(NFT_MSG_GETRULE, 0, family(netdev));
    ask.append_attr_str(NFTA_RULE_TABLE, table);
    ask.append_attr_str(NFTA_RULE_CHAIN, chain);
    ask.append_attr(NFTA_RULE_HANDLE, &handle.to_be_bytes());
    ask
}
