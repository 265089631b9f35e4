// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Adapts `inbound = "auto"` to a kernel that lacks parts of it, and describes the result.

use crate::codes;
use crate::engine::{direction, l4s, rows};
use crate::inbound::receive;
use std::borrow::Cow;
use weirgate_document::Problems;
use weirgate_policy::{Automatic, Direction, Placement, Policy, Sharing, Windowed, in_kbit};
use weirgate_state::Capabilities;

/// Returns the policy without the parts of `inbound = "auto"` that are not available. Windows
/// are omitted if the kernel lacks cls_bpf, if it rejects their programs, or if there are more
/// classes than these distinguish. Queues that charge their drops are omitted without cake. Each
/// omission is reported as a note; a program that shapes has no such queues anyway.
pub(crate) fn settled<'p>(
    policy: &'p Policy,
    kernel: &Capabilities,
    release: &str,
    problems: &Problems,
) -> Cow<'p, Policy> {
    let Some(chosen) = policy.link.automatic else {
        return Cow::Borrowed(policy);
    };
    let span = || policy.link.inbound.span.clone();
    let mut settled = policy.clone();
    let mut now = chosen;
    if chosen.has_windows() && !kernel.payload {
        let release = kernel.lacking_programs(release);
        problems.note(
            codes::AUTOMATIC,
            span(),
            format!(
                "{release} has no cls_bpf, which receive windows need: `inbound = \"auto\"` uses \
                 only the queue"
            ),
            format!(
                "{}, or write `inbound = \"ifb\"` or `\"lan\"`",
                kernel.bring_cls_bpf()
            ),
        );
        now.windows = if kernel.small {
            Windowed::NoPrograms
        } else {
            Windowed::NoClassifier
        };
    } else if chosen.has_windows() && kernel.windows_refused {
        problems.note(
            codes::AUTOMATIC,
            span(),
            format!(
                "{release} does not load the programs of receive windows: `inbound = \"auto\"` \
                 uses only the queue"
            ),
            "use a newer kernel, or write `inbound = \"ifb\"` or `\"lan\"`",
        );
        now.windows = Windowed::Refused;
    } else if chosen.has_windows() && receive::has_too_many(policy) {
        problems.note(
            codes::AUTOMATIC,
            span(),
            "the policy has more upstream classes and parts of classes than receive windows \
             distinguish: `inbound = \"auto\"` uses only the queue",
            "write `inbound = \"ifb\"` or `\"lan\"`, or use fewer classes",
        );
        now.windows = Windowed::TooMany;
    }
    if !kernel.has_qdisc("cake") && !is_program(policy, kernel) {
        problems.note(
            codes::AUTOMATIC,
            span(),
            format!(
                "{release} has no cake: the queues of `inbound = \"auto\"` do not count dropped \
                 packets against the rate, so that many downloads can fill the line"
            ),
            "load or build the module sch_cake",
        );
        now.charges = false;
    }
    if now == chosen {
        return Cow::Borrowed(policy);
    }
    if now.windows != chosen.windows {
        without_windows(&mut settled);
    }
    settled.link.automatic = Some(now);
    Cow::Owned(settled)
}

/// Returns whether a BPF program shapes downstream, which has no cake on any kernel.
fn is_program(policy: &Policy, kernel: &Capabilities) -> bool {
    let settled = rows::settled(Cow::Borrowed(policy), kernel);
    let settled = l4s::settled(settled, kernel, &Problems::default());
    let own = direction::policy_in(&settled, Direction::Down);
    let engine = own.link.engine.as_ref();
    engine.is_some_and(|engine| engine.value.is_program())
}

/// Removes the windows that were chosen; settings that the policy states in `[receive]` stay.
fn without_windows(policy: &mut Policy) {
    let inbound = &policy.link.inbound.span;
    let Some(receive) = &mut policy.receive else {
        return;
    };
    if receive.span == *inbound {
        policy.receive = None;
        return;
    }
    receive.rate = None;
    if receive
        .share
        .as_ref()
        .is_some_and(|share| share.span == *inbound)
    {
        receive.share = None;
    }
}

/// Describes what was chosen, and why.
pub(crate) fn note(policy: &Policy) -> Option<String> {
    let chosen = policy.link.automatic?;
    let link = &policy.link;
    let default = if chosen.stated { "" } else { ", the default" };
    let (_, margin) = policy
        .link
        .down
        .as_ref()
        .zip(policy.gate(Direction::Down))?;
    Some(format!(
        "downstream on {}: `inbound = \"auto\"`{default}:\n  queue: {}{}\n  margin: shaped to {} \
         of {}\n  windows: {}\n  filter: none; the virtual queue is for `inbound = \"filter\"`",
        link.device.value,
        queued(policy, chosen),
        charged(policy, chosen),
        in_kbit(margin),
        link.down
            .as_ref()
            .map_or_else(String::new, |down| in_kbit(down.value)),
        windowed(policy, chosen),
    ))
}

/// Describes where packets are queued, and why there.
fn queued(policy: &Policy, chosen: Automatic) -> String {
    let link = &policy.link;
    let lan = link.lan.first().map(|lan| lan.value.to_string());
    let lan = lan.unwrap_or_else(|| "the LAN device".to_owned());
    match chosen.placement {
        Placement::Bridge => format!("on {lan}, the port to the inside"),
        Placement::Inside(why) => format!("on {lan}, where {why}"),
        Placement::Arriving => format!(
            "on {}, where packets arrive, so that those for this router are shaped too",
            link.ifb.value
        ),
        Placement::Shared => format!(
            "on {}, where packets arrive, because several links share {lan}",
            link.ifb.value
        ),
    }
}

/// Describes to which class drops are charged.
fn charged(policy: &Policy, chosen: Automatic) -> &'static str {
    let engine = policy.link.engine.as_ref();
    if chosen.charges && !engine.is_some_and(|engine| engine.value.is_program()) {
        "; unless a class has another queue than cake, its drops count against its rate, because \
         dropped packets have crossed the line"
    } else {
        "; drops do not count against the rate of their class"
    }
}

/// Describes which connections get limited windows, or why there are none.
fn windowed(policy: &Policy, chosen: Automatic) -> String {
    let receive = policy.receive.as_ref();
    let rate = receive.and_then(|receive| receive.rate.as_ref());
    let rate = rate.and_then(|rate| policy.received_rate(rate.value));
    match (chosen.windows, rate) {
        (Windowed::Chosen, Some(rate)) => {
            let shared = receive.and_then(|receive| receive.share.as_ref());
            let by = match shared.map(|share| share.value) {
                Some(Sharing::Connections) => "connections",
                _ => "hosts",
            };
            format!(
                "TCP connections with few segments in a round trip are limited to {} of payload \
                 in each class, shared by {by}; the queue limits connections with more segments, \
                 which lose little there. The queue also limits QUIC, other datagrams, and \
                 connections whose handshake was not seen. Such a flow has a share like a \
                 connection if it is answered; windows leave the other flows the rate they use",
                in_kbit(rate)
            )
        }
        (Windowed::Chosen | Windowed::Stated, _) => "as `[receive]` states them".to_owned(),
        (Windowed::TooSlow, _) => "none, because one segment in each round trip exceeds the \
             rate of the line; only the queue limits senders"
            .to_owned(),
        (Windowed::TooMany, _) => "none, because the policy has more classes and parts of classes \
             than they distinguish; only the queue limits senders"
            .to_owned(),
        (Windowed::NoClassifier, _) => {
            "none, because the kernel has no cls_bpf; only the queue limits senders".to_owned()
        }
        (Windowed::Refused, _) => {
            "none, because the kernel rejects their programs; only the queue limits senders"
                .to_owned()
        }
        (Windowed::NoPrograms, _) => "none, because this build, the one for small routers, \
             contains no BPF programs; only the queue limits senders"
            .to_owned(),
    }
}
