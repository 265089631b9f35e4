// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A model of the kernel for plans: applies steps to a state, and refuses what Linux refuses.
//!
//! The inverse of a plan is computed with it, and the property tests check plans against its rules.
//! It does not model packets.

pub(crate) mod kit;
pub(crate) mod rows;
pub(crate) mod settle;

use crate::action::{Action, QdiscParent, Step};
use crate::diff::{hooks, tree};
use std::collections::BTreeSet;
use weirgate_state::{Device, DeviceName, Htb, HtbClass, Origin, Qdisc, QdiscKind, State};
use weirgate_units::Handle;

/// Occurs when a step is impossible in the state before it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{action}: {reason}")]
pub struct Refusal {
    /// The step, in words.
    pub action: String,
    /// Why a kernel refuses it.
    pub reason: &'static str,
}

/// Returns the state after the steps.
pub fn run(steps: &[Step], before: &State) -> Result<State, Refusal> {
    let mut state = before.clone();
    for step in steps {
        apply(&step.action, &mut state).map_err(|reason| Refusal {
            action: step.action.to_string(),
            reason,
        })?;
    }
    Ok(state)
}

fn apply(action: &Action, state: &mut State) -> Result<(), &'static str> {
    match action {
        Action::DeleteTable { .. } | Action::SetTable { .. } | Action::ChangeTable { .. } => {
            apply_table(action, state)
        }
        Action::SetHooks {
            device,
            before,
            after,
        } => hooks::run(state, device, before.as_ref(), after.as_ref()),
        // A state has no connections.
        Action::ForgetDecisions { .. } => Ok(()),
        Action::CreateIfb { device } => {
            if state.devices.contains_key(device) {
                return Err("the device exists");
            }
            state.devices.insert(
                device.clone(),
                Device {
                    owned_ifb: true,
                    offloads: None,
                    root: None,
                    origin: Origin::default(),
                },
            );
            Ok(())
        }
        Action::DeleteIfb { device } => match state.devices.remove(device) {
            Some(Device {
                owned_ifb: true, ..
            }) => Ok(()),
            _ => Err("no such IFB device of weirgate's"),
        },
        Action::SetOffloads { device, offloads } => {
            let device = device_mut(state, device)?;
            device.offloads = settle::offloads(Some(*offloads), device.offloads);
            Ok(())
        }
        Action::ReplaceQdisc {
            device,
            parent,
            qdisc,
        } => {
            let device = device_mut(state, device)?;
            if all_handles(device).contains(&qdisc.handle) {
                return Err("the handle is in use");
            }
            *qdisc_mut(device, *parent)? = settle::qdisc(qdisc, None);
            Ok(())
        }
        Action::AddQdisc {
            device,
            parent,
            qdisc,
        } => add_qdisc(device_mut(state, device)?, *parent, qdisc),
        Action::ChangeQdisc {
            device,
            parent,
            qdisc,
        } => change_qdisc(device_mut(state, device)?, *parent, qdisc),
        Action::ChangeStab {
            device,
            handle,
            stab,
        } => {
            let root = device_mut(state, device)?
                .root
                .as_mut()
                .ok_or("no root qdisc")?;
            if root.handle != *handle {
                return Err("the root has another handle");
            }
            root.stab.clone_from(stab);
            Ok(())
        }
        Action::DeleteQdisc {
            device,
            parent,
            handle,
        } => delete_qdisc(device_mut(state, device)?, *parent, *handle),
        Action::AddClass { device, class } => add_class(device_mut(state, device)?, class),
        Action::ChangeClass { device, class } => change_class(device_mut(state, device)?, class),
        Action::DeleteClass { device, id } => delete_class(device_mut(state, device)?, *id),
    }
}

fn apply_table(action: &Action, state: &mut State) -> Result<(), &'static str> {
    match action {
        Action::DeleteTable { netdev, name } => {
            let before = state.tables.len();
            state
                .tables
                .retain(|table| (table.netdev, &table.name) != (*netdev, name));
            (state.tables.len() < before)
                .then_some(())
                .ok_or("no such table")
        }
        Action::SetTable { table } => {
            let mut devices = table.devices();
            if table.netdev && devices.any(|device| !state.devices.contains_key(device)) {
                return Err("a device of the table does not exist");
            }
            drop(devices);
            state
                .tables
                .retain(|old| (old.netdev, &old.name) != (table.netdev, &table.name));
            state.tables.push(table.canonical());
            Ok(())
        }
        Action::ChangeTable { before, after } => {
            let key = |table: &weirgate_state::Table| (table.netdev, table.name.clone());
            let place = state
                .tables
                .iter_mut()
                .find(|table| key(table) == key(after));
            let table = place.ok_or("no such table")?;
            if table.canonical() != before.canonical() {
                return Err("the table differs");
            }
            *table = after.canonical();
            Ok(())
        }
        _ => Err("not a step of tables"),
    }
}

fn device_mut<'a>(state: &'a mut State, name: &DeviceName) -> Result<&'a mut Device, &'static str> {
    state.devices.get_mut(name).ok_or("no such device")
}

/// Returns the HTB with this major number, at any level.
fn htb_mut(qdisc: &mut Qdisc, major: u16) -> Option<&mut Htb> {
    let own = qdisc.handle.major == major;
    let QdiscKind::Htb(htb) = &mut qdisc.kind else {
        return None;
    };
    if own {
        return Some(htb);
    }
    htb.classes
        .iter_mut()
        .filter_map(|class| class.leaf.as_mut())
        .find_map(|leaf| htb_mut(leaf, major))
}

fn class_mut(device: &mut Device, id: Handle) -> Result<&mut HtbClass, &'static str> {
    device
        .root
        .as_mut()
        .and_then(|root| htb_mut(root, id.major))
        .and_then(|htb| htb.classes.iter_mut().find(|class| class.id == id))
        .ok_or("no such class")
}

fn has_children(device: &mut Device, id: Handle) -> bool {
    device
        .root
        .as_mut()
        .and_then(|root| htb_mut(root, id.major))
        .is_some_and(|htb| htb.classes.iter().any(|class| class.parent == id))
}

fn all_handles(device: &Device) -> BTreeSet<Handle> {
    device.root.as_ref().map(tree::handles).unwrap_or_default()
}

fn add_qdisc(device: &mut Device, parent: QdiscParent, qdisc: &Qdisc) -> Result<(), &'static str> {
    if all_handles(device).contains(&qdisc.handle) {
        return Err("the handle is in use");
    }
    let settled = settle::qdisc(qdisc, None);
    match parent {
        QdiscParent::Root if device.root.is_some() => Err("the root is taken"),
        QdiscParent::Root => {
            device.root = Some(settled);
            Ok(())
        }
        QdiscParent::Class(id) => {
            if has_children(device, id) {
                return Err("an inner class has no queue");
            }
            let class = class_mut(device, id)?;
            if class.leaf.is_some() {
                return Err("the class has a queue");
            }
            class.leaf = Some(Box::new(settled));
            Ok(())
        }
    }
}

fn qdisc_mut(device: &mut Device, parent: QdiscParent) -> Result<&mut Qdisc, &'static str> {
    match parent {
        QdiscParent::Root => device.root.as_mut(),
        QdiscParent::Class(id) => class_mut(device, id)?.leaf.as_deref_mut(),
    }
    .ok_or("no such qdisc")
}

fn change_qdisc(
    device: &mut Device,
    parent: QdiscParent,
    qdisc: &Qdisc,
) -> Result<(), &'static str> {
    let old = qdisc_mut(device, parent)?;
    if old.handle != qdisc.handle || old.kind.name() != qdisc.kind.name() {
        return Err("another qdisc is there");
    }
    match (&old.kind, &qdisc.kind) {
        (QdiscKind::Htb(_) | QdiscKind::Sfq(_) | QdiscKind::Listed(_) | QdiscKind::Other(_), _) => {
            Err("the kind has no change operation")
        }
        (QdiscKind::FqCodel(a), QdiscKind::FqCodel(b)) if a.flows != b.flows => {
            Err("fq_codel keeps its number of flows")
        }
        _ => {
            old.kind = settle::qdisc(qdisc, Some(old)).kind;
            Ok(())
        }
    }
}

fn delete_qdisc(
    device: &mut Device,
    parent: QdiscParent,
    handle: Handle,
) -> Result<(), &'static str> {
    if qdisc_mut(device, parent)?.handle != handle {
        return Err("another qdisc is there");
    }
    match parent {
        QdiscParent::Root => device.root = None,
        QdiscParent::Class(id) => class_mut(device, id)?.leaf = None,
    }
    Ok(())
}

fn add_class(device: &mut Device, class: &HtbClass) -> Result<(), &'static str> {
    if class.id.minor == 0 || class.leaf.is_some() {
        return Err("not a class alone");
    }
    let htb = device
        .root
        .as_mut()
        .and_then(|root| htb_mut(root, class.id.major))
        .ok_or("no such HTB")?;
    if htb.classes.iter().any(|other| other.id == class.id) {
        return Err("the class exists");
    }
    if class.parent != Handle::new(class.id.major, 0) {
        let parent = htb
            .classes
            .iter_mut()
            .find(|other| other.id == class.parent)
            .ok_or("no such parent")?;
        // A leaf class that gets a child loses its queue (`htb_change_class`).
        parent.leaf = None;
    }
    htb.classes.push(settle::htb_class(class, None, false));
    Ok(())
}

fn change_class(device: &mut Device, class: &HtbClass) -> Result<(), &'static str> {
    let inner = has_children(device, class.id);
    let old = class_mut(device, class.id)?;
    if old.parent != class.parent {
        return Err("a class keeps its parent");
    }
    let leaf = old.leaf.take();
    *old = settle::htb_class(class, Some(old), inner);
    old.leaf = leaf;
    Ok(())
}

fn delete_class(device: &mut Device, id: Handle) -> Result<(), &'static str> {
    if has_children(device, id) {
        return Err("the class has children");
    }
    let htb = device
        .root
        .as_mut()
        .and_then(|root| htb_mut(root, id.major))
        .ok_or("no such HTB")?;
    let before = htb.classes.len();
    htb.classes.retain(|class| class.id != id);
    (htb.classes.len() < before)
        .then_some(())
        .ok_or("no such class")
}
