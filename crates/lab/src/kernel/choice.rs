// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kernel that a user chooses.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use weirgate_experiment::KernelName;

/// A kernel that a user or an experiment names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum KernelChoice {
    /// A kernel built by Debian.
    Named(KernelName),
    /// A bzImage, or a directory that contains `vmlinuz`.
    At(PathBuf),
}

impl KernelChoice {
    /// Returns the file or directory, if it is one.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Named(_) => None,
            Self::At(path) => Some(path),
        }
    }
}

/// The name of a Debian kernel selects that kernel; a file of that name is `./NAME`.
impl From<OsString> for KernelChoice {
    fn from(text: OsString) -> Self {
        match text.to_str().and_then(KernelName::of) {
            Some(name) => Self::Named(name),
            None => Self::At(text.into()),
        }
    }
}

impl fmt::Display for KernelChoice {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(name) => to.write_str(name.word()),
            Self::At(path) => path.display().fmt(to),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_kernels_and_all_else_is_a_path() {
        let of = |text: &str| KernelChoice::from(OsString::from(text));
        assert_eq!(of("6.1"), KernelChoice::Named(KernelName::Linux61));
        assert_eq!(of("./6.1"), KernelChoice::At("./6.1".into()));
        assert_eq!(of("6.10"), KernelChoice::At("6.10".into()));
        assert_eq!(of("generic").to_string(), "generic");
        assert_eq!(of("generic").path(), None);
    }
}
