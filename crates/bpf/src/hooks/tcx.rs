// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Programs at a device's hooks that are attached by tcx instead of as filters, because the hook
//! qdisc belongs to another program and does not allow filters.
//!
//! A pin holds each of them. Its name contains the device, the hook, and the preference and name
//! of the corresponding filter.
//!
//! tcx runs programs before filters, in the order of attachment. A program with a lower
//! preference is therefore inserted before those with higher ones.

use super::FoundFilter;
use crate::error::BpfError;
use crate::programs::tcx::{self, Attached, End, Pinned};
use crate::qdisc::attach_point::AttachPoint;
use crate::qdisc::load::remove;
use crate::qdisc::store::Store;
use std::fs;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use weirgate_state::ClsactHook;
use weirgate_units::Arrange as _;

/// The folder of their pins; no discipline has this name.
const FOLDER: &str = "tcx";

/// A program that is attached to a hook by tcx.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TcxProgram {
    /// The device.
    pub point: AttachPoint,
    /// The hook.
    pub hook: ClsactHook,
    /// The preference of the corresponding filter.
    pub preference: u16,
    /// The name of the corresponding filter.
    pub name: String,
}

impl Store {
    /// The folder for their pins.
    pub const TCX_FOLDER: &'static str = "/sys/fs/bpf/weirgate/tcx";

    /// Returns all pinned programs in the order in which they run, including those of devices
    /// that no longer exist.
    pub fn tcx_programs(&self) -> Vec<TcxProgram> {
        let entries = fs::read_dir(self.folder().join(FOLDER));
        let names = entries.into_iter().flatten().flatten();
        let mut found: Vec<TcxProgram> = names
            .filter_map(|entry| parsed(&entry.file_name().into_string().ok()?))
            .collect();
        found.arrange_by_key(|one| one.preference);
        found
    }

    /// Returns the program in the form of a filter; `None` if it is no longer attached.
    pub fn tcx_filter(&self, one: &TcxProgram) -> Option<FoundFilter> {
        let Pinned { program, .. } = tcx::on(&self.pin_of(one), one.point.ifindex)?;
        Some(FoundFilter {
            id: program,
            name: one.name.clone(),
            direct: true,
        })
    }

    /// Attaches a program to a device in the network namespace of this thread, replacing one
    /// with the same hook and preference.
    pub fn put_tcx(&self, one: &TcxProgram, program: BorrowedFd<'_>) -> Result<(), BpfError> {
        let folder = self.folder().join(FOLDER);
        fs::create_dir_all(&folder).map_err(|source| BpfError::File {
            path: folder.clone(),
            doing: "made",
            source,
        })?;
        for before in self.tcx_programs() {
            if before.is_at(one.point, one.hook, one.preference) {
                self.remove_tcx(&before)?;
            }
        }
        let later = |other: &TcxProgram| {
            let same = other.point == one.point && other.hook == one.hook;
            same.then(|| tcx::on(&self.pin_of(other), one.point.ifindex))?
        };
        let mut others = self.tcx_programs();
        others.retain(|other| other.preference > one.preference);
        let next = others.iter().find_map(later);
        let end = match one.hook {
            ClsactHook::Ingress => End::Ingress,
            ClsactHook::Egress => End::Egress,
        };
        let attached = Attached::before(program, one.point.ifindex, end, next.as_ref());
        let attached = attached.map_err(|source| BpfError::Program {
            name: "of a hook",
            doing: "put on the device (tcx, Linux 6.6)",
            source,
        })?;
        attached.pin(&self.pin_of(one))
    }

    /// Detaches the program from its device.
    pub fn remove_tcx(&self, one: &TcxProgram) -> Result<(), BpfError> {
        remove(&self.pin_of(one), |path: &Path| fs::remove_file(path))?;
        // Ignore the error: the folder is removed only once it is empty.
        let _ = fs::remove_dir(self.folder().join(FOLDER));
        Ok(())
    }

    fn pin_of(&self, one: &TcxProgram) -> PathBuf {
        let AttachPoint { netns, ifindex, .. } = one.point;
        let (hook, preference, own) = (one.hook.as_str(), one.preference, &one.name);
        let name = format!("{netns}-{ifindex}-{hook}-{preference}-{own}");
        self.folder().join(FOLDER).join(name)
    }
}

impl TcxProgram {
    /// Returns whether it is the program of this device, hook and preference.
    #[must_use]
    pub fn is_at(&self, point: AttachPoint, hook: ClsactHook, preference: u16) -> bool {
        (self.point, self.hook, self.preference) == (point, hook, preference)
    }
}

/// Parses the name of a pin.
fn parsed(name: &str) -> Option<TcxProgram> {
    let mut words = name.splitn(5, '-');
    let point = AttachPoint {
        netns: words.next()?.parse().ok()?,
        ifindex: words.next()?.parse().ok()?,
        queue: 0,
    };
    let hook = words.next()?;
    let hooks = [ClsactHook::Ingress, ClsactHook::Egress];
    Some(TcxProgram {
        point,
        hook: hooks.into_iter().find(|one| one.as_str() == hook)?,
        preference: words.next()?.parse().ok()?,
        name: words.next()?.to_owned(),
    })
}
