// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What packets get where they arrive, before any table sees them.

use crate::Origin;
use serde::{Deserialize, Serialize};

/// A device's place for arriving packets: the `clsact` qdisc (net/sched/
/// sch_ingress.c), and which of its filters are weirgate's.
///
/// The kernel runs them before a `netdev` ingress chain (`sch_handle_ingress`
/// before `nf_ingress`, net/core/dev.c), so what they write into a packet's
/// mark is there for the rules of an IFB. They pass every packet on to the
/// filters of others, so that the place can be shared.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Arriving {
    /// The bits of the connection's mark that are written into the packet's
    /// (`act_ctinfo`, which finds the connection of a packet that conntrack has
    /// not seen, also behind address translation); all other bits of the
    /// packet's mark become 0. A packet without a connection keeps its mark.
    pub restore: Option<u32>,
    /// Whether others have filters there: observed only, never desired. Their
    /// place stays when weirgate's filters go.
    #[serde(default)]
    pub others: bool,
    /// Which policy line wants it.
    pub origin: Origin,
}

impl Arriving {
    /// Whether nothing of weirgate's is there.
    #[must_use]
    pub const fn is_bare(&self) -> bool {
        self.restore.is_none()
    }

    /// Whether two places hold the same of weirgate's; one that does not exist
    /// holds nothing.
    #[must_use]
    pub fn same(one: Option<&Self>, other: Option<&Self>) -> bool {
        one.and_then(|place| place.restore) == other.and_then(|place| place.restore)
    }
}
