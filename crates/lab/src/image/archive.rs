// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes the cpio "newc" archive that the kernel unpacks as its first file system
//! (Documentation/driver-api/early-userspace/buffer-format.rst). It only converts paths and
//! bytes to bytes.

use std::collections::BTreeMap;
use std::ops::Range;

/// Type bits of a mode.
const DIRECTORY: u32 = 0o040_755;
const FILE: u32 = 0o100_644;
const PROGRAM: u32 = 0o100_755;
const LINK: u32 = 0o120_777;

/// The length of an entry's head: a magic number of six digits, and thirteen fields of eight.
const HEAD: usize = 110;

/// The places of two fields of the head: the length of the content, and that of the name with
/// its final zero.
const CONTENT: usize = 6;
const NAME: usize = 11;

/// A tree of files to archive. Owners and times are constant, so the same tree gives the same
/// bytes.
#[derive(Debug, Default)]
pub(crate) struct Archive {
    entries: BTreeMap<String, (u32, Vec<u8>)>,
}

impl Archive {
    /// Adds a file and its parent directories. A path that already exists is unchanged.
    pub(crate) fn file(&mut self, path: &str, content: Vec<u8>) {
        self.add(path, FILE, content);
    }

    /// Adds an executable file.
    pub(crate) fn program(&mut self, path: &str, content: Vec<u8>) {
        self.add(path, PROGRAM, content);
    }

    /// Adds a symbolic link.
    pub(crate) fn link(&mut self, path: &str, target: &str) {
        self.add(path, LINK, target.as_bytes().to_vec());
    }

    /// Adds an empty directory.
    pub(crate) fn directory(&mut self, path: &str) {
        self.add(path, DIRECTORY, Vec::new());
    }

    fn add(&mut self, path: &str, mode: u32, content: Vec<u8>) {
        let path = path.trim_start_matches('/');
        for (end, _) in path.match_indices('/') {
            let above = path[..end].to_owned();
            self.entries.entry(above).or_insert((DIRECTORY, Vec::new()));
        }
        self.entries
            .entry(path.to_owned())
            .or_insert((mode, content));
    }

    /// Returns the archive. Several archives, each padded to four bytes, may be concatenated.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        let mut bytes = Vec::new();
        // The entries are sorted by path, so directories precede their contents.
        for (number, (path, (mode, content))) in (1..).zip(&self.entries) {
            entry(&mut bytes, number, *mode, path, content);
        }
        entry(&mut bytes, 0, 0, "TRAILER!!!", &[]);
        bytes
    }
}

/// Returns where an archive has the content of a file, or `None` if there is no such file.
pub(crate) fn content(archive: &[u8], path: &str) -> Option<Range<usize>> {
    let mut start = 0;
    loop {
        let head = archive.get(start..start + HEAD)?;
        let field = |number: usize| {
            let digits = head.get(6 + 8 * number..14 + 8 * number)?;
            usize::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()
        };
        let (length, name_length) = (field(CONTENT)?, field(NAME)?);
        let name = start + HEAD..start + HEAD + name_length;
        let content = name.end.next_multiple_of(4);
        let end = content.checked_add(length)?;
        let (last, name) = archive.get(name)?.split_last()?;
        if *last == 0 && name == path.trim_start_matches('/').as_bytes() {
            return Some(content..end);
        }
        start = end.next_multiple_of(4);
    }
}

fn entry(bytes: &mut Vec<u8>, number: u32, mode: u32, path: &str, content: &[u8]) {
    let links = if mode & 0o170_000 == 0o040_000 { 2 } else { 1 };
    // The guest's memory bounds the archive, far below 4 GiB.
    let fields = [
        number,
        mode,
        0, // user
        0, // group
        links,
        0, // time
        content.len() as u32,
        0, // device of the file, major and minor
        0,
        0, // device that the file stands for
        0,
        path.len() as u32 + 1,
        0, // check sum, unused in this format
    ];
    bytes.extend_from_slice(b"070701");
    for field in fields {
        bytes.extend_from_slice(format!("{field:08X}").as_bytes());
    }
    bytes.extend_from_slice(path.as_bytes());
    bytes.push(0);
    pad(bytes);
    bytes.extend_from_slice(content);
    pad(bytes);
}

fn pad(bytes: &mut Vec<u8>) {
    bytes.resize(bytes.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_a_small_archive() {
        let mut archive = Archive::default();
        archive.program("/a/b", b"hello".to_vec());
        let text = String::from_utf8(archive.into_bytes()).unwrap();
        let zero = "00000000";
        let head = |number: &str, mode: &str, links: &str, size: &str, name: &str| {
            format!(
                "070701{number}{mode}{zero}{zero}{links}{zero}{size}\
                 {zero}{zero}{zero}{zero}{name}{zero}"
            )
        };
        let expected = head("00000001", "000041ED", "00000002", zero, "00000002")
            + "a\0"
            + &head("00000002", "000081ED", "00000001", "00000005", "00000004")
            + "a/b\0\0\0hello\0\0\0"
            + &head(zero, zero, "00000001", zero, "0000000B")
            + "TRAILER!!!\0\0\0\0";
        assert_eq!(text, expected);
        let found = |path| content(text.as_bytes(), path).map(|at| &text[at]);
        assert_eq!(found("/a/b"), Some("hello"));
        assert_eq!((found("/a/c"), content(b"0707", "/a")), (None, None));
    }

    #[test]
    fn order_of_adding_does_not_show() {
        let tree = |paths: &[&str]| {
            let mut archive = Archive::default();
            for path in paths {
                archive.file(path, path.as_bytes().to_vec());
            }
            archive.into_bytes()
        };
        assert_eq!(tree(&["b", "a/c", "a/d"]), tree(&["a/d", "b", "a/c"]));
    }
}
