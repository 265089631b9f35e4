// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From what a kernel has to what it should have, as ordered steps.
//!
//! [`plan`] compares two [`State`]s and lists the steps between them, least
//! disturbance first: what can be changed in place is changed. [`inverse`] is
//! the way back, [`verify`] says what still differs afterwards. Nothing here
//! talks to a kernel or knows a policy.
//!
//! The order of a plan, so that no packet passes unshaped or unclassified
//! where the state before or the one after shapes it:
//!
//! 1. `netdev` tables that go: nothing is sent to an IFB any more,
//! 2. IFB devices that come, offloads that go,
//! 3. `inet` tables that come: the first packet of a new tree has its class;
//!    so too tables that change where no tree was before, whose classes the
//!    old rules would name,
//! 4. the trees of qdiscs and classes, but for classes that go,
//! 5. what arriving packets get, then tables that change and `netdev` tables
//!    that come: every class they name is there,
//! 6. classes that go: no rule names them any more; what arriving packets get
//!    no longer; kept decisions of rules that are others now are forgotten,
//! 7. `inet` tables that go, offloads that come back, IFB devices that go.

mod action;
mod arriving;
mod check;
mod command;
mod condition;
mod empties;
mod export;
mod hold;
mod kit;
mod loss;
mod model;
mod nft;
mod order;
mod present;
mod receive;
mod settle;
mod table;
mod tree;
mod verify;

pub use action::{Action, Place, Step};
pub use arriving::{
    CONDITION_PREFERENCE, DATAGRAMS_PREFERENCE, HOLD_PREFERENCE, ORDER_PREFERENCE,
    PAYLOAD_PREFERENCE, RESTORE_PREFERENCE, WINDOWS_PREFERENCE,
};
pub use check::Problem;
pub use export::{Export, bare, export};
pub use loss::Loss;
pub use model::{Refusal, run};
pub use present::present;
pub use settle::TICK_NANOS;
pub use verify::{Difference, verify};

use weirgate_state::{Device, Origin, QdiscKind, State, Table};

/// A comparison of two states and the steps from one to the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// What to do, in order; empty where nothing differs.
    pub steps: Vec<Step>,
    /// The state it starts from, to which a failed execution returns.
    pub before: State,
    /// The state it leads to.
    pub desired: State,
}

/// What the two states alone do not say.
#[derive(Debug, Clone, Default)]
pub struct Options<'a> {
    /// The state that weirgate applied last, as the caller remembers it: root
    /// qdiscs found in it may be replaced.
    pub previous: Option<&'a State>,
    /// Root qdiscs that are neither weirgate's nor the kernel's default may be
    /// replaced as well.
    pub replace_foreign: bool,
}

/// The steps from `observed` to `desired`, or every reason why there are none.
///
/// Only devices and tables that `desired` names are touched, and tables and
/// IFB devices of weirgate's that it no longer names. To give back a device
/// that a policy no longer shapes, name it with its former state
/// ([`with_former`]).
pub fn plan(observed: &State, desired: &State) -> Result<Plan, Vec<Problem>> {
    plan_with(observed, desired, &Options::default())
}

/// Like [`plan`], with [`Options`].
pub fn plan_with(
    observed: &State,
    desired: &State,
    options: &Options<'_>,
) -> Result<Plan, Vec<Problem>> {
    let problems = check::problems(observed, desired, options);
    if problems.is_empty() {
        Ok(Plan {
            steps: steps(observed, desired),
            before: observed.clone(),
            desired: desired.clone(),
        })
    } else {
        Err(problems)
    }
}

/// The steps that undo `steps`, which were planned for `observed`.
pub fn inverse(steps: &[Step], observed: &State) -> Result<Vec<Step>, Refusal> {
    let after = run(steps, observed)?;
    Ok(self::steps(&after, observed))
}

/// The desired state that returns to `former` (observed and saved before the
/// first apply) whatever `desired` no longer names: devices that it shaped.
/// With an empty `desired` this is the removal of everything.
///
/// A former root qdisc that cannot be made again becomes the kernel's default;
/// it was replaced because someone said that it may be.
pub fn with_former(desired: &State, former: &State) -> State {
    let mut whole = desired.clone();
    for (name, device) in &former.devices {
        if !device.owned_ifb {
            let root = device.root.as_ref().filter(|root| check::can_be_made(root));
            whole.devices.entry(name.clone()).or_insert_with(|| Device {
                owned_ifb: false,
                offloads: device.offloads,
                root: root.cloned(),
                origin: Origin::default(),
            });
        }
    }
    // A place for arriving packets that was there before stays.
    for (name, place) in &former.arriving {
        whole
            .arriving
            .entry(name.clone())
            .or_insert_with(|| place.clone());
    }
    whole
}

fn steps(observed: &State, desired: &State) -> Vec<Step> {
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
    // Offloads go before the gate works, and come back when it is gone.
    let (off, on) = offloads(observed, desired);
    out.extend(off);
    let (come, go) = arriving::steps(observed, desired);
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

/// Whether some device gets another root, and none of those has a tree, whose
/// classes rules name.
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

/// The changes of offloads that switch something off, and the others.
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
