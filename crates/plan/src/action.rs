// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One step of a plan: what it does to the kernel, and why. Its text is in `text::step`.

use std::collections::BTreeSet;
use std::fmt;
use weirgate_state::{DeviceName, HookPrograms, HtbClass, Offloads, Origin, Qdisc, Stab, Table};
use weirgate_units::Handle;

/// A step with its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// What is done.
    pub action: Action,
    /// The policy line that requires it; empty for removals.
    pub origin: Origin,
}

/// The parent of a qdisc.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QdiscParent {
    /// The device: a root qdisc.
    Root,
    /// A class.
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

/// A change that the kernel makes completely or refuses.
///
/// A qdisc is here without what is below it: HTB without classes, a class without its leaf. Those
/// have steps of their own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Removes a table with its chains.
    DeleteTable {
        /// True for the `netdev` family.
        netdev: bool,
        /// Its name.
        name: String,
    },
    /// Creates an IFB device, sets weirgate's alias and brings it up.
    CreateIfb {
        /// Its name.
        device: DeviceName,
    },
    /// Switches offloads.
    SetOffloads {
        /// The device.
        device: DeviceName,
        /// The wanted offloads.
        offloads: Offloads,
    },
    /// Adds a qdisc in place of the kernel's default.
    AddQdisc {
        /// The device.
        device: DeviceName,
        /// Its parent.
        parent: QdiscParent,
        /// The qdisc alone.
        qdisc: Qdisc,
    },
    /// Replaces a qdisc by one with a new handle, in one operation of the kernel: packets never see
    /// anything else there in between.
    ReplaceQdisc {
        /// The device.
        device: DeviceName,
        /// Its parent.
        parent: QdiscParent,
        /// The new qdisc alone.
        qdisc: Qdisc,
    },
    /// Changes a qdisc's settings; its queue stays.
    ChangeQdisc {
        /// The device.
        device: DeviceName,
        /// Its parent.
        parent: QdiscParent,
        /// The qdisc alone, with its new settings.
        qdisc: Qdisc,
    },
    /// Replaces the root's size table; the tree and its queues stay.
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
        /// Its parent.
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
    /// Creates a whole table, or replaces the one of its name, in one transaction.
    SetTable {
        /// The table.
        table: Table,
    },
    /// Changes a table in one transaction: what differs is rewritten, and everything else keeps its
    /// counters and meters.
    ChangeTable {
        /// The present table.
        before: Table,
        /// The wanted table.
        after: Table,
    },
    /// Clears decisions that are stored in marks of connections, if the rule that decided has
    /// changed or is gone: the next packet is decided again.
    ForgetDecisions {
        /// The bits of the mark that contain decisions.
        mask: u32,
        /// The decisions, as values in the mark.
        values: BTreeSet<u32>,
    },
    /// Creates, changes or removes weirgate's filters and programs at a device's hooks, in one
    /// call: first the `clsact` qdisc if there is none, then the filters. The qdisc is removed with
    /// the last filter, unless `after` keeps it or other programs have filters there.
    SetHooks {
        /// The device.
        device: DeviceName,
        /// The present programs.
        before: Option<HookPrograms>,
        /// The wanted programs.
        after: Option<HookPrograms>,
    },
    /// Removes an IFB device of weirgate's.
    DeleteIfb {
        /// Its name.
        device: DeviceName,
    },
}

impl Action {
    /// Returns the device that changes, if there is one.
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
