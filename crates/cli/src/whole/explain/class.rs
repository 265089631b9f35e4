// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The class that a packet gets.

use crate::whole::explain::input::Item;
use weirgate_explain::{Direction, Fate};
use weirgate_policy::{Inbound, Policy};
use weirgate_units::Handle;

/// A packet's class.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Class {
    /// The name in the policy, or `None` if the packet has no class of the policy.
    pub name: Option<String>,
    /// The class id.
    pub id: Option<Handle>,
    /// The reason for the class, if no rule gives it.
    pub why: Option<&'static str>,
}

impl Class {
    /// Returns a text such as `good (2:20)`.
    pub fn title(&self) -> String {
        match (&self.name, self.id) {
            (Some(name), Some(id)) => format!("{name} ({id})"),
            (None, Some(id)) => id.to_string(),
            _ => "none".to_owned(),
        }
    }
}

/// Returns the class with which a packet leaves.
pub fn class_of(policy: &Policy, direction: Direction, fate: &Fate) -> Class {
    let Some(scheduler) = weirgate_compile::scheduler(policy, direction) else {
        return Class {
            why: Some("the policy does not shape this direction"),
            ..Class::default()
        };
    };
    if fate.waits {
        return Class {
            why: Some("waits for its other fragments"),
            ..Class::default()
        };
    }
    let written = fate.passes.iter().rev().find_map(|pass| pass.class);
    let id = written.unwrap_or_else(|| scheduler.unseen());
    let member = scheduler.members.iter().find(|member| member.id == id);
    Class {
        name: member.map(|member| member.class.name.clone()),
        id: Some(id),
        why: match (written, member) {
            (None, _) => Some("no rule sees it; the qdisc's default class"),
            (Some(_), None) => Some("not shaped"),
            _ => None,
        },
    }
}

/// Returns the class of an item's packet. Unlike [`class_of`], it knows that packets to the router
/// itself never reach a gate on the LAN device.
pub fn class_of_item(policy: &Policy, item: &Item, fate: &Fate) -> Class {
    let to_router = item.own && item.direction == Direction::Down;
    if to_router && policy.link.inbound.value == Inbound::Lan {
        return Class {
            why: Some("for the router itself, so it passes no gate on the LAN device: not shaped"),
            ..Class::default()
        };
    }
    class_of(policy, item.direction, fate)
}

/// Returns the name of a class with this id, such as `good (2:20)`.
pub fn class_named(policy: &Policy, direction: Direction, id: Handle) -> String {
    let scheduler = weirgate_compile::scheduler(policy, direction);
    let members = scheduler
        .map(|scheduler| scheduler.members)
        .unwrap_or_default();
    let named = members.iter().find(|member| member.id == id);
    named.map_or_else(
        || format!("{id} (not shaped)"),
        |member| format!("{} ({id})", member.class.name),
    )
}
