// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From what a kernel has to what it should have, as ordered steps.
//!
//! [`plan`] compares two [`State`]s and lists the steps between them, least
//! disturbance first: what can be changed in place is changed. [`inverse`] is
//! the way back, [`verify`] says what still differs afterwards. Nothing here
//! talks to a kernel or knows a policy.
//!
//! The order of a plan: tables that go, IFB devices that come, offloads that
//! go, the trees of qdiscs and classes, offloads that come back, tables that
//! come or change, IFB devices that go. So a packet is never sent to a device that is not there, and a class is
//! there before a rule names it. At every step each device has a qdisc that
//! passes packets, because HTB passes what it cannot classify.

mod action;
mod check;
mod command;
mod export;
mod loss;
mod model;
mod nft;
mod present;
mod settle;
mod tree;
mod verify;

pub use action::{Action, Place, Step};
pub use check::Problem;
pub use export::{Export, bare, export};
pub use loss::Loss;
pub use model::{Refusal, run};
pub use present::present;
pub use settle::TICK_NANOS;
pub use verify::{Difference, verify};

use weirgate_state::{Device, Origin, State};

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
    whole
}

fn steps(observed: &State, desired: &State) -> Vec<Step> {
    let mut out = Vec::new();
    let wanted = |table: &weirgate_state::Table| {
        desired
            .tables
            .iter()
            .find(|other| (other.netdev, &other.name) == (table.netdev, &table.name))
    };
    for table in &observed.tables {
        if wanted(table).is_none() {
            out.push(Step {
                action: Action::DeleteTable {
                    netdev: table.netdev,
                    name: table.name.clone(),
                },
                origin: Origin::default(),
            });
        }
    }
    for (name, device) in &desired.devices {
        if device.owned_ifb && !observed.devices.contains_key(name) {
            out.push(Step {
                action: Action::CreateIfb {
                    device: name.clone(),
                },
                origin: device.origin.clone(),
            });
        }
    }
    // Offloads go before the gate works, and come back when it is gone.
    let (off, on) = offloads(observed, desired);
    out.extend(off);
    for (name, device) in &desired.devices {
        let old = observed
            .devices
            .get(name)
            .and_then(|seen| seen.root.as_ref());
        let new = device.root.as_ref().map(|qdisc| settle::qdisc(qdisc, old));
        if !tree::same(old, new.as_ref()) {
            tree::root(&mut out, name, old, new.as_ref());
        }
    }
    out.extend(on);
    for table in &desired.tables {
        let same = observed
            .tables
            .iter()
            .any(|seen| seen.canonical() == table.canonical());
        if !same {
            out.push(Step {
                action: Action::SetTable {
                    table: table.clone(),
                },
                origin: Origin::default(),
            });
        }
    }
    for (name, device) in &observed.devices {
        if device.owned_ifb && !desired.devices.contains_key(name) {
            out.push(Step {
                action: Action::DeleteIfb {
                    device: name.clone(),
                },
                origin: Origin::default(),
            });
        }
    }
    out
}

/// The changes of offloads that switch something off, and the others.
fn offloads(observed: &State, desired: &State) -> (Vec<Step>, Vec<Step>) {
    let (mut off, mut on) = (Vec::new(), Vec::new());
    for (name, device) in &desired.devices {
        let seen = observed.devices.get(name);
        let before = seen.and_then(|seen| seen.offloads);
        let Some(offloads) = device.offloads.filter(|wanted| before != Some(*wanted)) else {
            continue;
        };
        let loses = before.is_none_or(|before| {
            (before.tso && !offloads.tso)
                || (before.gso && !offloads.gso)
                || (before.gro && !offloads.gro)
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
