// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Detects whether classification tables are unchanged, without reading them.
//!
//! nf_tables counts its transactions (`NFT_MSG_GETGEN`; `nf_tables_commit`,
//! net/netfilter/nf_tables_api.c): every request that changes a rule, a set or a chain increments
//! that number. One change happens without a request: a chain loses its device when the device
//! disappears (`nf_tables_netdev_event`). So the heads of the tables' chains and the indexes of the
//! devices are compared too. Elements that packets add to meters do not change the number, and are
//! not part of a [`State`](weirgate_state::State).

use crate::Kernel;
use crate::error::KernelError;
use crate::netlink::wire::Attrs;
use crate::nft::{self, NFGENMSG, family};
use crate::observe::Scope;
use nlink::netlink::nftables::{NFT_MSG_GETCHAIN, NFT_MSG_GETGEN, NFTA_CHAIN_TABLE, NFTA_GEN_ID};
use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use weirgate_units::Inserted as _;

/// The version of the tables in a scope: equal versions of one scope, namespace and boot mean equal
/// tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TablesVersion {
    /// The number of nf_tables transactions in the namespace.
    pub generation: u32,
    /// A digest of the hooks and devices of the tables' chains.
    pub heads: u64,
}

impl Kernel {
    /// Returns the number of nf_tables transactions in the namespace, modulo 2^32.
    pub(crate) async fn generation(&self) -> Result<u32, KernelError> {
        let ask = nft::message(NFT_MSG_GETGEN, 0, 0);
        let what = "the generation of nf_tables";
        let found = self.nft.get(&ask, what, true).await?;
        found
            .iter()
            .find_map(|payload| Attrs::after(payload, NFGENMSG).u32_be(NFTA_GEN_ID))
            .ok_or_else(|| KernelError::Malformed {
                what: what.to_owned(),
            })
    }

    /// Returns the version of a scope's tables, by a few requests, however large the tables are.
    pub async fn tables_version(&self, scope: &Scope) -> Result<TablesVersion, KernelError> {
        let generation = self.generation().await?;
        let mut heads = DefaultHasher::new();
        for link in self.links().await? {
            if link.owned_ifb || scope.devices.contains(&link.name) {
                (link.index, link.name.as_str()).hash(&mut heads);
            }
        }
        let families: BTreeSet<bool> = scope.tables.iter().map(|(netdev, _)| *netdev).inserted();
        for netdev in families {
            let ask = nft::message(NFT_MSG_GETCHAIN, 0, family(netdev));
            for payload in self.nft.get(&ask, "listing chains", false).await? {
                let table = Attrs::after(&payload, NFGENMSG).text(NFTA_CHAIN_TABLE);
                if table.is_some_and(|table| scope.tables.contains(&(netdev, table))) {
                    // The header has the generation, which is known already.
                    payload.get(NFGENMSG..).hash(&mut heads);
                }
            }
        }
        Ok(TablesVersion {
            generation,
            heads: heads.finish(),
        })
    }
}
