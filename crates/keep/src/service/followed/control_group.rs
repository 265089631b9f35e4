// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Control groups of version 2: the numbers that the kernel compares, and notifications of groups
//! that appear and disappear.
//!
//! A group's number is the inode of its directory (`cgroup_ino`,
//! include/linux/cgroup.h), so a group that is made again under its path has
//! another. Making and removing one is making and removing a directory, which
//! the kernel tells whoever watches the directory above it (inotify(7)).

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
/// Where the hierarchy is, where there is only this one.
const USUAL: &str = "/sys/fs/cgroup";

/// Where the hierarchy of version 2 is mounted; `None` where it is not.
fn root() -> Option<PathBuf> {
    let mounts = fs::read_to_string(MOUNTS).ok()?;
    let found: Vec<PathBuf> = mounts.lines().filter_map(mounted).collect();
    let usual = found.iter().find(|mount| *mount == Path::new(USUAL));
    usual.or(found.first()).cloned()
}

/// The mount point in a line of mountinfo that mounts the whole hierarchy
/// (proc_pid_mountinfo(5)).
fn mounted(line: &str) -> Option<PathBuf> {
    let (before, after) = line.split_once(" - ")?;
    let mut fields = before.split(' ').skip(3);
    let (shown, mount) = (fields.next()?, fields.next()?);
    let whole = shown == "/" && after.split(' ').next() == Some("cgroup2");
    whole.then(|| PathBuf::from(mount))
}

/// The number of the group at a path below the root; `None` where there is
/// none.
fn number(root: &Path, path: &str) -> Option<u64> {
    let about = fs::metadata(root.join(path)).ok()?;
    about.is_dir().then(|| about.ino())
}

/// The numbers of the groups at these paths that are there now.
pub(super) fn numbers<'a>(paths: impl IntoIterator<Item = &'a String>) -> BTreeSet<u128> {
    let Some(root) = root() else {
        return BTreeSet::new();
    };
    let found = paths.into_iter().filter_map(|path| number(&root, path));
    found.map(u128::from).inserted()
}

/// The paths that a state's rules ask for.
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

/// Why rules of a state by control group match nothing now, one sentence each.
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

/// The service's word of groups that come and go.
pub(crate) struct Groups {
    /// What is watched; none where nothing is wanted.
    watched: Option<Inotify>,
    paths: BTreeSet<String>,
    /// The numbers as they were looked at last.
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

    /// Which groups' coming and going matters from now on; whether any does.
    pub(crate) fn want(&mut self, state: Option<&State>) -> Result<bool, KeepError> {
        let paths = state.map(wanted).unwrap_or_default();
        if paths != self.paths {
            self.watched = None;
            self.paths = paths;
        }
        self.look()?;
        Ok(!self.paths.is_empty())
    }

    /// Watches what there is to watch now, and looks. Whether any group has
    /// another number than before.
    fn look(&mut self) -> Result<bool, KeepError> {
        let root = root().filter(|_| !self.paths.is_empty());
        let Some(root) = root else {
            self.watched = None;
            return Ok(!std::mem::take(&mut self.last).is_empty());
        };
        // Watched first, so that nothing comes unseen in between.
        self.watch(&root).map_err(KeepError::file(&root))?;
        let paths = self.paths.iter();
        let now: BTreeMap<String, u64> = paths
            .filter_map(|path| Some((path.clone(), number(&root, path)?)))
            .inserted();
        let changed = now != self.last;
        self.last = now;
        Ok(changed)
    }

    /// Watches every directory above a wanted group that is there.
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
                    // What is not there is made in one that is.
                    Err(rustix::io::Errno::NOENT) => break,
                    Err(error) => return Err(error.into()),
                }
                folder.push(part);
            }
        }
        Ok(())
    }

    /// Ends when a wanted group has another number than before; never where
    /// none is wanted. May be dropped and called again.
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
