// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What packets from outside get where they arrive, so that rules there see
//! what their connection has been decided to be.

use std::collections::BTreeMap;
use weirgate_policy::{Direction, Inbound, Policy, Rule};
use weirgate_state::{Arriving, Capabilities, DeviceName, Field, Match, Origin, Table};

/// Whether a rule keeps a decision that the upstream makes: only there, or on
/// a LAN device, have packets a connection to keep it on.
pub(crate) fn decides_upstream(rule: &Rule) -> bool {
    rule.keep.is_some() && rule.directions.contains(Direction::Up)
}

/// Whether kept decisions are written into the marks of packets that arrive.
pub(crate) fn restores(policy: &Policy, kernel: &Capabilities) -> bool {
    let by_ifb =
        policy.line_rate(Direction::Down).is_some() && policy.link.inbound.value == Inbound::Ifb;
    by_ifb && kernel.restore_marks && policy.rules.iter().any(decides_upstream)
}

/// The places for arriving packets that the tables rely on.
pub(crate) fn places(policy: &Policy, tables: &[Table]) -> BTreeMap<DeviceName, Arriving> {
    let mask = policy.mark_mask;
    let asks = |one: &Match| one.field() == Some(Field::Mark { mask });
    let mut rules = tables
        .iter()
        .filter(|table| table.netdev)
        .flat_map(|table| &table.chains)
        .flat_map(|chain| &chain.rules);
    if !rules.any(|rule| rule.matches.iter().any(asks)) {
        return BTreeMap::new();
    }
    let line = policy
        .rules
        .iter()
        .find(|rule| decides_upstream(rule) && policy.sources.included(&rule.span).is_none())
        .map_or(0, |rule| rule.line);
    let place = Arriving {
        restore: Some(mask),
        origin: Origin::new(
            line,
            "decisions that connections keep, for packets that conntrack has not seen yet",
        ),
        ..Arriving::default()
    };
    [(policy.link.device.value.clone(), place)].into()
}
