// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What stands between a policy and a kernel, and what its author should know.

use crate::codes;
use weirgate_document::Problems;
use weirgate_policy::{Count, Direction, Directions, Inbound, Per, Policy, Rule};
use weirgate_state::Capabilities;

/// What this kernel cannot do.
pub(crate) fn kernel(policy: &Policy, kernel: &Capabilities, problems: &Problems) {
    let link = &policy.link;
    let release = match kernel.release.as_str() {
        "" => "this kernel".to_owned(),
        release => format!("Linux {release}"),
    };
    if !kernel.has_qdisc("htb") {
        problems.error(
            codes::NO_QDISC,
            link.span.clone(),
            format!("{release} has no htb qdisc, on which everything is built"),
            "load or build the module sch_htb",
        );
    }
    let mut queues: Vec<_> = policy
        .classes
        .iter()
        .map(|class| (&class.queue, &class.span))
        .collect();
    queues.extend(policy.ack.iter().map(|ack| (&ack.queue, &ack.span)));
    for (queue, place) in queues {
        let (kind, span) = match queue {
            Some(queue) => (queue.value.kind(), &queue.span),
            None => ("fq_codel", place),
        };
        if !kernel.has_qdisc(kind) {
            problems.error(
                codes::NO_QDISC,
                span.clone(),
                format!("{release} has no {kind} qdisc"),
                format!("load or build the module sch_{kind}, or choose another queue"),
            );
        }
    }
    let down = policy.line_rate(Direction::Down).is_some();
    let by_ifb = down && link.inbound.value == Inbound::Ifb;
    let inbound = &link.inbound.span;
    if by_ifb && !kernel.ifb {
        problems.error(
            codes::NO_IFB,
            inbound.clone(),
            format!("{release} has no IFB devices"),
            "load or build the module ifb, or write `inbound = \"lan\"`",
        );
    }
    if by_ifb && !kernel.nft_ingress_forward {
        problems.error(
            codes::NO_INGRESS,
            inbound.clone(),
            format!("{release} cannot redirect arriving packets with nftables"),
            "load or build nf_tables and nft_fwd_netdev, or write `inbound = \"lan\"`",
        );
    }
    if !kernel.nft_postrouting {
        problems.error(
            codes::NO_POSTROUTING,
            link.device.span.clone(),
            format!("{release} cannot classify packets with nftables"),
            "load or build nf_tables and nft_meta",
        );
    }
}

/// What is allowed and may surprise.
pub(crate) fn doubts(policy: &Policy, problems: &Problems) {
    let link = &policy.link;
    if link.lan.is_empty() {
        problems.warning(
            codes::LAN_UNSTATED,
            link.device.span.clone(),
            "packets that arrive from the inside may be merged (GRO) and pass the gate as one",
            "name the inside devices, such as `lan = \"eth1\"`, so that it is switched off there",
        );
    }
    let by_ifb = policy.line_rate(Direction::Down).is_some() && link.inbound.value == Inbound::Ifb;
    for rule in policy
        .rules
        .iter()
        .filter(|rule| by_ifb && rule.directions.contains(Direction::Down))
    {
        let v4 = rule
            .when
            .local_addresses
            .iter()
            .find(|prefix| prefix.value.is_v4());
        let private = v4.filter(|prefix| is_private(prefix.value.address));
        if let Some(prefix) = private {
            problems.warning(
                codes::TRANSLATED,
                prefix.span.clone(),
                "packets from outside are seen here before NAT, with the router's own address",
                "where this router translates, write `inbound = \"lan\"` or `direction = \"up\"`",
            );
        }
        before_tracking(rule, problems);
    }
}

/// What packets that arrive on an IFB do not have yet.
fn before_tracking(rule: &Rule, problems: &Problems) {
    let all = std::iter::once(&rule.when).chain(&rule.services);
    let mut parts = all.filter(|when| when.connection.span().is_some() || when.mark.is_some());
    let counted = rule.meter.as_ref().is_some_and(|meter| {
        meter.value.per == Per::Connection || matches!(meter.value.count, Count::Connections(_))
    });
    let kept = rule.keep.is_some();
    if parts.next().is_none() && !counted && !kept {
        return;
    }
    let message = "packets from outside are seen here before connection tracking knows them";
    let hint = "write `inbound = \"lan\"`, where it does, or `direction = \"up\"`";
    if rule.directions == Directions::Down {
        problems.error(codes::UNTRACKED, rule.span.clone(), message, hint);
    } else {
        problems.warning(codes::UNTRACKED, rule.span.clone(), message, hint);
    }
}

/// RFC 1918, RFC 6598: addresses that are hardly on the link without NAT.
fn is_private(address: std::net::IpAddr) -> bool {
    match address {
        std::net::IpAddr::V4(v4) => {
            let [first, second, ..] = v4.octets();
            v4.is_private() || (first == 100 && (64..128).contains(&second))
        }
        std::net::IpAddr::V6(_) => false,
    }
}
