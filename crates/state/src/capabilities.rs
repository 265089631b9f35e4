// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a kernel offers, as far as shaping needs it.

use crate::Field;
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
    /// Fields of packets that not every kernel knows, of those that this one
    /// does, by nft's names.
    #[serde(default)]
    pub fields: BTreeSet<String>,
    /// The classifier of payloads can be attached where packets arrive
    /// (`cls_bpf`), by a program that has it.
    #[serde(default)]
    pub payload: bool,
    /// The kernel did not take the programs of receive windows when they were to be attached:
    /// its verifier refused them.
    #[serde(default)]
    pub windows_refused: bool,
    /// Programs can be qdiscs (`CONFIG_NET_SCH_BPF`, Linux 6.16), as far as that
    /// shows without loading one: its type information has what they call.
    #[serde(default)]
    pub kit: bool,
    /// It is this program that has no programs for the kernel: it was built for small
    /// routers. Then there is neither `payload` nor `kit`.
    #[serde(default)]
    pub small: bool,
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
            fields: Field::optional().map(field_name).collect(),
            payload: true,
            windows_refused: false,
            kit: true,
            small: false,
        }
    }

    /// The same kernel, for the program of small routers.
    #[must_use]
    pub fn small() -> Self {
        Self {
            payload: false,
            kit: false,
            small: true,
            ..Self::all()
        }
    }

    /// What would let programs look at packets, as the begin of a hint.
    #[must_use]
    pub fn bring_cls_bpf(&self) -> &'static str {
        self.or_whole("load or build the module cls_bpf")
    }

    /// What would let programs be qdiscs, as the begin of a hint.
    #[must_use]
    pub fn bring_program_qdiscs(&self) -> &'static str {
        self.or_whole("use Linux 6.16 or later with CONFIG_NET_SCH_BPF and CONFIG_DEBUG_INFO_BTF")
    }

    /// What is right of a kernel, unless it is this program that lacks programs.
    fn or_whole(&self, kernel: &'static str) -> &'static str {
        if self.small {
            "install the whole `weirgate`"
        } else {
            kernel
        }
    }

    /// What it is that lacks programs, to be named in a message: this program, or the kernel
    /// of this release.
    #[must_use]
    pub fn lacking_programs<'r>(&self, release: &'r str) -> &'r str {
        if self.small {
            "this program, which is that of small routers,"
        } else {
            release
        }
    }

    /// Whether rules can look at a field, in whatever variant.
    #[must_use]
    pub fn has_field(&self, field: Field) -> bool {
        !field.is_optional() || self.fields.contains(field.name())
    }

    /// Notes that rules can look at a field.
    pub fn add_field(&mut self, field: Field) {
        self.fields.insert(field_name(field));
    }

    /// Whether a qdisc kind can be used, by kernel name.
    #[must_use]
    pub fn has_qdisc(&self, kind: &str) -> bool {
        self.qdiscs.contains(kind)
    }
}

fn field_name(field: Field) -> String {
    field.name().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_earlier_version_stored_is_read_without_fields() {
        let all = Capabilities::all();
        let mut stored = serde_json::to_value(&all).unwrap();
        let object = stored.as_object_mut().unwrap();
        object.remove("fields");
        object.insert("of_an_earlier_version".to_owned(), true.into());
        let mut read: Capabilities = serde_json::from_value(stored).unwrap();
        assert!(Field::optional().count() > 0);
        for field in Field::optional() {
            assert!(all.has_field(field), "{field:?}");
            assert!(!read.has_field(field), "{field:?}");
            read.add_field(field);
        }
        assert_eq!(read, all);
        assert!(read.has_field(Field::User));
    }
}
