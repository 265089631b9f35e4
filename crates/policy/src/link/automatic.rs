// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `inbound = "auto"`, the default. Arriving packets are queued where the rest of the policy
//! requires it, and receive windows keep TCP from filling the queue.

use crate::amount::Amount;
use crate::check::receive::least_by_windows;
use crate::class::fair::Fair;
use crate::link::engine::Engine;
use crate::link::inbound::Inbound;
use crate::model::Rule;
use crate::policy::Policy;
use crate::receive::{Receive, Sharing};
use weirgate_document::Value;
use weirgate_state::DeviceName;
use weirgate_units::{Direction, Share};

/// The settings that `inbound = "auto"` was replaced with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Automatic {
    /// Whether the policy contains it; otherwise it is the default.
    pub stated: bool,
    /// Where arriving packets are queued, and why.
    pub placement: Placement,
    /// Whether weirgate chooses the rate of `[receive]`.
    pub windows: Windowed,
    /// Whether classes without a configured queue get a downstream queue that charges drops to
    /// its rate. Crate `compile` resets this if the kernel has no such queue.
    pub charges: bool,
}

/// Where arriving packets are queued, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// On the LAN device, the only possible place of a bridge.
    Bridge,
    /// On the LAN device, because of this part of the policy.
    Inside(&'static str),
    /// On an IFB device.
    Arriving,
    /// On an IFB device, because another link's policy shapes the LAN device.
    Shared,
}

/// Whether weirgate chooses receive windows, or why not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Windowed {
    /// Weirgate chooses them.
    Chosen,
    /// `[receive]` sets a rate or a window.
    Stated,
    /// One segment per round trip exceeds the rate of the line.
    TooSlow,
    /// The policy has more classes and parts of classes than windows can distinguish. Crate
    /// `compile` detects this.
    TooMany,
    /// The kernel has no `cls_bpf`. Crate `compile` detects this.
    NoClassifier,
    /// The kernel refuses the BPF programs. Crate `compile` detects this.
    Refused,
    /// This build, for small routers, contains no BPF programs. Crate `compile` detects this.
    NoPrograms,
}

impl Automatic {
    /// Returns whether weirgate chooses receive windows.
    #[must_use]
    pub fn has_windows(&self) -> bool {
        self.windows == Windowed::Chosen
    }
}

/// The share of the gate's rate to which windows limit TCP, so that the queue is left to other
/// traffic. With the default margin it is 96 % of the line, as measured (docs/inbound-auto.md).
const OF_THE_GATE: Share = Share::percent(99);

/// Replaces `inbound = "auto"` with the chosen settings.
pub(crate) fn settle(policy: &mut Policy) {
    let inbound = policy.link.inbound.clone();
    if inbound.value != Inbound::Auto {
        return;
    }
    let (kind, placement) = if policy.link.bridge {
        (Inbound::Lan, Placement::Bridge)
    } else if let Some(why) = needs_inside(policy) {
        (Inbound::Lan, Placement::Inside(why))
    } else {
        (Inbound::Ifb, Placement::Arriving)
    };
    policy.link.inbound.value = kind;
    policy.link.automatic = Some(Automatic {
        stated: inbound.span != policy.link.span,
        placement,
        windows: choose_rate(policy, &inbound),
        charges: true,
    });
}

/// Returns the part of the policy that requires the downstream queue on the LAN device, after
/// NAT and connection tracking. `None` if no part does, or if there is not exactly one LAN
/// device. Only HTB's tree can distinguish packets of the link there.
fn needs_inside(policy: &Policy) -> Option<&'static str> {
    let engine = policy.link.engine.as_ref().map(|engine| engine.value);
    if policy.link.lan.len() != 1
        || matches!(engine, Some(Engine::Cake | Engine::Kit | Engine::Rows))
    {
        return None;
    }
    let divided = !policy.shares.is_empty() || policy.caps.iter().any(|cap| cap.down.is_some());
    if divided && policy.marks.inside.is_none() {
        return Some("shares and limits see the addresses of inside hosts");
    }
    if policy.link.cuts_merged().is_some() {
        return Some("merged packets can be cut before the queue");
    }
    let of_down = |rule: &&Rule| rule.directions.contains(Direction::Down);
    let mut rules = policy.rules.iter().filter(of_down);
    rules.find_map(|rule| {
        if rule.private_local().is_some() {
            Some("rules see the addresses of inside hosts")
        } else if rule.asks_tracking() && !rule.decides_upstream() {
            Some("rules can test connection tracking")
        } else {
            None
        }
    })
}

/// Moves the downstream queues of a router's links from a LAN device that several of them would
/// shape to IFB devices, where `inbound = "auto"` leaves the choice. A policy with conditioners
/// keeps its place, which these may depend on.
pub fn apart(policies: &mut [Policy]) {
    let shaped: Vec<Option<DeviceName>> = policies.iter().map(shaped_inside).collect();
    for (number, policy) in policies.iter_mut().enumerate() {
        let Some(Automatic { placement, .. }) = &mut policy.link.automatic else {
            continue;
        };
        let own = &shaped[number];
        let mut others = (0..).zip(&shaped).filter(|(other, _)| *other != number);
        let is_shared = own.is_some() && others.any(|(_, other)| other == own);
        let may_move = matches!(placement, Placement::Inside(_)) && policy.conditioners.is_empty();
        if is_shared && may_move {
            *placement = Placement::Shared;
            policy.link.inbound.value = Inbound::Ifb;
        }
    }
}

/// Returns the LAN device that a policy shapes.
fn shaped_inside(policy: &Policy) -> Option<DeviceName> {
    let is_inside = policy.link.inbound.value == Inbound::Lan;
    let shapes = is_inside && policy.line_rate(Direction::Down).is_some();
    let lan = policy.link.lan.first().filter(|_| shapes)?;
    Some(lan.value.clone())
}

/// Sets the rate and the sharing of `[receive]`, unless it has a rate or a window. Returns
/// whether it did, or why not.
fn choose_rate(policy: &mut Policy, inbound: &Value<Inbound>) -> Windowed {
    let (Some(gate), Some(line)) = (policy.gate(Direction::Down), policy.link.down.as_ref()) else {
        return Windowed::TooSlow;
    };
    let usable = policy.link.layer.value.usable_rate(line.value);
    let millionths = u128::from(OF_THE_GATE.of(gate).as_bits_per_second()) * 1_000_000
        / u128::from(usable.as_bits_per_second().max(1));
    let share = Share::millionths(u32::try_from(millionths).unwrap_or(1_000_000));
    let wanted = Amount::Share(share);
    let mut receive = policy
        .receive
        .clone()
        .unwrap_or_else(|| Receive::new(inbound.line, inbound.span.clone()));
    if receive.keeps_to_rates() || receive.window.is_some() {
        return Windowed::Stated;
    }
    let least = least_by_windows(policy, &receive);
    if receive.max_ack_delay.is_none() && policy.received_rate(wanted) < Some(least) {
        return Windowed::TooSlow;
    }
    let flows = policy.link.fair.as_ref();
    let flows = flows.is_some_and(|fair| fair.value == Fair::Flows);
    receive.rate = Some(inbound.clone().map(|_| wanted));
    if receive.share.is_none() {
        let sharing = if flows {
            Sharing::Connections
        } else {
            Sharing::Hosts
        };
        receive.share = Some(inbound.clone().map(|_| sharing));
    }
    policy.receive = Some(receive);
    Windowed::Chosen
}
