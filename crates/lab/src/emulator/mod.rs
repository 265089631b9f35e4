// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The emulator of the laboratory: this machine's own qemu if it reproduces a run bit for bit,
//! otherwise one that [`fetch`](fetch::fetch) has downloaded.

mod fetch;

use crate::cache::Cache;
use crate::error::LabError;
use crate::tool::{QEMU, output};
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

pub(crate) use fetch::fetch;

/// The first version that reproduces a run. With 7.2, a seed has two recordings; docs/lab.md has
/// the measurement.
const REPEATS: Version = Version(10, 0);

/// A version of qemu, without the patch level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Version(u32, u32);

/// An emulator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Emulator {
    /// The first words of its command line.
    pub(crate) words: Vec<OsString>,
    /// Its version, such as `10.0.13`.
    pub(crate) version: String,
}

impl Emulator {
    /// Returns the emulator to use: this machine's own if it is new enough, or else the fetched
    /// one, or else this machine's own.
    pub(crate) fn find(cache: &Cache) -> Result<Self, LabError> {
        let own = QEMU
            .path()
            .and_then(|path| Self::at(vec![path.into_os_string()]));
        if own.as_ref().is_ok_and(Self::repeats) {
            return own;
        }
        let fetched = cache.root().join(fetch::KEPT).join("current");
        if fetched.is_dir() {
            return Self::fetched(&fetched);
        }
        own
    }

    /// Returns whether it is this machine's own.
    pub(crate) fn is_own(&self) -> bool {
        self.words.len() == 1
    }

    /// Returns whether one seed always gives the same recording.
    pub(crate) fn repeats(&self) -> bool {
        Version::parse(&self.version).is_some_and(|version| version >= REPEATS)
    }

    /// Returns the emulator in a fetched tree, with its libraries.
    fn fetched(tree: &Path) -> Result<Self, LabError> {
        let at = |part: &str| tree.join(part).into_os_string();
        Self::at(vec![
            at("lib64/ld-linux-x86-64.so.2"),
            "--library-path".into(),
            at("lib/x86_64-linux-gnu"),
            at("bin/qemu-system-x86_64"),
            "-L".into(),
            at("share/qemu"),
            "-L".into(),
            at("share/seabios"),
        ])
    }

    /// Returns the emulator whose command line begins with these words.
    fn at(words: Vec<OsString>) -> Result<Self, LabError> {
        let mut command = Command::new(&words[0]);
        let text = output(command.args(&words[1..]).arg("--version"))?;
        // "QEMU emulator version 10.0.13 (Debian 1:10.0.13+ds-0+deb13u1)".
        let mut after = text
            .split_whitespace()
            .skip_while(|&word| word != "version");
        let version = after.nth(1).unwrap_or("unknown").to_owned();
        Ok(Self { words, version })
    }
}

impl Version {
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('.').map(|part| part.parse().ok());
        Some(Self(parts.next()??, parts.next()??))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_numbers() {
        let repeats = |version: &str| {
            Emulator {
                words: Vec::new(),
                version: version.to_owned(),
            }
            .repeats()
        };
        assert!(repeats("10.0.13") && repeats("10.1") && repeats("11.0.0"));
        assert!(!repeats("7.2.22") && !repeats("9.2.4"));
        assert!(!repeats("unknown") && !repeats("10") && !repeats(""));
    }
}
