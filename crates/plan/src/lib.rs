// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Orders the steps from the state that a kernel has to the state that it should have.
//!
//! [`plan`] compares two [`State`]s and lists the steps between them, least
//! disturbance first: what can be changed in place is changed. [`inverse`] is the plan back, and
//! [`verify`] reports what still differs afterwards. Nothing here talks to a kernel or knows a
//! policy.
//!
//! ```
//! use weirgate_plan::{plan, run, verify};
//! use weirgate_state::State;
//!
//! # fn main() -> Result<(), Vec<weirgate_plan::Problem>> {
//! let (observed, desired) = (State::default(), State::default());
//! let plan = plan(&observed, &desired)?;
//! assert!(plan.steps.is_empty(), "nothing differs");
//! let after = run(&plan.steps, &observed).expect("steps that this state takes");
//! assert!(verify(&after, &desired).is_empty());
//! # Ok(())
//! # }
//! ```
//!
//! The order of a plan. No packet passes unshaped or unclassified if the old or the new state
//! shapes it:
//!
//! 1. `netdev` tables that are removed: nothing is redirected to an IFB from
//!    then on,
//! 2. IFB devices that are created, offloads that are switched off,
//! 3. `inet` tables that are added, so that the first packet of a new tree has
//!    its class. Also tables that change if there was no tree before, whose
//!    classes the old rules would name,
//! 4. the trees of qdiscs and classes, except classes that are deleted,
//! 5. hooks for arriving packets, then tables that change and `netdev` tables
//!    that are added: every class that they name exists,
//! 6. classes that are deleted, which no rule names now; hooks that arriving
//!    packets no longer pass; kept decisions of rules that have changed,
//! 7. `inet` tables that are removed, offloads that are restored, IFB devices
//!    that are deleted.

mod action;
mod check;
mod diff;
mod empties;
mod loss;
mod model;
mod present;
mod routing;
mod text;
mod verify;

pub use action::{Action, QdiscParent, Step};
pub use check::{Problem, foreign_root, is_plannable};
pub use diff::hooks::RESTORE_PREFERENCE;
pub use loss::Loss;
pub use model::settle::TICK_NANOS;
pub use model::{Refusal, run};
pub use present::present;
pub use routing::{RoutingStep, plan_routing};
pub use text::script::{Export, bare, export};
pub use verify::{Difference, verify};

use weirgate_state::{Device, Origin, State};

/// A comparison of two states, and the steps from one to the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The steps, in order; empty if nothing differs.
    pub steps: Vec<Step>,
    /// The state before, to which a failed execution returns.
    pub before: State,
    /// The state after the steps.
    pub desired: State,
}

/// Information that is not in the two states.
#[derive(Debug, Clone, Default)]
pub struct Options<'a> {
    /// The state that weirgate applied last, as the caller remembers it. Root qdiscs of it may be
    /// replaced.
    pub previous: Option<&'a State>,
    /// Whether root qdiscs that are neither weirgate's nor the kernel's default may be replaced
    /// too.
    pub replace_foreign: bool,
}

/// Returns the steps from `observed` to `desired`, or every reason against them.
///
/// Only devices and tables that `desired` names are touched, and weirgate's tables and IFB devices
/// that it no longer names. To restore a device that a policy no longer shapes, name it with its
/// former state ([`with_former`]).
pub fn plan(observed: &State, desired: &State) -> Result<Plan, Vec<Problem>> {
    plan_with(observed, desired, &Options::default())
}

/// Does the same as [`plan`], with [`Options`].
pub fn plan_with(
    observed: &State,
    desired: &State,
    options: &Options<'_>,
) -> Result<Plan, Vec<Problem>> {
    let problems = check::problems(observed, desired, options);
    if problems.is_empty() {
        Ok(Plan {
            steps: diff::steps(observed, desired),
            before: observed.clone(),
            desired: desired.clone(),
        })
    } else {
        Err(problems)
    }
}

/// Returns the steps that undo `steps`, which were planned for `observed`.
pub fn inverse(steps: &[Step], observed: &State) -> Result<Vec<Step>, Refusal> {
    let after = run(steps, observed)?;
    Ok(diff::steps(&after, observed))
}

/// Returns the desired state with the `former` state (observed and stored before the first apply)
/// of the devices that `desired` no longer names. With an empty `desired`, this removes everything.
///
/// A former root qdisc that cannot be created again becomes the kernel's default. The user has
/// allowed its replacement.
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
    // A `clsact` qdisc that was there before stays.
    for (name, hooks) in &former.hooks {
        whole
            .hooks
            .entry(name.clone())
            .or_insert_with(|| hooks.clone());
    }
    whole
}
