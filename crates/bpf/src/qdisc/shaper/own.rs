// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Programs of the shaper that include a user's own discipline. A copy of the discipline's file
//! records which one a qdisc kind contains.
//!
//! A state names the program. To read the state, or to restore it after a reboot or a rollback,
//! the files of loaded disciplines are kept. The file in the router's folder may be another
//! version by then.

use super::kind_of;
use crate::error::BpfError;
use crate::programs::kit_number;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;
use weirgate_aqm::Discipline;
use weirgate_state::{Kit, KitProgram};
use weirgate_units::Arrange as _;

/// The folder of these copies.
const COPIES: &str = "/var/lib/weirgate/disciplines";

/// How many copies are kept.
const MOST: usize = 8;

fn copy(kind: &str) -> PathBuf {
    Path::new(COPIES).join(kind).with_extension("so")
}

/// Returns the user's discipline that the shaper of this kind includes.
///
/// # Errors
///
/// Returns an error if its file is neither installed nor kept.
pub(crate) fn of_kind(kind: &str) -> Result<Option<Discipline>, BpfError> {
    static OPENED: Mutex<Vec<(String, Discipline)>> = Mutex::new(Vec::new());
    if kind == Kit::KIND {
        return Ok(None);
    }
    let is = |one: &Discipline| kind_of(Some(*one)) == kind;
    let names = Discipline::installed_names().into_iter();
    let installed = names.filter_map(|name| Discipline::installed(&name)?.ok());
    if let Some(found) = installed.into_iter().find(is) {
        return Ok(Some(found));
    }
    let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, found)) = opened.iter().find(|(known, _)| known == kind) {
        return Ok(Some(*found));
    }
    let path = copy(kind);
    let found = Discipline::open_trusted(&path, kit_number())
        .map_err(|error| error.to_string())
        .and_then(|found| {
            let other = || format!("{}: it is another version", path.display());
            is(&found).then_some(found).ok_or_else(other)
        });
    let found = found.map_err(|why| BpfError::NoOwn {
        kind: kind.to_owned(),
        why,
    })?;
    opened.push((kind.to_owned(), found));
    Ok(Some(found))
}

/// Returns the user's discipline that the program of a state includes.
///
/// # Errors
///
/// As [`of_kind`].
pub fn own_of(kit: &Kit) -> Result<Option<Discipline>, BpfError> {
    of_kind(kit.kind())
}

/// Keeps a copy of a loaded discipline's file, and deletes all but the last few copies.
pub(crate) fn keep(own: Discipline) -> Result<(), BpfError> {
    let Some(bytes) = own.file() else {
        return Ok(());
    };
    let path = copy(&kind_of(Some(own)));
    let failed = |source| BpfError::File {
        path: path.clone(),
        doing: "written",
        source,
    };
    let mut folder = fs::DirBuilder::new();
    folder.recursive(true).mode(0o755);
    folder.create(COPIES).map_err(failed)?;
    let beside = path.with_extension("new");
    // A file that a dead process left may be incomplete or belong to another user.
    let _ = fs::remove_file(&beside);
    let file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o644)
        .open(&beside);
    let mut file = file.map_err(failed)?;
    file.write_all(bytes).map_err(failed)?;
    file.sync_all().map_err(failed)?;
    fs::rename(&beside, &path).map_err(failed)?;
    forget_oldest();
    Ok(())
}

fn forget_oldest() {
    let entries = fs::read_dir(COPIES).into_iter().flatten().flatten();
    let mut dated: Vec<(SystemTime, PathBuf)> = entries
        .filter(|entry| {
            entry
                .file_name()
                .to_string_lossy()
                .starts_with(KitProgram::KIND)
        })
        .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
        .collect();
    dated.arrange();
    let old = dated.len().saturating_sub(MOST);
    for (_, path) in dated.iter().take(old) {
        // Ignore: the next call tries again.
        let _ = fs::remove_file(path);
    }
}
