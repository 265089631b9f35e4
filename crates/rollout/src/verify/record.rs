// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Remembers since when each promise is kept or broken, in a file beside the domain's.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, fchown};
use std::path::{Path, PathBuf};
use weirgate_console::exit::{Failure, wrong};
use weirgate_domain::{Quantity, Since, State};
use weirgate_units::Inserted as _;

/// A line of the record.
#[derive(Serialize, Deserialize)]
struct Remembered {
    service: String,
    what: String,
    kept: bool,
    promised: f64,
    since: String,
}

/// Returns the default path of the record.
pub fn beside(domain: &Path) -> PathBuf {
    domain.with_extension("verified.json")
}

pub(crate) const QUANTITIES: [Quantity; 4] = [
    Quantity::Rate,
    Quantity::Delay,
    Quantity::Jitter,
    Quantity::Loss,
];

/// Reads the record; a missing file counts as empty.
pub(super) fn read(path: &Path) -> Result<Since, Failure> {
    let all: Vec<Remembered> = parsed(path, "record of `domain verify`", "--record")?;
    let one = |one: Remembered| {
        let mut known = QUANTITIES.into_iter();
        let what = known.find(|known| known.to_string() == one.what)?;
        let state = State {
            kept: one.kept,
            promised: one.promised,
            when: one.since,
        };
        Some(((one.service, what), state))
    };
    Ok(all.into_iter().filter_map(one).inserted())
}

/// Reads a list from a file; a missing file counts as empty. `what` is the file in words, and
/// `option` names another.
pub(crate) fn parsed<T: DeserializeOwned>(
    path: &Path,
    what: &str,
    option: &str,
) -> Result<Vec<T>, Failure> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(wrong(format_args!("{}: {error}", path.display()))),
    };
    serde_json::from_slice(text.as_bytes()).map_err(|error| {
        wrong(format_args!(
            "{}: is no {what}: {error}; name another by {option}",
            path.display()
        ))
    })
}

/// Writes the record atomically: after a crash, or with a full disk, the old one is whole.
pub(super) fn write(path: &Path, since: &Since) -> Result<(), Failure> {
    let all = since.iter().map(|((service, what), state)| Remembered {
        service: service.clone(),
        what: what.to_string(),
        kept: state.kept,
        promised: state.promised,
        since: state.when.clone(),
    });
    let all: Vec<Remembered> = all.collect();
    let text = format!("{}\n", serde_json::to_string_pretty(&all)?);
    stored(path, &text)
}

/// Replaces a file atomically by a text.
pub(crate) fn stored(path: &Path, text: &str) -> Result<(), Failure> {
    replace(path, text).map_err(|error| {
        Failure::Other(anyhow::anyhow!(
            "{}: what was found cannot be kept: {error}",
            path.display()
        ))
    })
}

fn replace(path: &Path, text: &str) -> io::Result<()> {
    // If the path is a link, replace its target.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    // As for any new file, the umask applies.
    let mut new = tempfile::Builder::new()
        .permissions(fs::Permissions::from_mode(0o666))
        .tempfile_in(folder.unwrap_or(Path::new(".")))?;
    if let Ok(old) = fs::metadata(&path) {
        // Only root may give a file to somebody else.
        let _ = fchown(new.as_file(), Some(old.uid()), Some(old.gid()));
        let mode = fs::Permissions::from_mode(old.mode() & 0o777);
        new.as_file().set_permissions(mode)?;
    }
    new.write_all(text.as_bytes())?;
    new.as_file().sync_all()?;
    new.persist(&path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_replaced_whole() {
        let folder = tempfile::tempdir().unwrap();
        let [path, link, before] =
            ["record", "link", "before"].map(|name| folder.path().join(name));
        let state = |kept| State {
            kept,
            promised: 1.5,
            when: "2026-01-01 00:00:00".to_owned(),
        };
        let since = |kept| Since::from([(("books".to_owned(), Quantity::Rate), state(kept))]);
        assert!(read(&path).is_ok_and(|since| since.is_empty()));
        assert!(write(&path, &since(true)).is_ok());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        // Who has the old record open, or linked, still has all of it.
        fs::hard_link(&path, &before).unwrap();
        std::os::unix::fs::symlink("record", &link).unwrap();
        assert!(write(&link, &since(false)).is_ok());
        let kept = |path: &Path| {
            read(path)
                .ok()
                .map(|all| all.into_values().next().unwrap().kept)
        };
        assert_eq!((kept(&before), kept(&path)), (Some(true), Some(false)));
        assert!(link.is_symlink());
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o640);
        // Nothing else is left in the folder.
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);
    }
}
