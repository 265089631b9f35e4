// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A change that is planned but not made yet.

use super::Site;
use crate::error::KeepError;
use crate::guard::{self, Charge};
use crate::service::names::Names;
use crate::store::folder::Folders;
use crate::store::head::Head;
use crate::store::memory::{Memory, StoredMemory};
use crate::store::table_text::{self, Text};
use std::sync::Arc;
use weirgate_kernel::{KnownTables, Scope, Since};
use weirgate_plan::{Options, Plan, foreign_root, plan_with, verify, with_former};
use weirgate_state::{Device, DeviceName, QdiscKind, State};
use weirgate_units::Inserted as _;

/// A change that is planned but not made yet.
#[derive(Debug, Clone)]
pub struct Planned {
    /// The steps from the present state to the wanted one.
    pub plan: Plan,
    /// The requested state, without what the plan restores elsewhere.
    pub wanted: State,
    /// What the devices had before weirgate.
    pub former: State,
    /// What is known about the tables from which the plan starts.
    pub(super) since: Since,
    /// The memory when the plan was made.
    pub(super) memory: Option<StoredMemory>,
    /// Devices that are not to be shaped and have a root qdisc of another program, which stays.
    pub(super) left: Vec<DeviceName>,
    /// The serialized text of the wanted tables.
    pub(super) tables: Text,
}

impl Planned {
    /// Returns the state that was applied before.
    pub(super) fn applied(&self) -> Option<&State> {
        self.memory.as_ref().map(|stored| &stored.memory.applied)
    }

    /// Returns the state that the memory has after this change. It also has the devices that stay
    /// as they are, so that their offloads are restored when the other program's root is gone.
    pub(super) fn remembered(&self) -> State {
        let mut state = self.plan.desired.clone();
        let applied = self.applied().map(|applied| &applied.devices);
        for name in &self.left {
            if let Some(device) = applied.and_then(|devices| devices.get(name)) {
                let device = Device {
                    root: None,
                    ..device.clone()
                };
                state.devices.insert(name.clone(), device);
            }
        }
        state
    }

    /// Returns what a guard of this change has to know.
    pub(super) fn charge(&self, folders: &Folders, head: Head) -> Charge {
        let before = &self.plan.before;
        let remembered = self
            .applied()
            .is_some_and(|applied| table_text::shared(&applied.tables, &before.tables));
        Charge {
            folders: folders.clone(),
            before: if remembered {
                guard::outline(before)
            } else {
                before.clone()
            },
            remembered,
            desired: guard::outline(&self.plan.desired),
            memory: self.memory.as_ref().map(|stored| Arc::clone(&stored.text)),
            head,
        }
    }

    /// Returns the text of the memory after this change.
    pub(super) fn text(&self, folders: &Folders) -> Result<Arc<[u8]>, KeepError> {
        Memory::text(folders, &self.former, &self.remembered(), &self.tables)
    }

    /// Returns what a change leaves as it is, one sentence for each device.
    pub fn left(&self) -> impl Iterator<Item = String> {
        self.left.iter().map(|name| {
            format!("{name}: its root qdisc is another program's, and stays; so do its offloads")
        })
    }

    /// Returns whether the plan leads to sets that are filled from DNS names or paths.
    pub fn has_names(&self) -> bool {
        self.plan.desired.refreshed_sets().next().is_some()
    }
}

impl Site {
    /// Compares the wanted state with the kernel's. With `adopt`, root qdiscs that weirgate did not
    /// create may be replaced.
    pub async fn plan(&self, wanted: &State, adopt: bool) -> Result<Planned, KeepError> {
        // Create tables with the addresses that are already known for their names.
        let mut wanted = Names::read(&self.folders).fill(wanted);
        // Sort the sets once, because they are compared many times in this form.
        for table in &mut wanted.tables {
            table.sets = table.canonical().sets;
        }
        let wanted = &wanted;
        let tables = table_text::of(&wanted.tables).map_err(|error| KeepError::File {
            path: self.folders.run.clone(),
            source: error.into(),
        })?;
        let memory = Memory::read_knowing(&self.folders, &wanted.tables, &tables)?;
        let applied = memory.as_ref().map(|stored| &stored.memory.applied);
        let empty = State::default();
        let applied_or_none = applied.unwrap_or(&empty);
        let scope = Scope::of([wanted, applied_or_none]);
        // Tables that nobody changed since the last read are not read again.
        let vouched = self.vouched(&Scope::of([applied_or_none])).await?;
        let known = vouched.as_ref().map(|(version, handles)| KnownTables {
            generation: version.generation,
            tables: &applied_or_none.tables,
            handles,
        });
        let observed = self.kernel.observe_knowing(&scope, known).await?;
        let since = Since {
            generation: observed.generation,
            handles: observed.handles,
        };
        let observed = observed.state;
        let mut former = memory
            .as_ref()
            .map_or_else(State::default, |stored| stored.memory.former.clone());
        for (name, device) in &observed.devices {
            if !device.owned_ifb {
                former
                    .devices
                    .entry(name.clone())
                    .or_insert_with(|| found(name, device, &observed, wanted));
            }
        }
        for (name, hooks) in &observed.hooks {
            if hooks.is_bare() {
                former
                    .hooks
                    .entry(name.clone())
                    .or_insert_with(|| hooks.clone());
            }
        }
        let desired = with_former(wanted, &former);
        // A device that is neither wanted nor present needs no steps.
        let mut desired = State {
            devices: desired
                .devices
                .into_iter()
                .filter(|(name, _)| {
                    wanted.devices.contains_key(name) || observed.devices.contains_key(name)
                })
                .inserted(),
            hooks: desired
                .hooks
                .into_iter()
                .filter(|(name, _)| observed.devices.contains_key(name))
                .inserted(),
            ..desired
        };
        let mut left = Vec::new();
        desired.devices.retain(|name, device| {
            let is_shaped = wanted
                .devices
                .get(name)
                .is_some_and(|device| device.root.is_some());
            let stays = !adopt
                && !is_shaped
                && !device.owned_ifb
                && foreign_root(name, device, &observed, applied).is_some();
            if stays {
                left.push(name.clone());
            }
            !stays
        });
        let options = Options {
            previous: applied,
            replace_foreign: adopt,
        };
        let plan = plan_with(&observed, &desired, &options).map_err(KeepError::NoPlan)?;
        Ok(Planned {
            plan,
            wanted: wanted.clone(),
            former,
            since,
            memory,
            left,
            tables,
        })
    }
}

/// Returns the state to restore on a device that the memory does not mention: its present state,
/// unless that is weirgate's own. weirgate's own state may remain if the memory was lost, or the
/// device was renamed before `remove`.
fn found(name: &DeviceName, device: &Device, observed: &State, wanted: &State) -> Device {
    let only = |device: &Device| State::of_device(name.clone(), device.clone());
    let marked = || {
        let mut tables = observed.tables.iter();
        tables.any(|table| table.devices().any(|other| other == name))
    };
    let own = device.root.as_ref().is_some_and(|root| {
        let as_wanted = wanted
            .devices
            .get(name)
            .is_some_and(|wanted| verify(&only(device), &only(wanted)).is_empty());
        let made = matches!(
            root.kind,
            QdiscKind::Htb(_) | QdiscKind::Kit(_) | QdiscKind::Rows(_)
        );
        as_wanted || (made && marked())
    });
    if !own {
        return device.clone();
    }
    // It is not known any more which offloads weirgate had switched.
    Device {
        root: None,
        offloads: None,
        ..device.clone()
    }
}
