// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The differences between two states as steps: devices, qdisc trees, tables, and the hooks of
//! devices. The crate's front page gives the order of the steps.

pub(crate) mod hooks;
pub(crate) mod table;
pub(crate) mod tree;

use crate::action::{Action, Step};
use crate::model::settle;
use weirgate_state::{Origin, QdiscKind, State, Table};

/// Returns the steps from `observed` to `desired`, in the order that the crate describes.
pub(crate) fn steps(observed: &State, desired: &State) -> Vec<Step> {
    let step = |action, origin: &Origin| Step {
        action,
        origin: origin.clone(),
    };
    let gone = |netdev: bool| {
        let own = observed
            .tables
            .iter()
            .filter(move |table| table.netdev == netdev);
        own.filter(|table| table::twin(desired, table).is_none())
            .map(move |table| {
                let name = table.name.clone();
                step(Action::DeleteTable { netdev, name }, &Origin::default())
            })
    };
    let mut out: Vec<Step> = gone(true).collect();
    for (name, device) in &desired.devices {
        if device.owned_ifb && !observed.devices.contains_key(name) {
            let device_name = name.clone();
            let action = Action::CreateIfb {
                device: device_name,
            };
            out.push(step(action, &device.origin));
        }
    }
    // Offloads are switched off before the gate works, and restored after it is gone.
    let (off, on) = offloads(observed, desired);
    out.extend(off);
    let (come, go) = hooks::steps(observed, desired);
    let ahead = no_tree_goes(observed, desired) && come.is_empty();
    let (early, late): (Vec<&Table>, Vec<&Table>) =
        desired
            .tables
            .iter()
            .partition(|table| match table::twin(observed, table) {
                None => !table.netdev,
                Some(seen) => ahead && seen.devices().eq(table.devices()),
            });
    let set = |tables: Vec<&Table>| {
        let steps = tables
            .into_iter()
            .filter_map(|table| table::step(observed, table));
        steps.collect::<Vec<_>>()
    };
    out.extend(set(early));
    let mut last = Vec::new();
    for (name, device) in &desired.devices {
        let old = observed
            .devices
            .get(name)
            .and_then(|seen| seen.root.as_ref());
        let new = device.root.as_ref().map(|qdisc| settle::qdisc(qdisc, old));
        if !tree::same(old, new.as_ref()) {
            tree::root(&mut out, &mut last, name, old, new.as_ref());
        }
    }
    out.extend(come);
    out.extend(set(late));
    out.extend(last);
    out.extend(go);
    out.extend(table::forgotten(observed, desired));
    out.extend(gone(false));
    out.extend(on);
    for (name, device) in &observed.devices {
        if device.owned_ifb && !desired.devices.contains_key(name) {
            let device = name.clone();
            out.push(step(Action::DeleteIfb { device }, &Origin::default()));
        }
    }
    out
}

/// Returns whether a device gets another root, and no device has an HTB tree that is replaced,
/// whose classes the present rules name.
fn no_tree_goes(observed: &State, desired: &State) -> bool {
    let mut others = false;
    for (name, device) in &desired.devices {
        let seen = observed.devices.get(name);
        let old = seen.and_then(|seen| seen.root.as_ref());
        let new = device.root.as_ref().map(|qdisc| settle::qdisc(qdisc, old));
        if tree::same(old, new.as_ref()) {
            continue;
        }
        if old.is_some_and(|old| matches!(old.kind, QdiscKind::Htb(_))) {
            return false;
        }
        others = true;
    }
    others
}

/// Returns the steps that switch offloads off, and those that switch them on.
fn offloads(observed: &State, desired: &State) -> (Vec<Step>, Vec<Step>) {
    let (mut off, mut on) = (Vec::new(), Vec::new());
    for (name, device) in &desired.devices {
        let seen = observed.devices.get(name);
        let before = seen.and_then(|seen| seen.offloads);
        let settled = settle::offloads(device.offloads, before);
        let Some(offloads) = settled.filter(|wanted| before != Some(*wanted)) else {
            continue;
        };
        let loses = before.is_none_or(|before| {
            (before.tso && !offloads.tso)
                || (before.gso && !offloads.gso)
                || (before.gro && !offloads.gro)
                || before.segments > offloads.segments
        });
        let step = Step {
            action: Action::SetOffloads {
                device: name.clone(),
                offloads,
            },
            origin: device.origin.clone(),
        };
        if loses { off.push(step) } else { on.push(step) }
    }
    (off, on)
}
