// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files that are complete or absent: written under another name, flushed and renamed, with a
//! checksum that reveals damage.
//!
//! The first line is `weirgate 1 LENGTH SUM`, the rest is JSON or a list. The checksum is SHA-256,
//! or CRC-32 for files of several megabytes. It has to detect damage, and not forgery.

use crate::error::KeepError;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// The format's name and version.
const FORMAT: &str = "weirgate 1";

/// The kinds of checksums.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Sum {
    /// SHA-256.
    Sha256,
    /// CRC-32 (ISO 3309). It takes a twentieth of the time on processors without SHA instructions.
    Crc32,
}

impl Sum {
    /// Returns the checksum in hexadecimal. The length of the text identifies the kind.
    fn of(self, body: &[u8]) -> String {
        match self {
            Self::Sha256 => digest(body),
            Self::Crc32 => format!("{:08x}", crc32fast::hash(body)),
        }
    }

    /// Returns whether `sum` is the checksum of `body`, of either kind.
    fn is(body: &[u8], sum: &str) -> bool {
        let kind = if sum.len() == 8 {
            Self::Crc32
        } else {
            Self::Sha256
        };
        kind.of(body) == sum
    }
}

/// Returns the first line of a sealed file.
fn head(body: &[u8], sum: Sum) -> String {
    format!("{FORMAT} {} {}\n", body.len(), sum.of(body))
}

/// Returns the body of a sealed file, or what is wrong with the file.
fn opened(bytes: &[u8]) -> Result<&[u8], String> {
    let (body, behind) = parts(bytes, true)?;
    if behind.is_empty() {
        return Ok(body);
    }
    let (length, all) = (body.len(), body.len() + behind.len());
    Err(format!("{all} bytes instead of {length}"))
}

/// Returns the sealed body and what follows it, or what is wrong. Without `verify`, only the length
/// is checked, and not the checksum.
pub(crate) fn parts(bytes: &[u8], verify: bool) -> Result<(&[u8], &[u8]), String> {
    let end = bytes.iter().position(|byte| *byte == b'\n');
    let (head, body) = bytes.split_at(end.ok_or("it has no first line")?);
    let body = &body[1..];
    let head = std::str::from_utf8(head).map_err(|_| "its first line is no text")?;
    let words = head
        .strip_prefix(FORMAT)
        .and_then(|rest| rest.trim().split_once(' '));
    let (length, sum) = words.ok_or("its first line is not weirgate's")?;
    let length: usize = length.parse().map_err(|_| "its length is no number")?;
    let Some((body, behind)) = body.split_at_checked(length) else {
        return Err(format!("{} bytes instead of {length}", body.len()));
    };
    if verify && !Sum::is(body, sum) {
        return Err("its checksum is wrong".to_owned());
    }
    Ok((body, behind))
}

/// Returns the SHA-256 of bytes, in hexadecimal.
pub(crate) fn digest(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in Sha256::digest(bytes) {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Reads a sealed file; `None` if it does not exist.
pub(crate) fn read<T: DeserializeOwned>(
    path: &Path,
    hint: &'static str,
) -> Result<Option<T>, KeepError> {
    read_with(path, hint, |body| {
        serde_json::from_slice(body).map_err(|error| error.to_string())
    })
}

/// Reads a sealed file, and parses its body by `reader`, which returns what is wrong.
pub(crate) fn read_with<T>(
    path: &Path,
    hint: &'static str,
    reader: impl FnOnce(&[u8]) -> Result<T, String>,
) -> Result<Option<T>, KeepError> {
    let bytes = match fs::read(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        other => other.map_err(KeepError::file(path))?,
    };
    let path = || path.to_owned();
    let body = opened(&bytes).map_err(|why| KeepError::Damaged {
        path: path(),
        why,
        hint,
    })?;
    let read = reader(body).map_err(|why| KeepError::Foreign {
        path: path(),
        why,
        hint,
    })?;
    Ok(Some(read))
}

/// Writes a sealed file atomically: after a crash it has either the old content or the new one. The
/// caller holds the lock, so no other process uses the temporary name.
pub(crate) fn write(path: &Path, value: &impl Serialize) -> Result<(), KeepError> {
    write_body(path, &json(path, value)?)
}

/// Returns the JSON of a value; `path` is for the error.
pub(crate) fn json(path: &Path, value: &impl Serialize) -> Result<Vec<u8>, KeepError> {
    serde_json::to_vec(value).map_err(|error| KeepError::File {
        path: path.to_owned(),
        source: error.into(),
    })
}

/// Writes a sealed file whose body is JSON already.
pub(crate) fn write_body(path: &Path, body: &[u8]) -> Result<(), KeepError> {
    publish(&write_aside(path, body, Sum::Sha256)?.0, path)
}

/// Writes a sealed file under a temporary name. Returns that name and the length in bytes.
/// [`publish`] renames it into place.
pub(crate) fn write_aside(
    path: &Path,
    body: &[u8],
    sum: Sum,
) -> Result<(PathBuf, usize), KeepError> {
    let mut aside = PathBuf::from(path);
    aside.as_mut_os_string().push(".new");
    let mut file = fresh(&aside).map_err(KeepError::file(&aside))?;
    let head = head(body, sum);
    file.write_all(head.as_bytes())
        .and_then(|()| file.write_all(body))
        .and_then(|()| file.sync_all())
        .map_err(KeepError::file(path))?;
    Ok((aside, head.len() + body.len()))
}

/// Creates a new file that no other process has open. Removes an existing file of that name, and
/// follows no symbolic link (`O_EXCL` of open(2)).
pub(crate) fn fresh(path: &Path) -> std::io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut open = OpenOptions::new();
    open.write(true).create_new(true).mode(0o600).open(path)
}

/// Renames a temporary file into place.
pub(crate) fn publish(aside: &Path, path: &Path) -> Result<(), KeepError> {
    fs::rename(aside, path).map_err(KeepError::file(path))?;
    flush(path.parent().unwrap_or(Path::new(".")))
}

/// Flushes a folder, so that renames and removals in it survive a power failure.
pub(crate) fn flush(folder: &Path) -> Result<(), KeepError> {
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(KeepError::file(folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("one");
        assert_eq!(read::<Vec<u32>>(&path, "").unwrap(), None);
        for value in [vec![1_u32, 2], vec![3]] {
            write(&path, &value).unwrap();
            assert_eq!(read::<Vec<u32>>(&path, "").unwrap(), Some(value));
        }
        let names = fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(names, 1, "nothing is left aside");
    }

    #[test]
    fn a_link_that_was_planted_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("one"), folder.path().join("other"));
        fs::write(&other, "somebody's").unwrap();
        std::os::unix::fs::symlink(&other, folder.path().join("one.new")).unwrap();
        write(&path, &1).unwrap();
        assert_eq!(fs::read(&other).unwrap(), b"somebody's");
        assert_eq!(read::<u32>(&path, "").unwrap(), Some(1));
        assert!(!path.is_symlink());
    }

    fn seal(value: &impl Serialize, sum: Sum) -> Vec<u8> {
        let body = serde_json::to_vec(value).unwrap();
        [head(&body, sum).into_bytes(), body].concat()
    }

    fn unseal<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
        serde_json::from_slice(opened(bytes)?).map_err(|error| error.to_string())
    }

    #[test]
    fn every_single_damage_is_found() {
        for sum in [Sum::Sha256, Sum::Crc32] {
            let whole = seal(&vec![10_u32, 20, 30], sum);
            for length in 0..whole.len() {
                assert!(unseal::<Vec<u32>>(&whole[..length]).is_err(), "{length}");
            }
            for at in 0..whole.len() {
                for bit in 0..8 {
                    let mut bytes = whole.clone();
                    bytes[at] ^= 1 << bit;
                    // A number may be written in another way (`+5`) with the same value.
                    if let Ok(value) = unseal::<Vec<u32>>(&bytes) {
                        assert_eq!(value, [10, 20, 30], "{at} {bit}");
                    }
                }
            }
        }
    }
}
