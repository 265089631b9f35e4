// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One step of a plan: what it does to the kernel, and why. How it reads is in
//! `text::step`.

use std::collections::BTreeSet;
use std::fmt;
use weirgate_state::{DeviceName, HookPrograms, HtbClass, Offloads, Origin, Qdisc, Stab, Table};
use weirgate_units::Handle;

/// A step with its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// What is done.
    pub action: Action,
    /// The policy line that wants it; empty for removals.
    pub origin: Origin,
}

/// Where a qdisc hangs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QdiscParent {
    /// At the device.
    Root,
    /// Below a class.
    Class(Handle),
}

impl fmt::Display for QdiscParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => f.write_str("root"),
            Self::Class(id) => write!(f, "parent {id}"),
        }
    }
}

/// A change that the kernel makes whole or refuses.
///
/// Qdiscs come here without what is below them: HTB without classes, classes
/// without their leaf. Those have steps of their own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Removes a table with its chains.
    DeleteTable {
        /// True for the `netdev` family.
        netdev: bool,
        /// Its name.
        name: String,
    },
    /// Creates an IFB device, marks it as weirgate's and sets it up.
    CreateIfb {
        /// Its name.
        device: DeviceName,
    },
    /// Switches offloads.
    SetOffloads {
        /// The device.
        device: DeviceName,
        /// How they shall be.
        offloads: Offloads,
    },
    /// Adds a qdisc where the kernel's default is.
    AddQdisc {
        /// The device.
        device: DeviceName,
        /// Where it hangs.
        parent: QdiscParent,
        /// The qdisc alone.
        qdisc: Qdisc,
    },
    /// Puts a qdisc with a new handle in the place of another, in one operation
    /// of the kernel: no packet meets anything else there meanwhile.
    ReplaceQdisc {
        /// The device.
        device: DeviceName,
        /// Where it hangs.
        parent: QdiscParent,
        /// The new qdisc alone.
        qdisc: Qdisc,
    },
    /// Changes a qdisc's settings; its queue stays.
    ChangeQdisc {
        /// The device.
        device: DeviceName,
        /// Where it hangs.
        parent: QdiscParent,
        /// The qdisc alone, with its new settings.
        qdisc: Qdisc,
    },
    /// Exchanges the root's size table; the tree and its queues stay.
    ChangeStab {
        /// The device.
        device: DeviceName,
        /// The root's handle.
        handle: Handle,
        /// The new table; `None` removes it.
        stab: Option<Stab>,
    },
    /// Deletes a qdisc; the kernel's default takes its place.
    DeleteQdisc {
        /// The device.
        device: DeviceName,
        /// Where it hangs.
        parent: QdiscParent,
        /// Its handle.
        handle: Handle,
    },
    /// Adds an HTB class.
    AddClass {
        /// The device.
        device: DeviceName,
        /// The class without its leaf.
        class: HtbClass,
    },
    /// Changes an HTB class; its queue stays.
    ChangeClass {
        /// The device.
        device: DeviceName,
        /// The class without its leaf, with its new settings.
        class: HtbClass,
    },
    /// Deletes an HTB class with its queue.
    DeleteClass {
        /// The device.
        device: DeviceName,
        /// Its id.
        id: Handle,
    },
    /// Puts a whole table in place, instead of one of its name if there is
    /// one, in one transaction.
    SetTable {
        /// The table.
        table: Table,
    },
    /// Makes one table of another in one transaction: what differs is written
    /// anew, everything else keeps its counts and its memory.
    ChangeTable {
        /// The table as it is.
        before: Table,
        /// The table as it shall be.
        after: Table,
    },
    /// Clears decisions that connections keep in their marks, where the rule
    /// that decided is another now or gone: the next packet is decided anew.
    ForgetDecisions {
        /// The bits of the mark that hold decisions.
        mask: u32,
        /// The decisions, as they stand in the mark.
        values: BTreeSet<u32>,
    },
    /// Makes, changes or removes what weirgate has where packets arrive at a
    /// device, in one call: the place itself where there is none, then the
    /// filters. The place goes with the last filter unless `after` keeps it or
    /// others have filters there.
    SetHooks {
        /// The device.
        device: DeviceName,
        /// What is there.
        before: Option<HookPrograms>,
        /// What shall be there.
        after: Option<HookPrograms>,
    },
    /// Removes an IFB device of weirgate's.
    DeleteIfb {
        /// Its name.
        device: DeviceName,
    },
}

impl Action {
    /// The device that changes, where it is one.
    pub fn device(&self) -> Option<&DeviceName> {
        match self {
            Self::DeleteTable { .. }
            | Self::SetTable { .. }
            | Self::ChangeTable { .. }
            | Self::ForgetDecisions { .. } => None,
            Self::CreateIfb { device }
            | Self::SetOffloads { device, .. }
            | Self::AddQdisc { device, .. }
            | Self::ReplaceQdisc { device, .. }
            | Self::ChangeQdisc { device, .. }
            | Self::ChangeStab { device, .. }
            | Self::DeleteQdisc { device, .. }
            | Self::AddClass { device, .. }
            | Self::ChangeClass { device, .. }
            | Self::DeleteClass { device, .. }
            | Self::SetHooks { device, .. }
            | Self::DeleteIfb { device } => Some(device),
        }
    }
}
