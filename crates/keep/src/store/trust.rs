// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether only root or the caller may change a file: checks owner and mode of the file and of
//! every folder above it, as `StrictModes` of sshd_config(5) does. Whoever may write to one of
//! these folders can replace what is below.

use crate::error::KeepError;
use rustix::process::geteuid;
use std::fs::{self, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

const OTHERS_WRITE: u32 = 0o022;
const STICKY: u32 = 0o1000;
const MODE: u32 = 0o7777;

/// Refuses a file or folder that other users may change. A file that does not exist yet passes. So
/// does one that may not be examined, because it cannot be read either.
pub fn trusted(path: &Path) -> Result<(), KeepError> {
    let named = std::path::absolute(path).map_err(KeepError::file(path))?;
    // The path with all symbolic links resolved.
    let real = named
        .ancestors()
        .find_map(|path| fs::canonicalize(path).ok());
    let real = real.unwrap_or_else(|| named.clone());
    let own = geteuid().as_raw();
    for path in real.ancestors().chain(named.ancestors()) {
        let found = match fs::metadata(path) {
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::NotFound | ErrorKind::PermissionDenied
                ) =>
            {
                continue;
            }
            other => other.map_err(KeepError::file(path))?,
        };
        let is_last = path == named || (path == real && named.exists());
        let Some((wrong, right)) = fault(&found, is_last, own) else {
            continue;
        };
        return Err(KeepError::Untrusted {
            path: path.to_owned(),
            wrong,
            right: format!("`{right} {}`", path.display()),
        });
    }
    Ok(())
}

/// Returns what is wrong with a file or folder, and the command that corrects it.
fn fault(found: &Metadata, is_last: bool, own: u32) -> Option<(String, String)> {
    let (owner, mode) = (found.uid(), found.mode() & MODE);
    if owner != 0 && owner != own {
        return Some((format!("belongs to user {owner}"), format!("chown {own}")));
    }
    // In a sticky folder such as /tmp, nobody may rename or remove the files of others.
    let kept = found.is_dir() && !is_last && mode & STICKY != 0;
    (mode & OTHERS_WRITE != 0 && !kept).then(|| {
        (
            format!("may be written by others (mode {mode:04o})"),
            "chmod go-w".to_owned(),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    #[track_caller]
    fn refused(path: &Path, part: &str) {
        let error = trusted(path).unwrap_err().to_string();
        assert!(error.contains(part), "{part} in {error}");
    }

    fn set(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_folder_that_others_may_write_to_is_refused_wherever_it_is_above() {
        let all = tempfile::tempdir().unwrap();
        let (above, own) = (all.path().join("above"), all.path().join("above/own"));
        fs::create_dir_all(&own).unwrap();
        let later = own.join("later");
        trusted(&later).unwrap();
        for (wrong, mode) in [(&own, 0o777), (&own, 0o770), (&above, 0o702)] {
            set(wrong, mode);
            let name = wrong.display();
            let text = format!("{name} may be written by others (mode {mode:04o})");
            refused(&later, &text);
            refused(&later, &format!("`chmod go-w {name}`"));
            set(wrong, 0o755);
            trusted(&later).unwrap();
        }
        // Like /tmp: only existing files in it are protected.
        set(&above, 0o1777);
        trusted(&own).unwrap();
        trusted(&above.join("new")).unwrap();
        refused(&above, "mode 1777");
    }

    #[test]
    fn a_link_is_judged_by_where_it_is_and_where_it_leads() {
        let all = tempfile::tempdir().unwrap();
        let (open, shut) = (all.path().join("open"), all.path().join("shut"));
        for path in [&open, &shut] {
            fs::create_dir(path).unwrap();
        }
        set(&open, 0o777);
        symlink(&shut, open.join("link")).unwrap();
        symlink(&open, shut.join("link")).unwrap();
        refused(&open.join("link"), "open may be written");
        refused(&shut.join("link/later"), "open may be written");
    }

    #[test]
    fn a_file_of_another_user_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let found = fs::metadata(file.path()).unwrap();
        let (own, other) = (found.uid(), found.uid() + 1);
        assert_eq!(fault(&found, true, own), None);
        let wrong = fault(&found, true, other);
        assert_eq!(wrong.is_none(), own == 0, "root's is anybody's to use");
        assert_eq!(fault(&fs::metadata("/").unwrap(), true, other), None);
    }
}
