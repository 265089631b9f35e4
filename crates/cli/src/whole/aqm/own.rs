// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Stored files of a user's own disciplines that are in the kernel.

use anyhow::Context as _;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::DirBuilderExt as _;
use weirgate_aqm::Discipline;
use weirgate_bpf::Store;
use weirgate_console::discipline::{LOADED, failed, known, open, stored};
use weirgate_console::exit::{Failure, wrong};

/// Refuses a discipline if another version of it is loaded: the kernel could not tell the two
/// apart.
pub fn same_as_loaded(discipline: Discipline) -> Result<(), Failure> {
    let name = discipline.name();
    let Some(version) = discipline.version() else {
        return Ok(());
    };
    match stored(name).filter(|file| file.is_file()) {
        Some(file) if open(&file)?.version() != Some(version) => Err(wrong(format!(
            "another version of `{name}` is loaded; `weirgate aqm show` names the devices, \
             `weirgate aqm unload` removes it"
        ))),
        _ => Ok(()),
    }
}

/// Stores the file of a loaded discipline, so that other commands find it by name.
pub fn keep(discipline: Discipline) -> Result<(), Failure> {
    let (Some(bytes), Some(path)) = (discipline.file(), stored(discipline.name())) else {
        return Ok(());
    };
    let mut folders = fs::DirBuilder::new();
    folders.recursive(true).mode(0o755);
    folders.create(LOADED).context(LOADED)?;
    let beside = path.with_extension("new");
    // Remove the remains of a process that died: they may be a link to another file.
    let _ = fs::remove_file(&beside);
    let written = File::create_new(&beside).and_then(|mut file| file.write_all(bytes));
    written.with_context(|| beside.display().to_string())?;
    fs::rename(&beside, &path).with_context(|| path.display().to_string())?;
    Ok(())
}

/// Opens the store. Removes the pins of ingress disciplines whose devices are gone.
pub fn store() -> Result<Store, Failure> {
    let store = Store::open().map_err(failed)?;
    for gone in store.tidy_ingresses().map_err(failed)? {
        if let Some(discipline) = known(&gone.discipline) {
            release(&store, discipline)?;
        }
    }
    Ok(store)
}

/// Deletes the stored file of a discipline that is no longer in the kernel.
pub fn release(store: &Store, discipline: Discipline) -> Result<(), Failure> {
    let name = discipline.name();
    let arriving = store.ingresses();
    let used = arriving.iter().any(|one| one.discipline == name)
        || store.qdisc(discipline).map_err(failed)?.is_some();
    if !used {
        forget(discipline);
    }
    Ok(())
}

fn forget(discipline: Discipline) {
    if discipline.file().is_some()
        && let Some(path) = stored(discipline.name())
    {
        // Ignore an error: the next discipline of this name replaces the file.
        let _ = fs::remove_file(path);
    }
}
