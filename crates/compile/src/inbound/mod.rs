// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The treatment of arriving packets: they get their connection's stored decision for the rules
//! there, or they are limited to a rate, here or at their senders.

pub(crate) mod automatic;
pub(crate) mod conditioner;
pub(crate) mod order;
pub(crate) mod receive;
pub(crate) mod virtual_queue;

use crate::classify::inside;
use std::collections::BTreeMap;
use std::iter;
use weirgate_policy::{Direction, Inbound, Policy, Rule};
use weirgate_state::{
    Capabilities, DeviceName, Field, HookPrograms, Match, Origin, Payload, Table,
};
use weirgate_units::Inserted as _;

/// Returns whether kept decisions are copied to the marks of arriving packets.
pub(crate) fn restores(policy: &Policy, kernel: &Capabilities) -> bool {
    let by_ifb =
        policy.line_rate(Direction::Down).is_some() && policy.link.inbound.value == Inbound::Ifb;
    let kept = policy.rules.iter().any(Rule::decides_upstream) || inside::bits(policy) != 0;
    by_ifb && kernel.restore_marks && kept
}

/// Returns the programs at hooks on which the tables rely.
pub(crate) fn hooks(policy: &Policy, tables: &[Table]) -> BTreeMap<DeviceName, HookPrograms> {
    let mut hooks = restoring(policy, tables);
    let payload = Some(Payload {
        lowest: policy.marks.payload_lowest,
    });
    for direction in Direction::BOTH {
        let devices = match direction {
            Direction::Up => policy.link.lan.as_slice(),
            Direction::Down => std::slice::from_ref(&policy.link.device),
        };
        let mut looking = policy.rules.iter().filter(|rule| {
            rule.payload().is_some()
                && rule.directions.contains(direction)
                && policy.line_rate(direction).is_some()
        });
        let Some(first) = looking.next() else {
            continue;
        };
        let line = match policy.sources.included(&first.span) {
            Some(_) => 0,
            None => first.line,
        };
        for device in devices {
            let programs = hooks.entry(device.value.clone()).or_insert_with(|| {
                let stream = direction.stream();
                let why = format!("what the first payloads of {stream} flows betray");
                HookPrograms {
                    origin: Origin::new(line, why),
                    ..HookPrograms::default()
                }
            });
            programs.payload = payload;
        }
    }
    if let Some((filter, origin)) = virtual_queue::filter(policy) {
        let device = policy.link.device.value.clone();
        let programs = hooks.entry(device).or_insert_with(|| HookPrograms {
            origin,
            ..HookPrograms::default()
        });
        programs.virtual_queue = Some(filter);
    }
    let (windows, datagrams) = (receive::windows(policy), receive::datagrams(policy));
    let first = windows.as_ref().map(|(_, origin)| origin);
    let first = first.or(datagrams.as_ref().map(|(_, origin)| origin));
    if let Some(origin) = first {
        let device = policy.link.device.value.clone();
        let programs = hooks.entry(device).or_insert_with(|| HookPrograms {
            origin: origin.clone(),
            ..HookPrograms::default()
        });
        programs.windows = windows.map(|(windows, _)| Box::new(windows));
        programs.datagrams = datagrams.map(|(datagrams, _)| Box::new(datagrams));
    }
    conditioner::add(policy, &mut hooks);
    order::add(policy, &mut hooks);
    hooks
}

fn restoring(policy: &Policy, tables: &[Table]) -> BTreeMap<DeviceName, HookPrograms> {
    let asked = |mask: u32| {
        let asks = |one: &Match| one.field() == Some(Field::Mark { mask });
        let chains = tables.iter().filter(|table| table.netdev);
        let chains = chains.flat_map(|table| &table.chains);
        let mut rules = chains.flat_map(|chain| &chain.rules);
        let found = rules.any(|rule| rule.matches.iter().any(asks));
        if found { mask } else { 0 }
    };
    let inside = policy
        .marks
        .inside
        .as_ref()
        .map_or(0, |mask| asked(mask.value));
    let mask = asked(policy.marks.decisions) | inside;
    if mask == 0 {
        return BTreeMap::new();
    }
    let line = policy
        .rules
        .iter()
        .find(|rule| rule.decides_upstream() && policy.sources.included(&rule.span).is_none())
        .map_or(0, |rule| rule.line);
    let programs = HookPrograms {
        restore: Some(mask),
        origin: Origin::new(
            line,
            "decisions that connections keep, for packets that conntrack has not seen yet",
        ),
        ..HookPrograms::default()
    };
    iter::once((policy.link.device.value.clone(), programs)).inserted()
}
