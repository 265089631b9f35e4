// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The codes of this crate's problems and their meanings; the reference is generated from them.

use weirgate_policy::Code;

macro_rules! codes {
    ($($name:ident $code:literal $meaning:literal;)*) => {
        $(pub(crate) const $name: &str = $code;)*

        /// Every code of this crate, in order.
        pub const CODES: &[Code] = &[$(Code { code: $code, meaning: $meaning }),*];
    };
}

codes! {
    NO_QDISC "C201" "The kernel lacks a qdisc that the policy needs.";
    NO_IFB "C202" "The kernel has no IFB devices, which `inbound = \"ifb\"` needs.";
    NO_POSTROUTING "C203" "The kernel cannot classify with nftables at postrouting.";
    NO_INGRESS "C204" "The kernel cannot redirect arriving packets with nftables.";
    LAN_UNSTATED "C205" "No inside device is named, so that merged packets may reach the shaper \
                         (warning).";
    TRANSLATED "C206" "A downstream rule tests the inside address or port where only the translated one is seen (warning).";
    RATIO "C207" "Guarantees of one priority are too unequal to be served in turn.";
    UNTRACKED "C208" "A rule tests the connection, but downstream packets are classified before \
                      connection tracking; it works upstream only, or not at all.";
    SLOW_DRAIN "C209" "The downstream margin is so small that a queue at the far end of the line \
                       drains too slowly or never (warning).";
    OBJECTIVE_MISSED "C210" "A class can wait longer than its objective allows (warning).";
    DELAY "C212" "One packet takes longer than the `delay` of a class, and the MSS of TCP cannot \
                  be lowered that far (warning).";
    ENGINE "C213" "The link's `engine` cannot carry the policy, or this kernel lacks it.";
    NO_RESTORE "C214" "The kernel lacks act_ctinfo, so that kept decisions do not reach packets \
                       that are shaped on arrival (warning).";
    ACK_FILTER "C215" "In the tree, `ack-filter` needs cake upstream, but the policy has none \
                       there or the kernel lacks it (warning where the policy leaves it open).";
    PAYLOAD "C216" "A rule examines payloads, but the kernel cannot, or the policy does not \
                    name the inside devices.";
    BRIDGE "C217" "A rule tests what bridged packets do not have, or the kernel cannot classify \
                   packets at a bridge port; or the policy changes packets in a way that is not \
                   possible within PPPoE (warning).";
    POLICED "C218" "A filter at the ingress should police or limit packets, but the kernel \
                    lacks it, or the policy also needs what such a filter cannot do.";
    RECEIVE "C219" "`[receive]` needs acknowledgements to be held back, which is not possible \
                    here, or has too many classes; or its rate is above the line's (warning).";
    CONDITIONER "C221" "The kernel cannot run conditioners, or one has too many classes; or no \
                        full packet can conform to a conditioner (warning).";
    NO_FIELD "C222" "A rule has a condition that this kernel cannot test.";
    OTHER_QUEUE "C223" "The kernel lacks fq_codel, so that classes without a `queue` get another \
                        (warning).";
    OWN_TRAFFIC "C224" "A rule keeps its decision for replies to the router's own packets, which \
                        are not shaped with `inbound = \"lan\"` (warning).";
    INSIDE "C225" "Connections should store their inside host, but the bits of `[marks]` have no \
                   room for it, or the kernel does not copy marks.";
    ORDER "C226" "Connections should change class in order, but the kernel cannot do this, or \
                  not where the policy shapes them (warning).";
    AUTOMATIC "C227" "The kernel or the policy rules out a part of `inbound = \"auto\"`; the \
                      rest is used (note).";
    L4S "C228" "`l4s` needs what the engine or a class's queue lacks (error), or runs on another \
                engine than the kit's (note).";
    MERGED "C229" "Merged packets are shaped whole, so that no bound holds beside them (warning).";
}

#[cfg(test)]
mod tests {
    use super::CODES;

    #[test]
    fn codes_are_distinct_ordered_and_explained() {
        for pair in CODES.windows(2) {
            assert!(pair[0].code < pair[1].code, "{pair:?}");
        }
        for code in CODES {
            assert!(
                code.code.len() == 4 && code.code.starts_with("C2"),
                "{code:?}"
            );
            assert!(code.meaning.ends_with('.'), "{code:?}");
        }
    }
}
