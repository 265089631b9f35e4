// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Disciplines of one's own beside those of the kit: built into one file, found
//! by a folder, a source, such a file, or once they are loaded by their name.

use crate::aqm::live::failed;
use crate::workshop::kit::Subject;
use anyhow::Context as _;
use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use weirgate_aqm::Discipline;
use weirgate_bpf::{Store, kit_number};
use weirgate_console::exit::{Failure, Outcome, Status, wrong};
use weirgate_console::output;

/// Files of those that are in the kernel; it ends with the running system, as
/// they do.
const LOADED: &str = "/run/weirgate/aqm";

/// `weirgate aqm build`.
pub fn build(what: &Path) -> Outcome {
    let subject = Subject::find(what)?;
    subject.look()?;
    let library = subject.library()?;
    let folder = subject.file.parent().unwrap_or(Path::new("."));
    let place = folder.join(&subject.name).with_extension("so");
    fs::copy(&library, &place).with_context(|| place.display().to_string())?;
    let shown = if what.is_dir() {
        what.join(&subject.name).with_extension("so")
    } else {
        place
    };
    output::data(&format!(
        "{}: for `weirgate aqm load` on any machine of this kind and weirgate of this version",
        shown.display()
    ))?;
    Ok(Status::Done)
}

/// A file that was built, here or before.
pub struct Built {
    pub path: PathBuf,
    /// What holds it, where it was built here.
    _subject: Option<Subject>,
}

/// The file of a discipline of one's own: that which the word names, what was
/// built in the folder, or made of the folder or the source. `None` where the word is none of these.
pub fn file(word: &str) -> Result<Option<Built>, Failure> {
    let path = Path::new(word);
    let is = |extension: &str| path.extension().is_some_and(|kind| kind == extension);
    if is("so") && path.is_file() {
        return Ok(Some(Built {
            path: path.to_owned(),
            _subject: None,
        }));
    }
    if !path.is_dir() && !is("c") {
        return Ok(None);
    }
    if let Some(path) = built_in(path) {
        return Ok(Some(Built {
            path,
            _subject: None,
        }));
    }
    let subject = Subject::find(path)?;
    subject.look()?;
    Ok(Some(Built {
        path: subject.library()?,
        _subject: Some(subject),
    }))
}

/// What was built in a folder, unless the source is newer or weirgate is of
/// another version by now.
fn built_in(folder: &Path) -> Option<PathBuf> {
    let name = fs::canonicalize(folder).ok()?.file_name()?.to_owned();
    let place = folder.join(name);
    let changed = |extension: &str| {
        let file = fs::metadata(place.with_extension(extension)).ok()?;
        file.modified().ok()
    };
    let (built, source) = (changed("so")?, changed("c"));
    let file = place.with_extension("so");
    let current = source.is_none_or(|source| source <= built);
    (current && (source.is_none() || open(&file).is_ok())).then_some(file)
}

/// The discipline of one's own that a word names: a folder or a source, which
/// is compiled; a file that was built; the name of one that is loaded. `None`
/// where it is none of these.
pub fn find(word: &str) -> Result<Option<Discipline>, Failure> {
    let own = if let Some(built) = file(word)? {
        open(&built.path)?
    } else if stored(word).is_some_and(|file| file.is_file()) {
        return named(word).map(Some);
    } else {
        return Ok(None);
    };
    if Discipline::named(own.name()).is_some() {
        let name = own.name();
        return Err(wrong(format!(
            "`{name}` is a discipline of the kit; call yours otherwise"
        )));
    }
    Ok(Some(own))
}

/// One that is loaded.
fn named(name: &str) -> Result<Discipline, Failure> {
    let file = stored(name).ok_or_else(|| wrong(format!("`{name}` names no discipline")))?;
    open(&file)
}

/// Opens a file that was built.
pub fn open(path: &Path) -> Result<Discipline, Failure> {
    Discipline::open(path, kit_number()).map_err(wrong)
}

/// The discipline of the kit or of one's own that has this name in the kernel.
pub fn known(name: &str) -> Option<Discipline> {
    Discipline::named(name).or_else(|| named(name).ok())
}

/// Refuses another version of what is in the kernel: the two would not be told
/// apart there.
pub fn same_as_loaded(discipline: Discipline) -> Result<(), Failure> {
    let name = discipline.name();
    let Some(version) = discipline.version() else {
        return Ok(());
    };
    match stored(name).filter(|file| file.is_file()) {
        Some(file) if open(&file)?.version() != Some(version) => Err(wrong(format!(
            "another version of `{name}` is loaded; `weirgate aqm show` says on which devices, \
             `weirgate aqm unload` takes it off"
        ))),
        _ => Ok(()),
    }
}

/// Keeps the file of one that was loaded, for those who ask by its name.
pub fn keep(discipline: Discipline) -> Result<(), Failure> {
    let (Some(bytes), Some(place)) = (discipline.file(), stored(discipline.name())) else {
        return Ok(());
    };
    let mut folders = fs::DirBuilder::new();
    folders.recursive(true).mode(0o755);
    folders.create(LOADED).context(LOADED)?;
    let beside = place.with_extension("new");
    fs::write(&beside, bytes).with_context(|| beside.display().to_string())?;
    fs::rename(&beside, &place).with_context(|| place.display().to_string())?;
    Ok(())
}

/// What is loaded, without what was at the ingress of devices that are gone.
pub fn store() -> Result<Store, Failure> {
    let store = Store::open().map_err(failed)?;
    for gone in store.tidy_ingresses().map_err(failed)? {
        if let Some(discipline) = known(&gone.discipline) {
            release(&store, discipline)?;
        }
    }
    Ok(store)
}

/// Forgets it when it is no longer in the kernel.
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
        && let Some(place) = stored(discipline.name())
    {
        // What is left of it is replaced by the next one of this name.
        let _ = fs::remove_file(place);
    }
}

/// Where the file of a loaded one is; `None` where the word is no name.
fn stored(name: &str) -> Option<PathBuf> {
    crate::workshop::kit::check_name(name).ok()?;
    Some(Path::new(LOADED).join(name).with_extension("so"))
}
