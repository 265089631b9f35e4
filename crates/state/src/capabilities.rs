// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a kernel offers, as far as shaping needs it.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// What can be used on one kernel, found by asking it, or stated for a kernel
/// that is not at hand.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each answers a question of its own"
)]
pub struct Capabilities {
    /// The kernel's release (`uname -r`); empty where it is not known.
    pub release: String,
    /// Qdisc kinds by kernel name, of those weirgate knows: `htb`, `fq_codel`,
    /// `sfq`, `fq`, `pfifo`, `bfifo`, `red`, `cake`.
    pub qdiscs: BTreeSet<String>,
    /// IFB devices can be created.
    pub ifb: bool,
    /// `inet` tables with a postrouting chain that writes `skb->priority`.
    pub nft_postrouting: bool,
    /// `netdev` tables with an ingress chain that redirects to another device
    /// (`fwd to`), which shaping of arriving packets on an IFB needs.
    pub nft_ingress_forward: bool,
    /// HookPrograms packets can get bits of their connection's mark (`act_ctinfo`),
    /// which kept decisions need where packets are shaped on an IFB.
    #[serde(default)]
    pub restore_marks: bool,
    /// `netdev` tables with an egress chain, which a bridge's ports need.
    #[serde(default)]
    pub nft_egress: bool,
    /// `inet` tables with an output chain that knows the sender's control group
    /// of version 2 (`CONFIG_NFT_SOCKET`, `CONFIG_SOCK_CGROUP_DATA`).
    #[serde(default)]
    pub control_groups: bool,
    /// The classifier of payloads can be attached where packets arrive
    /// (`cls_bpf`), by a program that has it.
    #[serde(default)]
    pub payload: bool,
    /// Programs can be qdiscs (`CONFIG_NET_SCH_BPF`, Linux 6.16), as far as that
    /// shows without loading one: its type information has what they call.
    #[serde(default)]
    pub kit: bool,
}

impl Capabilities {
    /// A kernel that has everything, such as a distribution's.
    #[must_use]
    pub fn all() -> Self {
        let kinds = [
            "htb", "fq_codel", "sfq", "fq", "pfifo", "bfifo", "red", "cake",
        ];
        Self {
            release: String::new(),
            qdiscs: kinds.into_iter().map(String::from).collect(),
            ifb: true,
            nft_postrouting: true,
            nft_ingress_forward: true,
            restore_marks: true,
            nft_egress: true,
            control_groups: true,
            payload: true,
            kit: true,
        }
    }

    /// Whether a qdisc kind can be used, by kernel name.
    #[must_use]
    pub fn has_qdisc(&self, kind: &str) -> bool {
        self.qdiscs.contains(kind)
    }
}
