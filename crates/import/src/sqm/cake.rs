// SPDX-License-Identifier: Apache-2.0 OR MIT
//! cake's own options (tc-cake(8)) in `iqdisc_opts` and `eqdisc_opts`.

use super::queue::Queue;
use std::collections::BTreeSet;

/// The options of a queue that contain cake's, for arriving packets first.
pub(super) const OPTIONS: [&str; 2] = ["iqdisc_opts", "eqdisc_opts"];

/// The meaning of cake's keywords for a link layer (tc-cake(8)) in a policy.
#[derive(Debug, Clone, Copy)]
pub(super) enum CakeLayer {
    /// A layer with its overhead.
    Named(&'static str),
    /// The framing, without an overhead.
    Framing(&'static str),
}

/// The options of cake that a policy can express.
#[derive(Debug, Default)]
pub(super) struct CakeOptions {
    nat: bool,
    fair: bool,
    /// The link's `layer`; the last keyword counts, as in cake.
    pub(super) layer: Option<CakeLayer>,
    /// The link's `ack-filter`.
    pub(super) ack_filter: Option<&'static str>,
}

impl CakeOptions {
    /// Returns the `queue` of a class, as TOML.
    pub(super) fn queue(&self, kind: &str) -> String {
        if self.nat {
            format!("{{ kind = \"{kind}\", nat = true }}")
        } else {
            format!("\"{kind}\"")
        }
    }

    /// Returns the `fair` field of a class, as a line of TOML.
    pub(super) fn fair(&self) -> &'static str {
        if self.fair { "fair = \"hosts\"\n" } else { "" }
    }
}

/// Reads the options; those without a counterpart are added to `left_out`.
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
    // A link without a downstream rate has only one direction.
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
