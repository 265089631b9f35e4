// SPDX-License-Identifier: Apache-2.0 OR MIT
//! cake's own options (tc-cake(8)) in `iqdisc_opts` and `eqdisc_opts`.

use super::queue::Queue;
use std::collections::BTreeSet;

/// The options of a queue that hold cake's, arriving packets first.
pub(super) const OPTIONS: [&str; 2] = ["iqdisc_opts", "eqdisc_opts"];

/// What cake's keywords for a link layer (tc-cake(8)) mean in a policy.
#[derive(Debug, Clone, Copy)]
pub(super) enum CakeLayer {
    /// A layer with its overhead.
    Named(&'static str),
    /// How bytes travel, beside an overhead.
    Framing(&'static str),
}

/// What a policy can say of cake's options.
#[derive(Debug, Default)]
pub(super) struct CakeOptions {
    nat: bool,
    fair: bool,
    /// `layer` of the link; the last keyword counts, as in cake.
    pub(super) layer: Option<CakeLayer>,
    /// `ack-filter` of the link.
    pub(super) ack_filter: Option<&'static str>,
}

impl CakeOptions {
    /// `queue` of a class, as TOML.
    pub(super) fn queue(&self, kind: &str) -> String {
        if self.nat {
            format!("{{ kind = \"{kind}\", nat = true }}")
        } else {
            format!("\"{kind}\"")
        }
    }

    /// `fair` of a class, as a line of TOML.
    pub(super) fn fair(&self) -> &'static str {
        if self.fair { "fair = \"hosts\"\n" } else { "" }
    }
}

/// Reads the options; what has no counterpart is named in `left_out`.
pub(super) fn options(queue: &Queue, left_out: &mut Vec<String>) -> CakeOptions {
    let mut found = CakeOptions::default();
    let mut fair = BTreeSet::new();
    for option in OPTIONS {
        let Some(set) = queue.options.get(option) else {
            continue;
        };
        let up = option == "eqdisc_opts";
        for word in set.text.split_whitespace() {
            match word {
                "nat" => found.nat = true,
                "nonat" => {}
                "dual-dsthost" if !up => {
                    fair.insert(word);
                }
                "dual-srchost" if up => {
                    fair.insert(word);
                }
                "ack-filter" if up => found.ack_filter = Some("on"),
                "ack-filter-aggressive" if up => found.ack_filter = Some("aggressive"),
                "no-ack-filter" if up => found.ack_filter = Some("off"),
                "atm" => found.layer = Some(CakeLayer::Framing("atm")),
                "ptm" => found.layer = Some(CakeLayer::Framing("ptm")),
                "bridged-ptm" => found.layer = Some(CakeLayer::Named("vdsl2")),
                "pppoe-ptm" => found.layer = Some(CakeLayer::Named("vdsl2:pppoe")),
                _ => left_out.push(format!("line {}: {word} of {}", set.line, set.written)),
            }
        }
    }
    found.fair = !fair.is_empty();
    // A link without a downstream rate has one direction.
    if let (1, Some(word), true) = (
        fair.len(),
        fair.first(),
        queue.options.contains_key("download"),
    ) {
        left_out.push(format!(
            "{word} in one direction: hosts share alike in both here"
        ));
    }
    found
}
