// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One step of a plan: what it does to the kernel, why, and how it reads.

use crate::diff::hooks;
use crate::diff::table;
use crate::model::kit;
use std::collections::BTreeSet;
use std::fmt;
use weirgate_state::{
    Arriving, DeviceName, HtbClass, Offloads, Origin, Qdisc, QdiscKind, Stab, Table,
};
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
pub enum Place {
    /// At the device.
    Root,
    /// Below a class.
    Class(Handle),
}

impl fmt::Display for Place {
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
        place: Place,
        /// The qdisc alone.
        qdisc: Qdisc,
    },
    /// Puts a qdisc with a new handle in the place of another, in one operation
    /// of the kernel: no packet meets anything else there meanwhile.
    ReplaceQdisc {
        /// The device.
        device: DeviceName,
        /// Where it hangs.
        place: Place,
        /// The new qdisc alone.
        qdisc: Qdisc,
    },
    /// Changes a qdisc's settings; its queue stays.
    ChangeQdisc {
        /// The device.
        device: DeviceName,
        /// Where it hangs.
        place: Place,
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
        place: Place,
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
    SetArriving {
        /// The device.
        device: DeviceName,
        /// What is there.
        before: Option<Arriving>,
        /// What shall be there.
        after: Option<Arriving>,
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
            | Self::SetArriving { device, .. }
            | Self::DeleteIfb { device } => Some(device),
        }
    }
}

fn on(flag: bool) -> &'static str {
    if flag { "on" } else { "off" }
}

/// Family and name of a table, as nft writes them.
pub(crate) fn table_name(netdev: bool, name: &str) -> String {
    format!("{} {name}", if netdev { "netdev" } else { "inet" })
}

impl fmt::Display for Action {
    /// One line of plain English.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DeleteTable { netdev, name } => {
                write!(f, "remove table {}", table_name(*netdev, name))
            }
            Self::CreateIfb { device } => write!(f, "create IFB device {device}"),
            Self::SetOffloads { device, offloads } => {
                let (tso, gso) = (on(offloads.tso), on(offloads.gso));
                let gro = on(offloads.gro);
                write!(f, "{device}: switch tso {tso}, gso {gso}, gro {gro}")?;
                match offloads.segments {
                    None => Ok(()),
                    Some(most) => write!(f, ", gso_max_segs {most}"),
                }
            }
            Self::AddQdisc {
                device,
                place,
                qdisc,
            } => write!(
                f,
                "{device}: add {} {} at {place}",
                qdisc.kind.name(),
                qdisc.handle
            ),
            Self::ReplaceQdisc {
                device,
                place,
                qdisc,
            } => {
                let what = match place {
                    Place::Root => String::from("the root"),
                    Place::Class(id) => format!("the queue of class {id}"),
                };
                let (kind, handle) = (qdisc.kind.name(), qdisc.handle);
                write!(f, "{device}: replace {what} by {kind} {handle}")
            }
            Self::ChangeQdisc {
                device,
                place,
                qdisc,
            } => write!(
                f,
                "{device}: change {} {} at {place}",
                qdisc.kind.name(),
                qdisc.handle
            ),
            Self::ChangeStab {
                device,
                handle,
                stab,
            } => write!(
                f,
                "{device}: {} the size table of {handle}",
                if stab.is_some() { "exchange" } else { "remove" }
            ),
            Self::DeleteQdisc {
                device,
                place,
                handle,
            } => write!(f, "{device}: delete qdisc {handle} at {place}"),
            Self::AddClass { device, class } => write!(
                f,
                "{device}: add class {} below {} with rate {}, ceil {}, prio {}",
                class.id, class.parent, class.rate, class.ceil, class.prio
            ),
            Self::ChangeClass { device, class } => write!(
                f,
                "{device}: change class {} to rate {}, ceil {}, prio {}",
                class.id, class.rate, class.ceil, class.prio
            ),
            Self::DeleteClass { device, id } => write!(f, "{device}: delete class {id}"),
            Self::SetTable { table } => {
                let rules: usize = table.chains.iter().map(|chain| chain.rules.len()).sum();
                write!(
                    f,
                    "set table {}: {rules} rules",
                    table_name(table.netdev, &table.name)
                )
            }
            Self::ChangeTable { before, after } => table::describe(f, before, after),
            Self::ForgetDecisions { values, .. } => write!(
                f,
                "connections: forget {} kept decision{} whose rule changed",
                values.len(),
                if values.len() == 1 { "" } else { "s" }
            ),
            Self::SetArriving { device, after, .. } => hooks::describe(f, device, after.as_ref()),
            Self::DeleteIfb { device } => write!(f, "remove IFB device {device}"),
        }
    }
}

impl fmt::Display for Step {
    /// The action and, where known, the policy line behind it; below, what the
    /// kit's shaper is told.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.action)?;
        if self.origin.line != 0 || !self.origin.reason.is_empty() {
            write!(f, "  # {}", self.origin)?;
        }
        // The kit's classes have no steps of their own.
        match &self.action {
            Action::AddQdisc { qdisc, .. }
            | Action::ReplaceQdisc { qdisc, .. }
            | Action::ChangeQdisc { qdisc, .. } => match &qdisc.kind {
                QdiscKind::Kit(kit) => write!(f, "\n    {}", kit::listed(kit)),
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }
}
