// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `inbound = "auto"`, the default. Arriving packets are queued where the rest of the policy needs
//! it, and receive windows keep TCP from filling the queue.

use crate::amount::Amount;
use crate::check::receive::least_by_windows;
use crate::class::fair::Fair;
use crate::link::engine::Engine;
use crate::link::inbound::Inbound;
use crate::model::Rule;
use crate::policy::Policy;
use crate::receive::{Receive, Sharing};
use weirgate_document::Value;
use weirgate_units::Direction;
use weirgate_units::Share;

/// What `inbound = "auto"` came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Automatic {
    /// Whether the policy says so; else it is the default.
    pub stated: bool,
    /// Why it is queued there.
    pub placement: Placement,
    /// Whether the rate of `[receive]` is chosen.
    pub windows: Windowed,
    /// Whether classes that name no queue have one downstream that charges what it
    /// drops to its rate. Crate `compile` takes it back where the kernel has none.
    pub charges: bool,
}

/// Why arriving packets are queued at this place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// On the LAN device: a bridge has no other place.
    Bridge,
    /// On the LAN device; what in the policy needs that.
    Inside(&'static str),
    /// On an IFB device.
    Arriving,
}

/// Whether there are receive windows that weirgate chooses, or why not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Windowed {
    /// There are.
    Chosen,
    /// `[receive]` states a rate or a window.
    Stated,
    /// A segment for each round trip is more than the line.
    TooSlow,
    /// The policy has more classes and parts of classes than they tell apart. Crate
    /// `compile` finds it.
    TooMany,
    /// The kernel has no `cls_bpf`. Crate `compile` finds it.
    NoClassifier,
    /// The kernel does not take their programs. Crate `compile` finds it.
    Refused,
    /// This program, that of small routers, has no programs for the kernel. Crate
    /// `compile` finds it.
    NoPrograms,
}

impl Automatic {
    /// Whether there are receive windows that weirgate chooses.
    #[must_use]
    pub fn has_windows(&self) -> bool {
        self.windows == Windowed::Chosen
    }
}

/// Windows keep TCP to so much of what passes the gate, so that its queue is for what
/// they do not hold: 96 % of the line with the usual margin, as measured
/// (docs/inbound-auto.md).
const OF_THE_GATE: Share = Share::percent(99);

/// Replaces `inbound = "auto"` by what it comes to.
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

/// What of the policy needs the downstream to be queued where packets leave for the
/// inside, after NAT and connection tracking. `None` where nothing does, or where that
/// place is not one device. Only HTB's tree tells what comes from the link there.
fn needs_inside(policy: &Policy) -> Option<&'static str> {
    let engine = policy.link.engine.as_ref().map(|engine| engine.value);
    if policy.link.lan.len() != 1
        || matches!(engine, Some(Engine::Cake | Engine::Kit | Engine::Rows))
    {
        return None;
    }
    let divided = !policy.shares.is_empty() || policy.caps.iter().any(|cap| cap.down.is_some());
    if divided && policy.marks.inside.is_none() {
        return Some("shares and limits of inside hosts see their addresses");
    }
    let of_down = |rule: &&Rule| rule.directions.contains(Direction::Down);
    let mut rules = policy.rules.iter().filter(of_down);
    rules.find_map(|rule| {
        if rule.private_local().is_some() {
            Some("rules see the addresses of inside hosts")
        } else if rule.asks_tracking() && !rule.decides_upstream() {
            Some("rules see what is known of a packet's connection")
        } else {
            None
        }
    })
}

/// Gives `[receive]` a rate and between whom it is shared, where it states none and no
/// window either. Whether it did.
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
