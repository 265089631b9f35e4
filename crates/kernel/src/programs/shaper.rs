// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kit's shaper in a plan: its program is loaded when a step needs it, configured through its
//! maps, and unloaded when no device has it.

use crate::Kernel;
use crate::error::KernelError;
use crate::namespace::within;
use crate::programs::pins;
use std::path::Path;
use weirgate_bpf::{AttachPoint, BpfError, Classes, Shaper, Store, own_of};
use weirgate_plan::{Action, Step};
use weirgate_state::{DeviceName, Kit, QdiscKind};

/// Returns the shaper of a step, its device, and whether it is there already.
pub(crate) fn of_step(action: &Action) -> Option<(&DeviceName, &Kit, bool)> {
    let (device, qdisc, there) = match action {
        Action::AddQdisc { device, qdisc, .. } | Action::ReplaceQdisc { device, qdisc, .. } => {
            (device, qdisc, false)
        }
        Action::ChangeQdisc { device, qdisc, .. } => (device, qdisc, true),
        _ => return None,
    };
    match &qdisc.kind {
        QdiscKind::Kit(kit) => Some((device, kit, there)),
        _ => None,
    }
}

impl Kernel {
    /// Loads the shaper if necessary, and configures it for a device: effective at once if it is
    /// `there`, otherwise as soon as it is put on the device.
    pub(crate) async fn set_kit(
        &self,
        step: &Step,
        device: u32,
        (kit, there): (&Kit, bool),
    ) -> Result<(), KernelError> {
        let object = || step.action.to_string();
        let point = self.point(device).await?;
        let opened = pins::store().await;
        let configure = || {
            let own = own_of(kit)?;
            let classes = Classes::of_kit(kit, own)?;
            let store = opened?;
            let shaper = store.shaper_or_load(own)?;
            self.mark(&store, &shaper, point, &classes)?;
            if there {
                shaper.set(point, &classes)
            } else {
                shaper.prepare(point, &classes)
            }
        };
        configure().map_err(|source| KernelError::Kit {
            object: object(),
            source,
        })
    }

    /// Enables or disables ECN marks of a shaper. Fails if the kernel refuses the program for it,
    /// because packets would be dropped instead of marked.
    fn mark(
        &self,
        store: &Store,
        shaper: &Shaper,
        point: AttachPoint,
        classes: &Classes,
    ) -> Result<(), BpfError> {
        if !classes.mark() {
            return store.unmark(shaper, point);
        }
        if store.marks(shaper, point)? {
            return Ok(());
        }
        let marked = within(self.netns.as_ref(), || store.mark(shaper, point));
        marked.map_err(BpfError::Namespace).flatten()
    }

    /// Returns the configuration of the shaper at a device's root; `None` if there is none, or this
    /// process may not read it.
    pub(crate) async fn read_kit(
        &self,
        device: u32,
        kind: &QdiscKind,
    ) -> Result<Option<Kit>, KernelError> {
        let kind = kind.name();
        if !Kit::is_kind(kind) || !Store::shaper_folder(kind).exists() {
            return Ok(None);
        }
        let (Ok(point), Some(store)) = (self.point(device).await, pins::readable(kind).await?)
        else {
            return Ok(None);
        };
        let read = || {
            let shaper = store.shaper(kind).ok()??;
            let marks = store.marks(&shaper, point).ok()?;
            shaper.setup(point).ok()??.kit(marks, shaper.own())
        };
        Ok(read())
    }

    /// Removes the settings of devices of this namespace that have no shaper, and unloads the
    /// program with the last one.
    pub(crate) async fn tidy_kit(&self) -> Result<(), KernelError> {
        if !Store::has_shapers() {
            return Ok(());
        }
        let own = self.point(0).await?.netns;
        let opened = pins::store().await;
        let tidied = opened.and_then(|store| store.tidy_shapers(own));
        tidied.map_err(|source| KernelError::Kit {
            object: format!("unload {}", Kit::KIND),
            source,
        })
    }

    /// Returns whether any device has a BPF qdisc of weirgate: the kit's shaper, or an engine of
    /// rows.
    #[must_use]
    pub fn has_programs() -> bool {
        Store::has_shapers() || Path::new(Store::ROWS_FOLDER).exists()
    }

    /// Returns the attach point of a device's root in this namespace.
    pub(crate) async fn point(&self, ifindex: u32) -> Result<AttachPoint, KernelError> {
        let netns = self.route.namespace().await;
        let netns = netns.map_err(|error| KernelError::Kit {
            object: format!("find where {} is", Kit::KIND),
            source: BpfError::Namespace(error),
        })?;
        Ok(AttachPoint {
            netns,
            ifindex,
            queue: 0,
        })
    }
}
