// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `inbound = "auto"` on a kernel: without what this one lacks, and in words.

use crate::codes;
use crate::inbound::receive;
use std::borrow::Cow;
use weirgate_document::Problems;
use weirgate_policy::{Automatic, Inbound, Placement, Policy, Sharing};
use weirgate_state::Capabilities;

/// The policy without what `inbound = "auto"` would choose and this kernel cannot do:
/// windows without cls_bpf, or for more classes than their programs tell apart; queues
/// that charge what they drop without cake. What is left out is a warning.
pub(crate) fn settled<'p>(
    policy: &'p Policy,
    kernel: &Capabilities,
    release: &str,
    problems: &Problems,
) -> Cow<'p, Policy> {
    let Some(chosen) = policy.link.automatic else {
        return Cow::Borrowed(policy);
    };
    let place = || policy.link.inbound.span.clone();
    let mut settled = policy.clone();
    let mut now = chosen;
    if chosen.windows && !kernel.payload {
        problems.warning(
            codes::AUTOMATIC,
            place(),
            format!(
                "{release} has no cls_bpf, which receive windows need: `inbound = \"auto\"` is \
                 the queue alone"
            ),
            "load or build the module cls_bpf, or write `inbound = \"ifb\"` or `\"lan\"`",
        );
        without_windows(&mut settled, &mut now);
    } else if chosen.windows && receive::has_too_many(policy) {
        problems.warning(
            codes::AUTOMATIC,
            place(),
            "the policy has more classes and parts of classes upstream than receive windows tell \
             apart: `inbound = \"auto\"` is the queue alone",
            "write `inbound = \"ifb\"` or `\"lan\"`, or use fewer classes",
        );
        without_windows(&mut settled, &mut now);
    }
    if !kernel.has_qdisc("cake") {
        problems.warning(
            codes::AUTOMATIC,
            place(),
            format!(
                "{release} has no cake: `inbound = \"auto\"` has queues that do not charge what \
                 they drop, so that many downloads fill the line"
            ),
            "load or build the module sch_cake",
        );
        now.charges = false;
    }
    if now == chosen {
        return Cow::Borrowed(policy);
    }
    settled.link.automatic = Some(now);
    Cow::Owned(settled)
}

/// Takes back what was chosen; what the policy itself says of `[receive]` stays.
fn without_windows(policy: &mut Policy, chosen: &mut Automatic) {
    chosen.windows = false;
    let Some(receive) = &mut policy.receive else {
        return;
    };
    if receive.span == policy.link.inbound.span {
        policy.receive = None;
        return;
    }
    receive.rate = None;
    receive.share = None;
}

/// What was chosen and why, for people.
pub(crate) fn note(policy: &Policy) -> Option<String> {
    let chosen = policy.link.automatic?;
    let link = &policy.link;
    let lan = link.lan.first().map(|lan| lan.value.to_string());
    let lan = lan.unwrap_or_else(|| "the LAN device".to_owned());
    let place = match (chosen.place, link.inbound.value) {
        (Placement::Bridge, _) => format!("queued on {lan}, the port to the inside"),
        (Placement::Inside, _) | (_, Inbound::Lan) => {
            format!("queued on {lan}, where shares and limits of inside hosts see their addresses")
        }
        (Placement::Arriving, _) => {
            format!(
                "queued on {}, because nothing in the policy needs inside addresses",
                link.ifb.value
            )
        }
    };
    let charges = if chosen.charges {
        "; what its queues drop is charged to their classes, because it has crossed the line"
    } else {
        ""
    };
    let shared = policy
        .receive
        .as_ref()
        .and_then(|receive| receive.share.as_ref());
    let windows = match (chosen.windows, shared.map(|share| share.value)) {
        (false, _) => "; no receive windows but those that `[receive]` states".to_owned(),
        (true, sharing) => {
            let by = match sharing {
                Some(Sharing::Connections) => "connections",
                _ => "hosts",
            };
            format!(
                "; TCP kept below the queue by receive windows, each class by itself and shared \
                 by {by}; QUIC, other datagrams and connections that began before are held by \
                 the queue alone, and windows leave them what they use"
            )
        }
    };
    Some(format!(
        "downstream on {}: `inbound = \"auto\"`: {place}{charges}{windows}",
        link.device.value
    ))
}
