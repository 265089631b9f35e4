// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reasons why a kernel cannot carry a policy, and warnings for the policy's author.

pub(crate) mod default_queue;
pub(crate) mod following;
pub(crate) mod own_traffic;

use crate::classify::{bridge, condition, inside};
use crate::codes;
use crate::engine;
use crate::inbound::{conditioner, order, receive};
use crate::scheduler::{self, bounds};
use crate::tree::hosts;
use std::collections::BTreeSet;
use weirgate_document::Problems;
use weirgate_policy::{
    Direction, Directions, Engine, HostCap, Inbound, Merged, Placement, Policy, Rule,
};
use weirgate_state::Capabilities;
use weirgate_units::{Inserted as _, Rate, Span};

/// Reports what this kernel lacks for a policy.
pub(crate) fn kernel(policy: &Policy, kernel: &Capabilities, problems: &Problems) {
    let link = &policy.link;
    let release = release(kernel);
    for own in engine::direction::policies(policy) {
        engine::check(&own, kernel, &release, problems);
        if engine::chosen(&own, Some(kernel)) == Engine::Htb {
            queues(&own, kernel, &release, problems);
        }
    }
    engine::filter(policy, kernel, problems);
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
    payload(policy, kernel, &release, problems);
    receive::check(policy, kernel, &release, problems);
    conditioner::check(policy, kernel, &release, problems);
    inside::check(policy, kernel, &release, problems);
    order::check(policy, kernel, &release, problems);
    condition::check(policy, kernel, &release, problems);
    if policy.policed_rate().is_some() && !kernel.payload {
        let release = kernel.lacking_programs(&release);
        problems.error(
            codes::POLICED,
            inbound.clone(),
            format!("{release} has no cls_bpf, which polices arriving packets"),
            format!("{}, or write `inbound = \"ifb\"`", kernel.bring_cls_bpf()),
        );
    }
    if policy.link.bridge {
        bridge::check(policy, kernel, &release, problems);
    } else if !kernel.nft_postrouting {
        problems.error(
            codes::NO_POSTROUTING,
            link.device.span.clone(),
            format!("{release} cannot classify packets with nftables"),
            "load or build nf_tables and nft_meta",
        );
    }
}

/// Reports what is missing for examining payloads.
fn payload(policy: &Policy, kernel: &Capabilities, release: &str, problems: &Problems) {
    let mut looking = policy.rules.iter().filter(|rule| rule.payload().is_some());
    let Some(first) = looking.clone().next() else {
        return;
    };
    let span = first.payload_span().unwrap_or_else(|| first.span.clone());
    if !kernel.payload {
        let release = kernel.lacking_programs(release);
        problems.error(
            codes::PAYLOAD,
            span.clone(),
            format!("{release} has no cls_bpf, which examines payloads"),
            format!("{}, or leave the rule out", kernel.bring_cls_bpf()),
        );
    }
    let upstream = looking.any(|rule| rule.directions.contains(Direction::Up));
    if upstream && policy.link.lan.is_empty() {
        problems.error(
            codes::PAYLOAD,
            span,
            "upstream payloads are examined where packets come from the inside, but no inside \
             device is configured",
            "name the inside devices, such as `lan = \"eth1\"`, or write `direction = \"down\"`",
        );
    }
}

pub(crate) fn release(kernel: &Capabilities) -> String {
    match kernel.release.as_str() {
        "" => "this kernel".to_owned(),
        release => format!("Linux {release}"),
    }
}

/// Reports queues that this kernel lacks, and why the policy needs them.
fn queues(policy: &Policy, kernel: &Capabilities, release: &str, problems: &Problems) {
    let link = policy.link.fair.as_ref();
    let mut queues: Vec<_> = policy
        .classes
        .iter()
        .map(|class| (&class.queue, class.fair.as_ref().or(link), &class.span))
        .collect();
    let acks = policy.ack.iter().filter(|_| scheduler::queues_acks(policy));
    queues.extend(acks.map(|ack| (&ack.queue, link, &ack.span)));
    let mut reported = BTreeSet::new();
    for (queue, fair, span) in queues {
        let kind = hosts::queue(queue.as_ref(), fair.map(|fair| fair.value)).kind();
        if kernel.has_qdisc(kind) {
            continue;
        }
        let module = format!("load or build the module sch_{kind}");
        let (span, why, instead) = match (queue, fair) {
            (Some(queue), _) => (&queue.span, "", "choose another queue"),
            (None, Some(fair)) if fair.value.knows_hosts() => (
                &fair.span,
                ", which alone shares between hosts",
                "write `fair = \"flows\"`",
            ),
            (None, _) => (span, "", "choose another queue"),
        };
        // Report a setting of the link only once.
        if reported.insert((span.start, kind)) {
            problems.error(
                codes::NO_QDISC,
                span.clone(),
                format!("{release} has no {kind} qdisc{why}"),
                format!("{module}, or {instead}"),
            );
        }
    }
    let applies = |cap: &&HostCap| {
        let mut directions = Direction::BOTH.into_iter();
        directions.any(|one| cap.rate(one).is_some() && policy.line_rate(one).is_some())
    };
    let cap = policy.caps.iter().find(applies);
    if let Some(cap) = cap.filter(|_| !kernel.has_qdisc("fq_codel")) {
        problems.error(
            codes::NO_QDISC,
            cap.group.span.clone(),
            format!("{release} has no fq_codel qdisc, the queue of each host with a limit"),
            "load or build the module sch_fq_codel, or leave `[[cap]]` out",
        );
    }
}

/// Warns about settings that are allowed but may surprise.
pub(crate) fn doubts(policy: &Policy, kernel: &Capabilities, problems: &Problems) {
    let link = &policy.link;
    if link.lan.is_empty() {
        problems.warning(
            codes::LAN_UNSTATED,
            link.device.span.clone(),
            "packets from the inside may be merged (GRO) and then leave as one long packet",
            "name the inside devices, such as `lan = \"eth1\"`, so that GRO is switched off there",
        );
    }
    merged(policy, problems);
    slow_drain(policy, problems);
    own_traffic::check(policy, problems);
    translated_groups(policy, problems);
    translated_rules(policy, problems);
    let by_ifb = policy.line_rate(Direction::Down).is_some() && link.inbound.value == Inbound::Ifb;
    let mut reported = BTreeSet::new();
    for rule in policy
        .rules
        .iter()
        .filter(|rule| by_ifb && rule.directions.contains(Direction::Down))
    {
        before_tracking(policy, rule, kernel, &mut reported, problems);
    }
}

/// The most bytes that Linux merges into one packet (`GSO_LEGACY_MAX_SIZE`, linux/netdevice.h).
const MERGED: u32 = 65_536;

/// Warns of the wait behind one merged packet, if the policy lets them pass whole. Every segment
/// has the headers of IP and of TCP with time stamps.
fn merged(policy: &Policy, problems: &Problems) {
    const HEADERS: u32 = 52;
    let link = &policy.link;
    let Some(whole) = link
        .merged
        .as_ref()
        .filter(|one| one.value == Merged::Whole)
    else {
        return;
    };
    let mtu = link.mtu.value;
    let segments = MERGED.div_ceil(mtu.saturating_sub(HEADERS).max(1));
    let bytes = u64::from(link.layer.value.wire_bytes(mtu)) * u64::from(segments);
    let time = bounds::time(bytes, link.up.value);
    problems.warning(
        codes::MERGED,
        whole.span.clone(),
        format!(
            "a packet of 64 KB that arrives merged by a veth, tap or virtual network card takes \
             {:.1} ms upstream: every bound is then exceeded by up to this",
            time.as_millis_f64()
        ),
        "write `merged = \"cut\"`",
    );
}

/// Warns about rules that test inside addresses where these are not visible: one warning at the
/// first of them.
fn translated_rules(policy: &Policy, problems: &Problems) {
    let by_ifb =
        policy.line_rate(Direction::Down).is_some() && policy.link.inbound.value == Inbound::Ifb;
    let downstream = policy
        .rules
        .iter()
        .filter(|rule| by_ifb && rule.directions.contains(Direction::Down));
    let mut private = downstream.filter_map(Rule::private_local);
    let Some(first) = private.next() else {
        return;
    };
    let message = "downstream packets are classified before NAT here, with this router's address";
    // A rule with several addresses or services appears here several times, with one line.
    let others: BTreeSet<u32> = private
        .map(|prefix| prefix.line)
        .filter(|line| *line != first.line)
        .inserted();
    let listed: Vec<String> = others
        .iter()
        .take(MOST_LINES)
        .map(ToString::to_string)
        .collect();
    let more = match others.len().saturating_sub(MOST_LINES) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let message = if others.is_empty() {
        message.to_owned()
    } else {
        format!("{message}; also on lines {}{more}", listed.join(", "))
    };
    problems.warning(
        codes::TRANSLATED,
        first.span.clone(),
        message,
        "if this router translates addresses, write `inbound = \"lan\"` or `direction = \"up\"`",
    );
}

/// How many lines one warning lists.
const MOST_LINES: usize = 8;

/// Reports groups whose addresses are not visible where the downstream is divided.
fn translated_groups(policy: &Policy, problems: &Problems) {
    let by_ifb =
        policy.line_rate(Direction::Down).is_some() && policy.link.inbound.value == Inbound::Ifb;
    let shares = policy
        .shares
        .iter()
        .map(|share| (&share.group, &share.addresses));
    let limited = policy.caps.iter().filter(|cap| cap.down.is_some());
    let caps = limited.map(|cap| (&cap.group, &cap.hosts));
    let configured = policy.marks.inside.is_some();
    for (group, addresses) in shares.chain(caps).filter(|_| by_ifb && !configured) {
        if addresses.iter().any(|prefix| prefix.is_private()) {
            problems.warning(
                codes::TRANSLATED,
                group.span.clone(),
                format!(
                    "downstream packets are classified before NAT here, so that none has an \
                     address of `{}`",
                    group.value
                ),
                "if this router translates addresses, give `[marks]` unused bits of connections' \
                 marks, such as `inside = \"0x0000ff00\"`, or write `inbound = \"lan\"`",
            );
        }
    }
}

/// Reports properties that packets arriving on an IFB do not have yet. A decision that the
/// upstream has stored is available nevertheless, if the kernel can look it up. A service is
/// reported once: `reported` has those of earlier rules.
fn before_tracking<'p>(
    policy: &Policy,
    rule: &'p Rule,
    kernel: &Capabilities,
    reported: &mut BTreeSet<&'p str>,
    problems: &Problems,
) {
    let services = rule
        .services
        .iter()
        .filter(|service| service.when.ask_tracking());
    let services: BTreeSet<&str> = services.map(|service| service.service.as_str()).inserted();
    let own = rule.asks_tracking_itself();
    if !own && services.is_empty() {
        return;
    }
    if rule.decides_upstream() {
        if !kernel.restore_marks {
            let release = release(kernel);
            problems.warning(
                codes::NO_RESTORE,
                rule.span.clone(),
                format!(
                    "{release} has no act_ctinfo, so that the kept decision works only upstream"
                ),
                "load or build the module act_ctinfo, or write `inbound = \"lan\"`",
            );
        }
        return;
    }
    let message = "downstream packets are classified before connection tracking here";
    let message = if own {
        message.to_owned()
    } else {
        let named: Vec<String> = services.iter().map(|name| format!("`{name}`")).collect();
        let ask = match &named[..] {
            [one] => format!("the service {one} needs"),
            several => format!("the services {} need", several.join(", ")),
        };
        format!("{message}, which {ask}")
    };
    let placement = policy.link.automatic.map(|chosen| chosen.placement);
    let hint = if placement == Some(Placement::Shared) {
        "several links share the LAN device, so only kept decisions reach the downstream: write \
         `keep = true`, or `direction = \"up\"`"
    } else {
        "write `inbound = \"lan\"`, which shapes after it, or `direction = \"up\"`"
    };
    if rule.directions == Directions::Down {
        problems.error(codes::UNTRACKED, rule.span.clone(), message, hint);
    } else if own || !services.is_subset(reported) {
        problems.warning(codes::UNTRACKED, rule.span.clone(), message, hint);
        reported.extend(services);
    }
}

/// The queue at the far end whose drain time `check` calculates: what an exchange of 25 kB
/// leaves on 2 Mbit/s.
const FAR_QUEUE: Span = Span::from_millis(100);

/// The longest drain time that is not reported.
const DRAINED_WITHIN: Span = Span::from_secs(30);

/// Warns if a queue at the far end drains too slowly. It leaves at the rate of the line, and is
/// refilled at up to the rate of the gate, because senders are clocked by the packets that pass
/// the gate. A queue of time T there thus takes `T * line / (line - gate)` to drain. This holds
/// only if senders have stopped growing. A TCP transfer adds a packet per round trip, and if
/// that exceeds the difference, the queue never drains.
fn slow_drain(policy: &Policy, problems: &Problems) {
    let down = Direction::Down;
    let shaped = policy.line_rate(down).zip(policy.gate(down));
    let stated = policy.link.down.as_ref().map(|line| line.value);
    let Some((line, gate)) = shaped.or_else(|| stated.zip(policy.policed_rate())) else {
        return;
    };
    let line = policy
        .link
        .layer
        .value
        .usable_rate(line)
        .as_bits_per_second();
    let spare = line.saturating_sub(gate.as_bits_per_second());
    let queue = u128::from(FAR_QUEUE.as_nanos()) * u128::from(line);
    let seconds = queue.checked_div(u128::from(spare) * 1_000_000_000);
    if seconds
        .is_some_and(|seconds| seconds <= u128::from(DRAINED_WITHIN.as_nanos() / 1_000_000_000))
    {
        return;
    }
    let ms = FAR_QUEUE.as_millis_f64();
    let message = match seconds {
        Some(seconds) => format!(
            "a queue of {ms:.0} ms at the far end of the line takes {seconds} s to drain: the \
             shaped rate is only {} below the line's {}",
            weirgate_policy::in_kbit(Rate::bits_per_second(spare)),
            weirgate_policy::in_kbit(Rate::bits_per_second(line)),
        ),
        None => "a queue at the far end never drains: the shaped rate is not below the line's rate"
            .to_owned(),
    };
    problems.warning(
        codes::SLOW_DRAIN,
        policy.link.margin_down.span.clone(),
        message,
        "leave `margin-down` out for 3 %, with which the queue of TCP forms here",
    );
}
