// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether classification tables are as they were, without reading them.
//!
//! nf_tables counts its transactions (`NFT_MSG_GETGEN`; `nf_tables_commit`,
//! net/netfilter/nf_tables_api.c): whoever changes a rule, a set or a chain by
//! a request raises the number. What changes without one is the place of a
//! chain at a device that goes (`nf_tables_netdev_event`), so the heads of the
//! tables' chains and the numbers of the devices are held against the earlier
//! ones as well. Elements that packets add to meters raise nothing, and are no
//! part of a [`State`](weirgate_state::State).

use crate::Kernel;
use crate::error::KernelError;
use crate::netlink::wire::Attrs;
use crate::nft::{self, NFGENMSG, family};
use crate::observe::Scope;
use nlink::netlink::nftables::{NFT_MSG_GETCHAIN, NFT_MSG_GETGEN, NFTA_CHAIN_TABLE, NFTA_GEN_ID};
use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use weirgate_units::Inserted as _;

/// What tells that the tables of a scope are as they were: equal versions of one
/// scope, namespace and run of the kernel stand for equal tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TablesVersion {
    /// How many transactions nf_tables made in the namespace.
    pub generation: u32,
    /// A digest of where the tables' chains hang.
    pub heads: u64,
}

impl Kernel {
    /// How many transactions nf_tables made in the namespace, counted round
    /// after 2^32.
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

    /// The version of a scope's tables: a few requests, however large they are.
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
                    // The header holds the generation, which is known already.
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
