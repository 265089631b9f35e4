// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The features of a kernel that shaping needs.

use crate::Field;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use weirgate_units::Inserted as _;

/// The features of one kernel: found by probing it, or stated for a kernel that is not present.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each answers a question of its own"
)]
pub struct Capabilities {
    /// The kernel's release (`uname -r`); empty if it is not known.
    pub release: String,
    /// The available qdisc kinds by kernel name, among those that weirgate knows: `htb`,
    /// `fq_codel`, `sfq`, `fq`, `pfifo`, `bfifo`, `red`, `cake`.
    pub qdiscs: BTreeSet<String>,
    /// IFB devices can be created.
    pub ifb: bool,
    /// `inet` tables may have a postrouting chain that writes `skb->priority`.
    pub nft_postrouting: bool,
    /// `netdev` tables may have an ingress chain that redirects to another device (`fwd to`), which
    /// shaping of arriving packets on an IFB needs.
    pub nft_ingress_forward: bool,
    /// Arriving packets can get bits of their connection's mark (`act_ctinfo`), which stored
    /// decisions need where packets are shaped on an IFB.
    #[serde(default)]
    pub restore_marks: bool,
    /// `netdev` tables may have an egress chain, which a bridge's ports need.
    #[serde(default)]
    pub nft_egress: bool,
    /// The packet fields that this kernel knows, among those that not every kernel knows, by nft's
    /// names.
    #[serde(default)]
    pub fields: BTreeSet<String>,
    /// The payload classifier can be attached where packets arrive (`cls_bpf`), and this build
    /// contains it.
    #[serde(default)]
    pub payload: bool,
    /// The verifier refused the programs of receive windows when they were to be attached.
    #[serde(default)]
    pub windows_refused: bool,
    /// BPF programs can be qdiscs (`CONFIG_NET_SCH_BPF`, Linux 6.16). This is judged without
    /// loading one: the kernel's type information has the functions that they call.
    #[serde(default)]
    pub kit: bool,
    /// This build contains no BPF programs, because it is for small routers. Then `payload` and
    /// `kit` are false.
    #[serde(default)]
    pub small: bool,
}

impl Capabilities {
    /// Returns the features of a kernel that has everything, such as that of a distribution.
    #[must_use]
    pub fn all() -> Self {
        let kinds = [
            "htb", "fq_codel", "sfq", "fq", "pfifo", "bfifo", "red", "cake",
        ];
        Self {
            release: String::new(),
            qdiscs: kinds.into_iter().map(String::from).inserted(),
            ifb: true,
            nft_postrouting: true,
            nft_ingress_forward: true,
            restore_marks: true,
            nft_egress: true,
            fields: Field::optional().map(field_name).inserted(),
            payload: true,
            windows_refused: false,
            kit: true,
            small: false,
        }
    }

    /// Returns the same for the build for small routers.
    #[must_use]
    pub fn small() -> Self {
        Self {
            payload: false,
            kit: false,
            small: true,
            ..Self::all()
        }
    }

    /// Returns the beginning of a hint: what would permit programs to see packets.
    #[must_use]
    pub fn bring_cls_bpf(&self) -> &'static str {
        self.or_whole("load or build the module cls_bpf")
    }

    /// Returns the beginning of a hint: what would permit programs to be qdiscs.
    #[must_use]
    pub fn bring_program_qdiscs(&self) -> &'static str {
        self.or_whole("use Linux 6.16 or later with CONFIG_NET_SCH_BPF and CONFIG_DEBUG_INFO_BTF")
    }

    /// Returns the advice about the kernel, unless this build is what lacks programs.
    fn or_whole(&self, kernel: &'static str) -> &'static str {
        if self.small {
            "install the whole `weirgate`"
        } else {
            kernel
        }
    }

    /// Returns what lacks programs, for a message: this build, or the kernel of this release.
    #[must_use]
    pub fn lacking_programs<'r>(&self, release: &'r str) -> &'r str {
        if self.small {
            "this program, which is that of small routers,"
        } else {
            release
        }
    }

    /// Returns whether rules can look at a field, in any variant.
    #[must_use]
    pub fn has_field(&self, field: Field) -> bool {
        !field.is_optional() || self.fields.contains(field.name())
    }

    /// Records that rules can look at a field.
    pub fn add_field(&mut self, field: Field) {
        self.fields.insert(field_name(field));
    }

    /// Returns whether a qdisc kind, by kernel name, is available.
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
