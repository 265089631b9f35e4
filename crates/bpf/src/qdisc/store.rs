// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Qdisc kinds that outlive the process that loaded them. Each has a folder of pins in the BPF
//! file system.

use crate::error::BpfError;
use crate::maps;
use crate::programs::tcx;
use crate::qdisc::attach_point::AttachPoint;
use crate::qdisc::circuits::CircuitTree;
use crate::qdisc::discipline::{self as qdisc, Qdisc};
use crate::qdisc::kind::{Host, Kind};
use crate::qdisc::load::{Shared, is_pinned, remove as remove_with, unpin};
use crate::qdisc::pins::{CIRCUITS, FILE_SYSTEM, FOLDER, Pins, failed};
use crate::qdisc::rows::RowTree;
use crate::qdisc::shaper::own::of_kind;
use crate::qdisc::shaper::{self, Shaper};
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};
use weirgate_aqm::Discipline;
use weirgate_state::{Kit, Rows};
use weirgate_units::Arrange as _;

/// The folder with one folder for each tree of a policy; no discipline has this name.
const ROWS: &str = "rows";

/// The prefix of the names of qdisc kinds.
const KIND: &str = "weir_";

/// The prefix of the pins of programs that apply ECN marks.
const MARKER: &str = "marks-";

/// How long a command waits for the lock. Loading a program takes less.
const PATIENCE: Duration = Duration::from_secs(3);

/// The interval of its attempts.
const STEP: Duration = Duration::from_millis(10);

/// The folder of all pins, with a part of them locked for exclusive use.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    /// Holds the lock; the kernel releases it if the process dies.
    _lock: File,
}

impl Store {
    /// Returns whether any shaper is loaded, if this process may read the pins.
    pub fn has_shapers() -> bool {
        let entries = fs::read_dir(Path::new(FILE_SYSTEM).join(FOLDER));
        let mut names = entries
            .into_iter()
            .flatten()
            .flatten()
            .map(|one| one.file_name());
        names.any(|name| Kit::is_kind(&format!("{KIND}{}", name.to_string_lossy())))
    }

    /// Opens the shaper of this kind without the lock, for reading. Returns `None` if it is not
    /// loaded, or if this process lacks the permission.
    pub fn shaper_unlocked(kind: &str) -> Option<Shaper> {
        Shaper::pinned(of_kind(kind).ok()?, &Self::shaper_folder(kind)).ok()
    }

    /// Returns the folder for the pins of a shaper of this kind.
    pub fn shaper_folder(kind: &str) -> PathBuf {
        [FILE_SYSTEM, FOLDER, folder_of(kind)].iter().collect()
    }

    /// The folder for the pins of the trees of policies.
    pub const ROWS_FOLDER: &'static str = "/sys/fs/bpf/weirgate/rows";

    /// Locks the pins of policies, for a command. Mounts the BPF file system if necessary. Needs
    /// root.
    ///
    /// # Errors
    /// [`BpfError::Held`] if another process keeps the lock for three seconds.
    pub fn open() -> Result<Self, BpfError> {
        Self::open_within(Pins::Policies, PATIENCE)
    }

    /// Locks pins; waits at most for `patience`. Needs root.
    ///
    /// # Errors
    /// [`BpfError::Held`] if another process keeps the lock longer.
    pub fn open_within(pins: Pins, patience: Duration) -> Result<Self, BpfError> {
        let begin = Instant::now();
        loop {
            if let Some(store) = Self::open_if_free(pins)? {
                return Ok(store);
            }
            if begin.elapsed() >= patience {
                return Err(Self::held(pins));
            }
            thread::sleep(STEP);
        }
    }

    /// Locks pins, or returns `None` if another process holds the lock. Needs root.
    pub fn open_if_free(pins: Pins) -> Result<Option<Self>, BpfError> {
        let lock = pins.open()?;
        let folder = Path::new(FILE_SYSTEM).join(FOLDER);
        match lock.try_lock() {
            Ok(()) => Ok(Some(Self {
                folder,
                _lock: lock,
            })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(failed(&folder, "locked")(error)),
        }
    }

    /// Returns the error of a lock that another process keeps, with the name of that process.
    #[must_use]
    pub fn held(pins: Pins) -> BpfError {
        pins.held()
    }

    /// Returns the folder of all pins.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the qdisc kind of a discipline, if it is pinned.
    pub fn qdisc(&self, discipline: Discipline) -> Result<Option<Qdisc>, BpfError> {
        let pinned = |folder: &Path| Qdisc::pinned(discipline, folder);
        self.pinned(discipline.name(), pinned)
    }

    /// Returns the qdisc kind of a discipline; loads and pins it if necessary.
    pub fn qdisc_or_load(&self, discipline: Discipline) -> Result<Qdisc, BpfError> {
        match self.qdisc(discipline)? {
            Some(qdisc) => Ok(qdisc),
            None => self.pin(discipline.name(), &qdisc::maps(), || {
                Qdisc::load(discipline)
            }),
        }
    }

    /// Returns the names of all pinned disciplines, including those of users.
    pub fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries
            .filter(|entry| is_pinned(&entry.path()))
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter(|name| !Kit::is_kind(&format!("{KIND}{name}")))
            .collect();
        names.arrange();
        names
    }

    /// Removes the pins of a discipline; the kernel unloads it when no device uses it any more.
    pub fn remove_qdisc(&self, discipline: Discipline) -> Result<(), BpfError> {
        self.remove(discipline.name(), &qdisc::maps())
    }

    /// Returns the shaper of this kind, with or without a user's discipline, if it is pinned.
    pub fn shaper(&self, kind: &str) -> Result<Option<Shaper>, BpfError> {
        self.pinned(folder_of(kind), |folder| {
            Shaper::pinned(of_kind(kind)?, folder)
        })
    }

    /// Returns the shaper with a user's discipline; loads and pins it if necessary. It shares
    /// the maps of the pinned shapers, so that it can take over the backlog of one that it
    /// replaces.
    pub fn shaper_or_load(&self, own: Option<Discipline>) -> Result<Shaper, BpfError> {
        let kind = shaper::kind_of(own);
        if let Some(shaper) = self.shaper(&kind)? {
            return Ok(shaper);
        }
        let shared = self.shared_maps(own)?;
        own.map_or(Ok(()), shaper::own::keep)?;
        self.pin(folder_of(&kind), &shaper::maps(own), || {
            Shaper::load_with(own, &shared)
        })
    }

    /// Returns the kinds of shapers that are pinned.
    pub fn shapers(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let mut kinds: Vec<String> = entries
            .filter(|entry| is_pinned(&entry.path()))
            .filter_map(|entry| Some(format!("{KIND}{}", entry.file_name().to_str()?)))
            .filter(|kind| Kit::is_kind(kind))
            .collect();
        kinds.arrange();
        kinds
    }

    /// Returns maps of pinned shapers that a new one can share: the common maps, and the queues
    /// of another version of the user's discipline with the same layout.
    fn shared_maps(&self, own: Option<Discipline>) -> Result<Shared, BpfError> {
        let mut shared = Shared::new();
        for kind in self.shapers() {
            // If the file of the discipline is missing, the common maps are still usable.
            let other = of_kind(&kind).unwrap_or(None);
            let alike = other
                .filter(|other| own.is_some_and(|own| own.leaf_number() == other.leaf_number()));
            for name in shaper::maps(alike) {
                if shared.iter().any(|(known, _)| *known == name) {
                    continue;
                }
                let folder = self.folder.join(folder_of(&kind));
                shared.push((name, maps::pinned(&folder, name)?));
            }
        }
        Ok(shared)
    }

    /// Removes the settings of attach points without a shaper in a network namespace, and the
    /// pins of kinds that no device uses.
    pub fn tidy_shapers(&self, netns: u64) -> Result<(), BpfError> {
        for kind in self.shapers() {
            let Ok(Some(shaper)) = self.shaper(&kind) else {
                // The file of its discipline is missing. A device may still use the kind, so
                // keep it.
                continue;
            };
            let mut elsewhere = false;
            for point in shaper.points() {
                if shaper.number(point)?.is_some() {
                    continue;
                }
                if point.netns == netns {
                    self.unmark(&shaper, point)?;
                    shaper.unset(point)?;
                } else {
                    elsewhere = true;
                }
            }
            if !elsewhere && !shaper.is_of_a_device()? {
                self.remove(folder_of(&kind), &shaper::maps(shaper.own()))?;
            }
        }
        Ok(())
    }

    /// Removes the pins of a shaper; the kernel unloads it when no device uses it any more.
    pub fn remove_shaper(&self, shaper: &Shaper) -> Result<(), BpfError> {
        self.remove(folder_of(shaper.kind()), &shaper::maps(shaper.own()))
    }

    /// Returns the circuits of a device, if they are pinned.
    pub fn circuits(&self, point: AttachPoint) -> Result<Option<CircuitTree>, BpfError> {
        CircuitTree::pinned(point, &Self::circuits_folder(point))
    }

    /// Returns whether circuits that were opened earlier are still those of the device.
    pub fn are_circuits(&self, point: AttachPoint, tree: &CircuitTree) -> Result<bool, BpfError> {
        tree.is_pinned_in(&Self::circuits_folder(point))
    }

    /// Attaches the programs of circuits to their device and pins everything. If that fails,
    /// nothing stays attached or pinned.
    pub fn keep_circuits(
        &self,
        point: AttachPoint,
        tree: &mut CircuitTree,
    ) -> Result<(), BpfError> {
        let folder = Self::circuits_folder(point);
        let attached = tree.attach(point)?;
        fs::create_dir_all(&folder).map_err(|source| BpfError::File {
            path: folder.clone(),
            doing: "made",
            source,
        })?;
        tree.pin(&folder, &attached).inspect_err(|_| {
            // Report the first error only.
            let _ = CircuitTree::unpin(&folder);
        })
    }

    /// Returns whether the programs of a device's circuits are attached to it.
    pub fn circuits_are_on(&self, point: AttachPoint) -> bool {
        CircuitTree::is_attached(point, &Self::circuits_folder(point))
    }

    /// Attaches the programs of a device's circuits again.
    pub fn put_circuits_on(&self, point: AttachPoint, tree: &CircuitTree) -> Result<(), BpfError> {
        tree.attach_again(point, &Self::circuits_folder(point))
    }

    /// Returns the attach points with pinned circuits in the network namespace of this thread,
    /// even if the device no longer exists. The result is empty if this process may not read the
    /// pins.
    pub fn circuits_points() -> Result<Vec<AttachPoint>, BpfError> {
        let own = AttachPoint::root(0)?.netns;
        let folder: PathBuf = [FILE_SYSTEM, FOLDER, CIRCUITS].iter().collect();
        let entries = fs::read_dir(folder).into_iter();
        let names = entries.flatten().flatten().map(|entry| entry.file_name());
        let point = |name: std::ffi::OsString| {
            let (netns, ifindex) = name.to_str()?.split_once('-')?;
            let point = AttachPoint {
                netns: netns.parse().ok()?,
                ifindex: ifindex.parse().ok()?,
                queue: 0,
            };
            (point.netns == own).then_some(point)
        };
        Ok(names.filter_map(point).collect())
    }

    /// Removes the circuits of a device that no longer has their qdisc.
    pub fn remove_circuits(&self, point: AttachPoint) -> Result<(), BpfError> {
        CircuitTree::unpin(&Self::circuits_folder(point))
    }

    /// Returns the folder for the pins of a device's circuits.
    pub(crate) fn circuits_folder(point: AttachPoint) -> PathBuf {
        let device = format!("{}-{}", point.netns, point.ifindex);
        [FILE_SYSTEM, FOLDER, CIRCUITS, &device].iter().collect()
    }

    /// Returns the tree of a device, if it is pinned.
    pub fn rows(&self, point: AttachPoint) -> Result<Option<RowTree>, BpfError> {
        RowTree::pinned(point, &self.rows_folder(point))
    }

    /// Returns the configuration of a device's tree; `None` if it has none.
    pub fn configured_rows(&self, point: AttachPoint) -> Result<Option<Rows>, BpfError> {
        let Some(tree) = self.rows(point)? else {
            return Ok(None);
        };
        let folder = self.rows_folder(point);
        tree.rows(tree.marks(point, &folder)?, tree.hosts(point, &folder)?)
    }

    /// Configures the tree of a device; loads and pins it if necessary. The attach point must be
    /// in the network namespace of this thread.
    pub fn set_rows(&self, point: AttachPoint, rows: &Rows) -> Result<(), BpfError> {
        let folder = self.rows_folder(point);
        let tree = if let Some(tree) = self.rows(point)? {
            tree
        } else {
            // A dead process may have left some pins.
            RowTree::unpin(&folder)?;
            let mut tree = RowTree::load(point)?;
            fs::create_dir_all(&folder).map_err(|source| BpfError::File {
                path: folder.clone(),
                doing: "made",
                source,
            })?;
            tree.pin(&folder).inspect_err(|_| {
                // Report the first error only.
                let _ = RowTree::unpin(&folder);
            })?;
            tree
        };
        tree.mark(point, &folder, rows.marks)?;
        tree.tell_hosts(point, &folder, rows.hosts)?;
        tree.set(rows)
    }

    /// Removes the tree of a device that no longer has its qdisc.
    pub fn remove_rows(&self, point: AttachPoint) -> Result<(), BpfError> {
        RowTree::unpin(&self.rows_folder(point))?;
        // Ignore the error: the common folder is removed only once it is empty.
        let _ = fs::remove_dir(self.folder.join(ROWS));
        Ok(())
    }

    /// Returns the attach points with a tree in a network namespace.
    pub fn rows_of(&self, netns: u64) -> Vec<AttachPoint> {
        let entries = fs::read_dir(self.folder.join(ROWS)).into_iter().flatten();
        let names = entries.flatten().map(|entry| entry.file_name());
        let point = |name: std::ffi::OsString| {
            let (space, ifindex) = name.to_str()?.split_once('-')?;
            Some(AttachPoint {
                netns: space.parse().ok()?,
                ifindex: ifindex.parse().ok()?,
                queue: 0,
            })
        };
        let own = names.filter_map(point).filter(|point| point.netns == netns);
        own.collect()
    }

    /// Returns the folder for the pins of a device's tree.
    fn rows_folder(&self, point: AttachPoint) -> PathBuf {
        RowTree::folder(&self.folder.join(ROWS), point)
    }

    /// Lets the qdisc of a pinned kind mark packets at an attach point, beyond the lifetime of
    /// this process. An existing marking program is replaced. The attach point must be in the
    /// network namespace of this thread.
    pub fn mark<H: Host>(&self, kind: &Kind<H>, point: AttachPoint) -> Result<(), BpfError> {
        let path = self.marker(kind, point);
        remove(&path)?;
        let marked = kind.mark(point).and_then(|marker| marker.pin(&path));
        marked.or_else(|error| kind.unmark(point).and(Err(error)))
    }

    /// Returns whether ECN marks are applied at an attach point: the qdisc relies on a program,
    /// and that is still attached.
    pub fn marks<H: Host>(&self, kind: &Kind<H>, point: AttachPoint) -> Result<bool, BpfError> {
        let counted = kind.marks().count(point)?.is_some();
        Ok(counted && tcx::is_on(&self.marker(kind, point), point.ifindex))
    }

    /// Stops marking at an attach point.
    pub fn unmark<H: Host>(&self, kind: &Kind<H>, point: AttachPoint) -> Result<(), BpfError> {
        remove(&self.marker(kind, point))?;
        kind.unmark(point)
    }

    /// Returns the path for the pin of the marking program of an attach point.
    fn marker<H: Host>(&self, kind: &Kind<H>, point: AttachPoint) -> PathBuf {
        let name = format!("{MARKER}{}-{}", point.netns, point.ifindex);
        self.folder.join(folder_of(kind.kind())).join(name)
    }

    fn pinned<H: Host>(
        &self,
        name: &str,
        open: impl FnOnce(&Path) -> Result<Kind<H>, BpfError>,
    ) -> Result<Option<Kind<H>>, BpfError> {
        let folder = self.folder.join(name);
        is_pinned(&folder).then(|| open(&folder)).transpose()
    }

    /// Loads a kind and pins it. If that fails, its folder is removed.
    fn pin<H: Host>(
        &self,
        name: &str,
        maps: &[&str],
        load: impl FnOnce() -> Result<Kind<H>, BpfError>,
    ) -> Result<Kind<H>, BpfError> {
        // A dead process may have left some pins.
        self.remove(name, maps)?;
        let mut kind = load()?;
        let folder = self.folder.join(name);
        fs::create_dir(&folder).map_err(|source| BpfError::File {
            path: folder.clone(),
            doing: "made",
            source,
        })?;
        kind.pin(&folder).inspect_err(|_| {
            // Report the first error only.
            let _ = unpin(&folder, maps);
        })?;
        Ok(kind)
    }

    fn remove(&self, name: &str, maps: &[&str]) -> Result<(), BpfError> {
        let folder = self.folder.join(name);
        unmark_all(&folder)?;
        unpin(&folder, maps)
    }
}

/// Returns the name of the folder of a qdisc kind.
fn folder_of(kind: &str) -> &str {
    kind.strip_prefix(KIND).unwrap_or(kind)
}

/// Removes the pins of marking programs, including those of devices that no longer exist.
fn unmark_all(folder: &Path) -> Result<(), BpfError> {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(MARKER) {
            remove(&entry.path())?;
        }
    }
    Ok(())
}

/// Removes a pin if it exists.
fn remove(path: &Path) -> Result<(), BpfError> {
    remove_with(path, |path| fs::remove_file(path))
}
