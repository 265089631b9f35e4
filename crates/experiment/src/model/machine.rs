// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The virtual machine of an experiment.

/// A kernel that Debian builds and the laboratory can fetch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum KernelName {
    /// The newest cloud kernel of Debian's backports, the laboratory's default.
    Cloud,
    /// The generic kernel of the same suite. It has drivers that the cloud kernel lacks: PPP,
    /// radio, ATM.
    Generic,
    /// The kernel of Debian 13 (trixie).
    Linux612,
    /// The kernel of Debian 12 (bookworm).
    Linux61,
}

impl KernelName {
    /// Every kernel with its word in experiment files and on command lines.
    pub const ALL: [(&'static str, Self); 4] = [
        ("cloud", Self::Cloud),
        ("generic", Self::Generic),
        ("6.12", Self::Linux612),
        ("6.1", Self::Linux61),
    ];

    /// Returns the kernel that this word names.
    #[must_use]
    pub fn of(word: &str) -> Option<Self> {
        let mut all = Self::ALL.iter();
        all.find(|one| one.0 == word).map(|one| one.1)
    }

    /// Returns its word.
    #[must_use]
    pub fn word(self) -> &'static str {
        let mut all = Self::ALL.iter();
        all.find(|one| one.1 == self).map_or("", |one| one.0)
    }
}

/// The settings of the machine that runs each arm.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Machine {
    /// The kernel; the laboratory's default where absent.
    pub kernel: Option<KernelName>,
}

#[cfg(test)]
mod tests {
    use super::KernelName;

    #[test]
    fn words_and_kernels_are_one_to_one() {
        for (word, kernel) in KernelName::ALL {
            assert_eq!(KernelName::of(word), Some(kernel));
            assert_eq!(kernel.word(), word);
        }
        assert_eq!(KernelName::of("6.18"), None);
    }
}
