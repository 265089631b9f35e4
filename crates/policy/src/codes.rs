// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The problem codes of this crate and their meanings. The reference is generated from them.

/// A code with its meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code {
    /// The code, a letter and three digits. It never changes its meaning.
    pub code: &'static str,
    /// Its meaning in one sentence.
    pub meaning: &'static str,
}

macro_rules! codes {
    ($($name:ident $code:literal $meaning:literal;)*) => {
        $(pub(crate) const $name: &str = $code;)*

        /// Every code of this crate, in order.
        pub const CODES: &[Code] = &[$(Code { code: $code, meaning: $meaning }),*];
    };
}

codes! {
    VERSION "P101" "This program does not read the policy's version.";
    DEVICE "P102" "Linux refuses a device name, or one device has two roles.";
    ZERO_RATE "P103" "A rate is 0.";
    MARGIN "P104" "A margin leaves less than 8 kbit/s of the line.";
    LAYER "P105" "The link layer is not known.";
    LAYER_NUMBERS "P106" "A number in `layer` is out of range or contradicts another.";
    WORD "P107" "A word is not one that the field accepts.";
    INBOUND "P108" "`inbound` lacks a setting that its kind needs, or is set without a \
                    downstream rate.";
    KIND_UNSTATED "P109" "A device's name suggests a kind that the policy does not state (warning).";
    CLASS_NAME "P110" "A class name is not usable.";
    DUPLICATE_CLASS "P111" "Two classes of one direction have the same name.";
    TOO_MANY "P112" "There are too many classes, rules or elements of lists.";
    NO_DEFAULT "P113" "A direction has no default class, or no class at all.";
    TWO_DEFAULTS "P114" "A direction has more than one default class.";
    SHARE_ZERO "P115" "A class is guaranteed nothing, or less than 1 kbit/s.";
    SHARES_OVER "P116" "Guarantees sum to more than there is.";
    CEILING "P117" "A ceiling is below the class's guarantee, above the link, or 0.";
    GUARANTEE "P118" "A class states both a share and a rate, or neither.";
    UNSHAPED "P119" "A class or rule is for a direction that the policy does not shape; or code points \
                    are to be cleared in such a direction (warning).";
    QUEUE "P120" "A queue is malformed.";
    QUEUE_LIMIT "P121" "A queue's limit is 0 or holds less than one full packet.";
    QUEUE_SETTINGS "P122" "Settings of a queue contradict each other or are out of range.";
    BURST "P123" "A burst is longer than 10 s at the class's guaranteed rate.";
    ACK_RATE "P130" "The reservation for ACKs cannot be computed or does not fit the link.";
    ACK_CLASS "P131" "A class is named `ack` beside the one that `[ack]` creates.";
    UNKNOWN_CLASS "P140" "A rule names a class that does not exist.";
    ADDRESS "P142" "A text is not an address or prefix.";
    HOST_BITS "P143" "A prefix has bits set beyond its length.";
    PORT "P144" "A text is not a port or range of ports.";
    LENGTH "P145" "A text is not a packet length or range of lengths.";
    TCP_FLAGS "P146" "TCP flags cannot be read, or can never match.";
    PROTOCOL "P147" "No protocol has this name.";
    CONTRADICTION "P148" "Conditions of one rule exclude each other; it never matches.";
    NO_CONDITION "P149" "A rule has no condition, so that no later rule is ever reached.";
    NEVER_REACHED "P150" "An earlier rule takes every packet of this one (warning).";
    ONE_VERSION "P151" "A rule matches ICMP of one IP version only (warning).";
    TOS "P152" "A type of service is not known or no longer exists.";
    UNUSED_CLASS "P153" "No rule assigns packets to a class that is not the default (warning).";
    INCLUDE "P160" "An included file cannot be read, includes itself, or is nested too deep; or \
                    the files are too many or too large.";
    GROUP "P161" "A group is not known, not usable, or empty.";
    SERVICE "P162" "A service is not known, or not usable.";
    RULESET "P163" "A rule set is not usable, or two have one name.";
    METER "P164" "A rate or a number of connections cannot be read.";
    SCHEDULE "P165" "A schedule or a time cannot be read, or is not known.";
    ICMP_TYPE "P166" "A type of ICMP is not known.";
    MAC "P167" "A text is not a MAC address.";
    MARK "P168" "A mark or a mask is not usable.";
    ONE_WAY "P169" "A rule for the downstream has a condition that only upstream packets can \
                    fulfil.";
    CONNECTION "P170" "A condition on a connection cannot be read.";
    KEEP "P171" "More rules store their decision in the connection's mark than it has room for.";
    DSCP_TREATMENT "P172" "The fields of `[dscp]` contradict each other.";
    NO_EFFECT "P173" "A rule does nothing.";
    COUNTER_NAME "P174" "The name of a rule is not usable, or two rules have one.";
    MISPLACED "P175" "An included file has a field that only the policy itself may have.";
    FAIR "P176" "A class's queue cannot share as its `fair` requires.";
    GROUP_SHARE "P177" "Shares of groups are 0, given twice, or sum to more than 99 % of a class.";
    HOST_CAP "P178" "A limit for each host has no rate, has too many hosts, or is for a class \
                     that is already divided.";
    DELAY "P179" "The `delay` of a class is out of range; or the class does not exist upstream \
                 (warning).";
    PAYLOAD "P181" "A rule with `payload` does not keep its decision, or names a protocol \
                    without a signature.";
    MSS "P185" "A rule has `mss` but matches no start of a TCP connection, or also counts packets.";
    SLACK "P186" "`timer-slack` is out of range.";
    RECEIVE "P187" "`[receive]` contradicts itself, the link or the rest of the policy, or a \
                    value is out of range.";
    TRACK "P188" "`[track]` contradicts the link or the rest of the policy, or a value is out of \
                  range.";
    SLOW_LINE "P189" "A line is unusually slow, so that the unit of its rate may be wrong \
                      (warning).";
    CONDITIONER "P191" "A conditioner contradicts itself or the rest of the policy, is out of range, or sees no packet (warning).";
    USER "P192" "A user or group is not a number, or a rule tests it on packets of other machines.";
    CONTROL_GROUP "P193" "The path of a control group is malformed, a rule tests it on packets \
                          of other machines, or there are more than the mark can store.";
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
                code.code.len() == 4 && code.code.starts_with("P1"),
                "{code:?}"
            );
            assert!(code.meaning.ends_with('.'), "{code:?}");
        }
    }
}
