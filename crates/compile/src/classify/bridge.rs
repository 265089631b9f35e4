// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Transparent bridges of two ports: the properties that bridged packets lack, and the headers
//! that hide packets from rules.

use crate::classify::session;
use crate::codes;
use weirgate_document::{Problems, SourceSpan};
use weirgate_policy::{Count, Known, Per, Policy, Rule as PolicyRule};
use weirgate_state::{Capabilities, Field, Match, Origin, PPPOE_SESSION, Rule, RuleVerdict};

use crate::scheduler::Member;

/// EtherTypes of encapsulated traffic that rules do not inspect: PPPoE sessions (RFC 2516) with
/// a protocol other than IP, a second VLAN tag (802.1Q, 802.1ad), and MPLS (RFC 3032).
const HIDING: [u16; 5] = [PPPOE_SESSION, 0x8100, 0x88a8, 0x8847, 0x8848];

/// Returns the rules that send encapsulated packets to the default class. Otherwise they would
/// be served first, like packets that no rule sees.
pub(crate) fn hidden(default: &Member, ending: &RuleVerdict) -> Vec<Rule> {
    let origin = Origin::new(default.class.line, "hidden in PPPoE, a second tag or MPLS");
    let rule = |kind: u16| Rule {
        verdict: ending.clone(),
        ..Rule::classify(
            vec![Match::one(Field::EtherType, kind.into())],
            default.id,
            origin.clone(),
        )
    };
    HIDING.map(rule).to_vec()
}

/// Returns the rule for control packets of PPPoE sessions, which are served like other packets
/// on which the link depends.
pub(crate) fn control(first: &Member, ending: &RuleVerdict) -> Rule {
    let origin = Origin::new(
        first.class.line,
        "control of a PPP link, never behind others",
    );
    Rule {
        verdict: ending.clone(),
        ..Rule::classify(session::control(), first.id, origin)
    }
}

/// Reports what prevents shaping on a bridge.
pub(crate) fn check(policy: &Policy, kernel: &Capabilities, release: &str, problems: &Problems) {
    if !kernel.nft_egress {
        problems.error(
            codes::BRIDGE,
            policy.link.device.span.clone(),
            format!("{release} cannot classify packets that leave through a bridge port"),
            "netdev tables have an egress hook since Linux 5.16 (CONFIG_NETFILTER_EGRESS)",
        );
    }
    session::doubts(policy, problems);
    for rule in &policy.rules {
        if let Some((span, what)) = lacking(rule) {
            problems.error(
                codes::BRIDGE,
                span,
                format!("bridged packets have {what}"),
                "use conditions on the packet itself, or route instead of bridging",
            );
        }
    }
}

/// Returns what a rule needs that bridged packets lack.
fn lacking(rule: &PolicyRule) -> Option<(SourceSpan, &'static str)> {
    const CONNECTION: &str = "no connection: they do not pass connection tracking";
    const INPUT: &str = "no input device, no local socket and no mark";
    if let Some(keep) = rule.keep.as_ref().filter(|_| rule.payload().is_none()) {
        return Some((keep.clone(), CONNECTION));
    }
    if let Some(meter) = &rule.meter
        && (meter.value.per == Per::Connection
            || matches!(meter.value.count, Count::Connections(_)))
    {
        return Some((meter.span.clone(), CONNECTION));
    }
    for when in rule.asked().chain(&rule.never) {
        // The spans of a service's conditions refer to another text.
        let service = rule
            .services
            .iter()
            .any(|one| std::ptr::eq(when, &raw const one.when));
        for one in when.iter() {
            let what = match one.known() {
                Known::Packet => continue,
                Known::Connection => CONNECTION,
                Known::Mark | Known::Input(_) | Known::Sender(_) => INPUT,
            };
            let own = one.span().filter(|_| !service);
            return Some((own.unwrap_or(&rule.span).clone(), what));
        }
    }
    None
}
