// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Kinds of qdisc that outlive the process that loaded them: pins below one
//! folder of the BPF file system, a folder for each kind.

use crate::error::BpfError;
use crate::maps;
use crate::programs::tcx;
use crate::qdisc::attach_point::AttachPoint;
use crate::qdisc::circuits::CircuitTree;
use crate::qdisc::discipline::{self as qdisc, Qdisc};
use crate::qdisc::kind::{Host, Kind};
use crate::qdisc::load::{Shared, is_pinned, remove as remove_with, unpin};
use crate::qdisc::rows::RowTree;
use crate::qdisc::shaper::own::of_kind;
use crate::qdisc::shaper::{self, Shaper};
use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use weirgate_aqm::Discipline;
use weirgate_state::{Kit, Rows};
use weirgate_units::Arrange as _;

/// Where distributions mount the BPF file system.
const FILE_SYSTEM: &str = "/sys/fs/bpf";

/// The kit's folder there.
const FOLDER: &str = "weirgate";

/// `BPF_FS_MAGIC` (linux/magic.h).
const MAGIC: rustix::fs::FsWord = 0xcafe_4a11;

/// The folder of circuits' folders; no discipline has this name.
const CIRCUITS: &str = "circuits";

/// The folder of the folders of policies' trees; no discipline has this name.
const ROWS: &str = "rows";

/// What the names of kinds begin with.
const KIND: &str = "weir_";

/// What the names of pins of programs that make marks begin with.
const MARKER: &str = "marks-";

/// The kit's pins, which one process uses at a time.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    /// Locked while it is open; the kernel unlocks it with the process.
    _lock: File,
}

impl Store {
    /// Whether any shaper is loaded, as far as this process may see.
    pub fn has_shapers() -> bool {
        let entries = fs::read_dir(Path::new(FILE_SYSTEM).join(FOLDER));
        let mut names = entries
            .into_iter()
            .flatten()
            .flatten()
            .map(|one| one.file_name());
        names.any(|name| Kit::is_kind(&format!("{KIND}{}", name.to_string_lossy())))
    }

    /// The shaper of this kind, for one who only looks; `None` where it is not loaded, or
    /// this process may not look.
    pub fn shaper_unlocked(kind: &str) -> Option<Shaper> {
        Shaper::pinned(of_kind(kind).ok()?, &Self::shaper_folder(kind)).ok()
    }

    /// Where the pins of a shaper of this kind are, if it is loaded.
    pub fn shaper_folder(kind: &str) -> PathBuf {
        [FILE_SYSTEM, FOLDER, folder_of(kind)].iter().collect()
    }

    /// Where the pins of policies' trees are, if there are any.
    pub const ROWS_FOLDER: &'static str = "/sys/fs/bpf/weirgate/rows";

    /// Opens the pins, and waits for another process that does. Needs root;
    /// mounts the BPF file system where it is not.
    pub fn open() -> Result<Self, BpfError> {
        let root = Path::new(FILE_SYSTEM);
        let failed = |path: &Path, doing| {
            let path = path.to_owned();
            move |source| BpfError::File {
                path,
                doing,
                source,
            }
        };
        if !is_mounted(root).map_err(failed(root, "opened"))? {
            mount(root).map_err(failed(root, "mounted"))?;
        }
        let folder = root.join(FOLDER);
        match fs::create_dir(&folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(failed(&folder, "made")(error));
            }
            _ => {}
        }
        let lock = File::open(&folder).map_err(failed(&folder, "opened"))?;
        lock.lock().map_err(failed(&folder, "locked"))?;
        Ok(Self {
            folder,
            _lock: lock,
        })
    }

    /// Where all pins are.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The discipline's kind, where it is pinned.
    pub fn qdisc(&self, discipline: Discipline) -> Result<Option<Qdisc>, BpfError> {
        let pinned = |folder: &Path| Qdisc::pinned(discipline, folder);
        self.pinned(discipline.name(), pinned)
    }

    /// The same, loaded and pinned where it is not yet.
    pub fn qdisc_or_load(&self, discipline: Discipline) -> Result<Qdisc, BpfError> {
        match self.qdisc(discipline)? {
            Some(qdisc) => Ok(qdisc),
            None => self.pin(discipline.name(), &qdisc::maps(), || {
                Qdisc::load(discipline)
            }),
        }
    }

    /// Names of all kinds that are pinned, disciplines of the kit or not.
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

    /// Ends a discipline's kind; the kernel removes it when no device uses it.
    pub fn remove_qdisc(&self, discipline: Discipline) -> Result<(), BpfError> {
        self.remove(discipline.name(), &qdisc::maps())
    }

    /// The shaper of this kind, where it is pinned: with the kit's disciplines alone, or
    /// with one beside them.
    pub fn shaper(&self, kind: &str) -> Result<Option<Shaper>, BpfError> {
        self.pinned(folder_of(kind), |folder| {
            Shaper::pinned(of_kind(kind)?, folder)
        })
    }

    /// That with this discipline beside those of the kit, loaded and pinned where it is
    /// not yet. It shares its maps with those that are, so that it can take over the queue
    /// of one whose place it takes.
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

    /// Kinds of the shaper that are pinned.
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

    /// Maps that another program of the shaper has: what all have, and the queues of the
    /// own discipline, where it has one of another version that is laid out alike.
    fn shared_maps(&self, own: Option<Discipline>) -> Result<Shared, BpfError> {
        let mut shared = Shared::new();
        for kind in self.shapers() {
            // One whose discipline is gone has the others all the same.
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

    /// Forgets the settings of attach points of a network namespace that have no shaper, and
    /// ends the kinds that no device uses.
    pub fn tidy_shapers(&self, netns: u64) -> Result<(), BpfError> {
        for kind in self.shapers() {
            let Ok(Some(shaper)) = self.shaper(&kind) else {
                // Its discipline's file is gone. Whoever has it still may use it.
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

    /// Ends the kind of a shaper; the kernel removes it when no device uses it.
    pub fn remove_shaper(&self, shaper: &Shaper) -> Result<(), BpfError> {
        self.remove(folder_of(shaper.kind()), &shaper::maps(shaper.own()))
    }

    /// The circuits of a device, where they are pinned.
    pub fn circuits(&self, point: AttachPoint) -> Result<Option<CircuitTree>, BpfError> {
        CircuitTree::pinned(point, &Self::circuits_folder(point))
    }

    /// Whether these circuits, which were opened earlier, are still those of the device.
    pub fn are_circuits(&self, point: AttachPoint, tree: &CircuitTree) -> Result<bool, BpfError> {
        tree.is_pinned_in(&Self::circuits_folder(point))
    }

    /// Puts the programs of circuits on their device, and pins all of it; or nothing is
    /// left of either.
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
            // The refusal is the error to report.
            let _ = CircuitTree::unpin(&folder);
        })
    }

    /// Whether the programs of a device's circuits are on it.
    pub fn circuits_are_on(&self, point: AttachPoint) -> bool {
        CircuitTree::is_attached(point, &Self::circuits_folder(point))
    }

    /// Puts them on it once more.
    pub fn put_circuits_on(&self, point: AttachPoint, tree: &CircuitTree) -> Result<(), BpfError> {
        tree.attach_again(point, &Self::circuits_folder(point))
    }

    /// Numbers of devices in the network namespace of this thread that have pins of
    /// circuits, whether they are there or not.
    /// None where this process may not look.
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

    /// Ends the circuits of a device that no longer has their qdisc.
    pub fn remove_circuits(&self, point: AttachPoint) -> Result<(), BpfError> {
        CircuitTree::unpin(&Self::circuits_folder(point))
    }

    /// Where a device's circuits are pinned.
    pub(crate) fn circuits_folder(point: AttachPoint) -> PathBuf {
        let device = format!("{}-{}", point.netns, point.ifindex);
        [FILE_SYSTEM, FOLDER, CIRCUITS, &device].iter().collect()
    }

    /// The tree of a device, where it is pinned.
    pub fn rows(&self, point: AttachPoint) -> Result<Option<RowTree>, BpfError> {
        RowTree::pinned(point, &self.rows_folder(point))
    }

    /// The configuration of the tree of a device; `None` where it has none.
    pub fn configured_rows(&self, point: AttachPoint) -> Result<Option<Rows>, BpfError> {
        let Some(tree) = self.rows(point)? else {
            return Ok(None);
        };
        let folder = self.rows_folder(point);
        tree.rows(tree.marks(point, &folder)?, tree.hosts(point, &folder)?)
    }

    /// Configures the tree of a device, whose attach point is in the network namespace
    /// of this thread; it is loaded and pinned where it is not yet.
    pub fn set_rows(&self, point: AttachPoint, rows: &Rows) -> Result<(), BpfError> {
        let folder = self.rows_folder(point);
        let tree = if let Some(tree) = self.rows(point)? {
            tree
        } else {
            // A process that died may have left some pins.
            RowTree::unpin(&folder)?;
            let mut tree = RowTree::load(point)?;
            fs::create_dir_all(&folder).map_err(|source| BpfError::File {
                path: folder.clone(),
                doing: "made",
                source,
            })?;
            tree.pin(&folder).inspect_err(|_| {
                // The refusal is the error to report.
                let _ = RowTree::unpin(&folder);
            })?;
            tree
        };
        tree.mark(point, &folder, rows.marks)?;
        tree.tell_hosts(point, &folder, rows.hosts)?;
        tree.set(rows)
    }

    /// Ends the tree of a device that no longer has its qdisc.
    pub fn remove_rows(&self, point: AttachPoint) -> Result<(), BpfError> {
        RowTree::unpin(&self.rows_folder(point))?;
        // The folder of all goes with the last.
        let _ = fs::remove_dir(self.folder.join(ROWS));
        Ok(())
    }

    /// Devices of a network namespace that have a tree, by their numbers.
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

    /// Where a device's tree is pinned.
    fn rows_folder(&self, point: AttachPoint) -> PathBuf {
        RowTree::folder(&self.folder.join(ROWS), point)
    }

    /// Lets the qdisc of a kind that is pinned mark packets at an attach point, which is
    /// in the network namespace of this thread, beyond this process; anew where
    /// it could.
    pub fn mark<H: Host>(&self, kind: &Kind<H>, point: AttachPoint) -> Result<(), BpfError> {
        let path = self.marker(kind, point);
        remove(&path)?;
        let marked = kind.mark(point).and_then(|marker| marker.pin(&path));
        marked.or_else(|error| kind.unmark(point).and(Err(error)))
    }

    /// Whether marks are made at an attach point: the qdisc there counts on a program,
    /// and nobody has taken that from its device.
    pub fn marks<H: Host>(&self, kind: &Kind<H>, point: AttachPoint) -> Result<bool, BpfError> {
        let counted = kind.marks().count(point)?.is_some();
        Ok(counted && tcx::is_on(&self.marker(kind, point), point.ifindex))
    }

    /// Ends that.
    pub fn unmark<H: Host>(&self, kind: &Kind<H>, point: AttachPoint) -> Result<(), BpfError> {
        remove(&self.marker(kind, point))?;
        kind.unmark(point)
    }

    /// Where the program that makes marks at an attach point is pinned.
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

    /// Loads a kind and pins it: all of it, or nothing is left of its folder.
    fn pin<H: Host>(
        &self,
        name: &str,
        maps: &[&str],
        load: impl FnOnce() -> Result<Kind<H>, BpfError>,
    ) -> Result<Kind<H>, BpfError> {
        // A process that died may have left some pins.
        self.remove(name, maps)?;
        let mut kind = load()?;
        let folder = self.folder.join(name);
        fs::create_dir(&folder).map_err(|source| BpfError::File {
            path: folder.clone(),
            doing: "made",
            source,
        })?;
        kind.pin(&folder).inspect_err(|_| {
            // The refusal is the error to report.
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

/// The folder of a kind of qdisc.
fn folder_of(kind: &str) -> &str {
    kind.strip_prefix(KIND).unwrap_or(kind)
}

/// Removes the pins of programs that make marks, also those whose devices are
/// gone.
fn unmark_all(folder: &Path) -> Result<(), BpfError> {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(MARKER) {
            remove(&entry.path())?;
        }
    }
    Ok(())
}

/// Removes a pin, if it is there.
fn remove(path: &Path) -> Result<(), BpfError> {
    remove_with(path, |path| fs::remove_file(path))
}

/// Whether a BPF file system is mounted there.
fn is_mounted(path: &Path) -> io::Result<bool> {
    let file = File::open(path)?;
    Ok(rustix::fs::fstatfs(&file)?.f_type == MAGIC)
}

fn mount(path: &Path) -> io::Result<()> {
    let target = CString::new(path.as_os_str().as_bytes())?;
    let kind = c"bpf";
    #[expect(unsafe_code, reason = "std has no mount")]
    // SAFETY: three strings that end in zero and live until the call returns.
    let status = unsafe {
        libc::mount(
            kind.as_ptr(),
            target.as_ptr(),
            kind.as_ptr(),
            libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC,
            std::ptr::null(),
        )
    };
    if status == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
