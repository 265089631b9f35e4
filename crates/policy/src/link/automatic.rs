// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `inbound = "auto"`: what arrives is queued where the rest of the policy needs it,
//! and TCP is kept below the queue by receive windows.

use crate::amount::Amount;
use crate::class::fair::Fair;
use crate::link::inbound::Inbound;
use crate::model::Direction;
use crate::policy::Policy;
use crate::receive::{Receive, Sharing};
use weirgate_document::Value;
use weirgate_units::Share;

/// What `inbound = "auto"` came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Automatic {
    /// Why it is queued there.
    pub place: Placement,
    /// Whether the rate of `[receive]` is chosen, and not stated.
    pub windows: bool,
    /// Whether classes that name no queue have one downstream that charges what it
    /// drops to its rate. Crate `compile` takes it back where the kernel has none.
    pub charges: bool,
}

/// Why what arrives is queued where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// On the LAN device: a bridge has no other place.
    Bridge,
    /// On the LAN device: shares or limits of inside hosts need their addresses.
    Inside,
    /// On an IFB device.
    Arriving,
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
    let (kind, place) = if policy.link.bridge {
        (Inbound::Lan, Placement::Bridge)
    } else if policy.link.lan.len() == 1 && needs_inside(policy) {
        (Inbound::Lan, Placement::Inside)
    } else {
        (Inbound::Ifb, Placement::Arriving)
    };
    policy.link.inbound.value = kind;
    policy.link.automatic = Some(Automatic {
        place,
        windows: choose_rate(policy, &inbound),
        charges: true,
    });
}

/// Whether the downstream is divided by addresses that the device outside does not see,
/// and connections' marks do not tell them.
fn needs_inside(policy: &Policy) -> bool {
    let divided = !policy.shares.is_empty() || policy.caps.iter().any(|cap| cap.down.is_some());
    divided && policy.inside_mask.is_none()
}

/// Gives `[receive]` a rate and between whom it is shared, where it states none and no
/// window either. Whether it did.
fn choose_rate(policy: &mut Policy, inbound: &Value<Inbound>) -> bool {
    let (Some(gate), Some(line)) = (policy.gate(Direction::Down), policy.link.down.as_ref()) else {
        return false;
    };
    let usable = policy.link.layer.value.usable_rate(line.value);
    let millionths = u128::from(OF_THE_GATE.of(gate).as_bits_per_second()) * 1_000_000
        / u128::from(usable.as_bits_per_second().max(1));
    let share = Share::millionths(u32::try_from(millionths).unwrap_or(1_000_000));
    let flows = policy.link.fair.as_ref();
    let flows = flows.is_some_and(|fair| fair.value == Fair::Flows);
    let receive = policy
        .receive
        .get_or_insert_with(|| Receive::new(inbound.line, inbound.span.clone()));
    if receive.keeps_to_rates() || receive.window.is_some() {
        return false;
    }
    receive.rate = Some(inbound.clone().map(|_| Amount::Share(share)));
    if receive.share.is_none() {
        let sharing = if flows {
            Sharing::Connections
        } else {
            Sharing::Hosts
        };
        receive.share = Some(inbound.clone().map(|_| sharing));
    }
    true
}
