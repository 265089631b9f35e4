// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the small files that an administrator writes: certificates, keys, access lists.

use std::fs::OpenOptions;
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// The largest such file, in bytes.
const LARGEST: u64 = 1 << 20;

/// Reads a regular file of at most 1 MiB. A device or a pipe, which may have no end, is refused
/// without waiting.
///
/// # Errors
/// That of the system, or that it is no such file.
pub fn read_text(path: &Path) -> io::Result<String> {
    let wrong = |why: &str| Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    // Opening a pipe would wait for its other end.
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)?;
    if !file.metadata()?.is_file() {
        return wrong("is not a file");
    }
    let mut text = String::new();
    file.take(LARGEST + 1).read_to_string(&mut text)?;
    if text.len() as u64 > LARGEST {
        return wrong("has more than 1 MiB");
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::read_text;
    use std::fs;
    use std::path::Path;

    #[test]
    fn what_has_no_end_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &path,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        let large = folder.path().join("large");
        fs::write(&large, vec![b' '; (1 << 20) + 1]).unwrap();
        for path in [&path, &large, Path::new("/dev/zero"), folder.path()] {
            assert!(read_text(path).is_err(), "{}", path.display());
        }
        let small = folder.path().join("small");
        fs::write(&small, "ann").unwrap();
        assert_eq!(read_text(&small).unwrap(), "ann");
    }
}
