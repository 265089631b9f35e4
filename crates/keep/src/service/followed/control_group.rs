// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Control groups of version 2: the numbers that the kernel compares, and notifications of groups
//! that appear and disappear.
//!
//! A group's number is the inode of its directory (`cgroup_ino`, include/linux/cgroup.h). A group
//! that is removed and created again under the same path has another number. Groups are created and
//! removed as directories, so inotify(7) on the parent directory reports both.

use crate::error::KeepError;
use crate::service::inotify::Inotify;
use rustix::fs::inotify::WatchFlags;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use weirgate_state::{Content, Key, State};
use weirgate_units::Inserted as _;

const MOUNTS: &str = "/proc/self/mountinfo";
/// The usual mount point of the hierarchy on systems that have only version 2.
const USUAL: &str = "/sys/fs/cgroup";

/// Returns where the hierarchy of version 2 is mounted; `None` if it is not mounted.
fn root() -> Option<PathBuf> {
    let mounts = fs::read_to_string(MOUNTS).ok()?;
    let found: Vec<PathBuf> = mounts.lines().filter_map(mounted).collect();
    let usual = found.iter().find(|mount| *mount == Path::new(USUAL));
    usual.or(found.first()).cloned()
}

/// Returns the mount point from a line of mountinfo that mounts the whole hierarchy of version 2
/// (proc_pid_mountinfo(5)).
fn mounted(line: &str) -> Option<PathBuf> {
    let (before, after) = line.split_once(" - ")?;
    let mut fields = before.split(' ').skip(3);
    let (shown, mount) = (fields.next()?, fields.next()?);
    let whole = shown == "/" && after.split(' ').next() == Some("cgroup2");
    whole.then(|| PathBuf::from(mount))
}

/// Returns the number of the group at a path below the root; `None` if there is no such group.
fn number(root: &Path, path: &str) -> Option<u64> {
    let about = fs::metadata(root.join(path)).ok()?;
    about.is_dir().then(|| about.ino())
}

/// Returns the numbers of the groups at these paths that exist now.
pub(super) fn numbers<'a>(paths: impl IntoIterator<Item = &'a String>) -> BTreeSet<u128> {
    let Some(root) = root() else {
        return BTreeSet::new();
    };
    let found = paths.into_iter().filter_map(|path| number(&root, path));
    found.map(u128::from).inserted()
}

/// Returns the paths of all control groups that rules of a state name.
fn wanted(state: &State) -> BTreeSet<String> {
    let sets = state
        .refreshed_sets()
        .filter(|(_, set)| set.key == Key::ControlGroup);
    let paths = sets.filter_map(|(_, set)| match &set.content {
        Content::Refreshed(groups) => Some(groups.names.iter().cloned()),
        _ => None,
    });
    paths.flatten().inserted()
}

/// Explains, in one sentence each, why rules of a state by control group match nothing now.
pub(super) fn absent(state: &State) -> Vec<String> {
    let paths = wanted(state);
    if paths.is_empty() {
        return Vec::new();
    }
    let Some(root) = root() else {
        return vec![
            "no hierarchy of control groups of version 2 is mounted (cgroup2, usually at \
             /sys/fs/cgroup): rules with `cgroup` match nothing"
                .to_owned(),
        ];
    };
    let missing = paths.iter().filter(|path| number(&root, path).is_none());
    missing
        .map(|path| {
            format!(
                "there is no control group {path} now: rules with it match nothing until it \
                 exists and `weirgate keep` sees it, or `apply` is repeated"
            )
        })
        .collect()
}

/// Watches control groups, and reports when one appears or disappears.
pub(crate) struct Groups {
    /// The watched directories; `None` if no groups are wanted.
    watched: Option<Inotify>,
    paths: BTreeSet<String>,
    /// The numbers that the last look found, by path.
    last: BTreeMap<String, u64>,
}

impl Groups {
    pub(crate) const fn new() -> Self {
        Self {
            watched: None,
            paths: BTreeSet::new(),
            last: BTreeMap::new(),
        }
    }

    /// Sets the groups to follow, from the rules of `state`. Returns whether there are any.
    pub(crate) fn want(&mut self, state: Option<&State>) -> Result<bool, KeepError> {
        let paths = state.map(wanted).unwrap_or_default();
        if paths != self.paths {
            self.watched = None;
            self.paths = paths;
        }
        self.look()?;
        Ok(!self.paths.is_empty())
    }

    /// Watches the directories that exist now, and reads the numbers of the groups. Returns whether
    /// any number has changed since the last look.
    fn look(&mut self) -> Result<bool, KeepError> {
        let root = root().filter(|_| !self.paths.is_empty());
        let Some(root) = root else {
            self.watched = None;
            return Ok(!std::mem::take(&mut self.last).is_empty());
        };
        // Watch first, so that no group appears unseen in between.
        self.watch(&root).map_err(KeepError::file(&root))?;
        let paths = self.paths.iter();
        let now: BTreeMap<String, u64> = paths
            .filter_map(|path| Some((path.clone(), number(&root, path)?)))
            .inserted();
        let changed = now != self.last;
        self.last = now;
        Ok(changed)
    }

    /// Watches every existing directory on the path to a wanted group.
    fn watch(&mut self, root: &Path) -> std::io::Result<()> {
        let watched = match &mut self.watched {
            Some(watched) => watched,
            none => none.insert(Inotify::new()?),
        };
        let events = WatchFlags::CREATE | WatchFlags::DELETE | WatchFlags::ONLYDIR;
        for path in &self.paths {
            let mut folder = root.to_owned();
            for part in path.split('/') {
                match watched.add(&folder, events) {
                    Ok(()) => {}
                    // A missing directory is created in its parent, which is watched already.
                    Err(rustix::io::Errno::NOENT) => break,
                    Err(error) => return Err(error.into()),
                }
                folder.push(part);
            }
        }
        Ok(())
    }

    /// Waits until the number of a wanted group changes. Never returns if no group is wanted.
    /// Cancel-safe: it may be dropped and called again.
    pub(crate) async fn changed(&mut self) -> Result<(), KeepError> {
        loop {
            match &self.watched {
                Some(watched) => watched.event().await,
                None => return std::future::pending().await,
            }
            if self.look()? {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hierarchy_is_found_among_mounts() {
        let line = "35 24 0:30 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw";
        assert_eq!(mounted(line), Some(PathBuf::from("/sys/fs/cgroup")));
        let part = "35 24 0:30 /x /run/part rw shared:9 - cgroup2 cgroup2 rw";
        assert_eq!(mounted(part), None);
        let first = "36 24 0:31 / /sys/fs/cgroup/cpu rw shared:9 - cgroup cgroup rw,cpu";
        assert_eq!(mounted(first), None);
    }
}
