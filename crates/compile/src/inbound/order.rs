// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Changes the class of connections without reordering (`moves = "in-order"`): selects the
//! devices that get the programs for it.
//!
//! They are at the device where a direction is shaped and its acknowledgements arrive: the
//! link's device for the upstream, the LAN device for the downstream. Packets that are shaped on
//! an IFB are acknowledged on another device.

use crate::codes;
use crate::engine;
use crate::scheduler;
use std::collections::BTreeMap;
use weirgate_document::Problems;
use weirgate_policy::{Direction, Engine, Policy};
use weirgate_state::{Capabilities, DeviceName, HookPrograms, Order, Origin};

/// Adds the programs to the hooks of their devices.
pub(crate) fn add(policy: &Policy, hooks: &mut BTreeMap<DeviceName, HookPrograms>) {
    let Some(moves) = policy.link.moves_in_order() else {
        return;
    };
    for direction in Direction::BOTH {
        let Some(device) = scheduler::ordered_on(policy, direction) else {
            continue;
        };
        let programs = hooks.entry(device.clone()).or_insert_with(|| HookPrograms {
            origin: Origin::new(
                moves.line,
                "a connection that changes its class has no segment overtaken",
            ),
            ..HookPrograms::default()
        });
        programs.order = Some(Order {});
    }
}

/// Reports what this kernel lacks for it, and where it has no effect.
pub(crate) fn check(policy: &Policy, kernel: &Capabilities, release: &str, problems: &Problems) {
    let Some(moves) = policy.link.moves_in_order() else {
        return;
    };
    if !kernel.payload {
        let release = kernel.lacking_programs(release);
        problems.error(
            codes::ORDER,
            moves.span.clone(),
            format!("{release} has no cls_bpf, which `moves = \"in-order\"` needs"),
            format!("{}, or write `moves = \"at-once\"`", kernel.bring_cls_bpf()),
        );
    }
    if engine::chosen(policy, Some(kernel)) == Engine::Cake {
        problems.warning(
            codes::ORDER,
            moves.span.clone(),
            "cake has only one class",
            "leave `moves` out",
        );
    }
    let down = Direction::Down;
    if policy.line_rate(down).is_some() && scheduler::ordered_on(policy, down).is_none() {
        problems.warning(
            codes::ORDER,
            moves.span.clone(),
            "downstream, connections change class at once: packets that are shaped on arrival \
             are acknowledged on another device",
            "write `inbound = \"lan\"`, or accept order upstream only",
        );
    }
}

/// Returns a note for the report of a direction.
pub(crate) fn note(policy: &Policy, direction: Direction) -> Option<String> {
    scheduler::ordered_on(policy, direction).map(|device| {
        format!(
            "A TCP connection changes its class on {device} when all of its data in the old one \
             has been acknowledged; its sender stops for that long, at most 2 s."
        )
    })
}
