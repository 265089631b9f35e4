// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether this library has programs, as a type: the only place that tests the feature `programs`.

use crate::error::BpfError;
use weirgate_state::Capabilities;

/// Whether this library has programs: the feature `programs`. Without them each one that
/// is to be loaded, held or opened is a [`BpfError::NoProgram`].
pub const HAS_PROGRAMS: bool = WithPrograms::here().is_some();

/// What a kernel that has everything offers to a program with this library.
pub fn most_capabilities() -> Capabilities {
    if HAS_PROGRAMS {
        Capabilities::all()
    } else {
        Capabilities::small()
    }
}

/// What every map, program and attachment of the kernel has with it. In a library without
/// programs nobody can make one, so that there is no value of any type that has one. The
/// compiler sees that, and leaves out what works with them, and nearly all of libbpf.
#[derive(Debug, Clone, Copy)]
pub(crate) enum WithPrograms {
    /// They are part of this library.
    #[cfg(feature = "programs")]
    Here,
}

impl WithPrograms {
    /// One, where this library has programs.
    #[inline]
    pub(crate) const fn here() -> Option<Self> {
        #[cfg(feature = "programs")]
        let found = Some(Self::Here);
        #[cfg(not(feature = "programs"))]
        let found = None;
        found
    }

    /// The same, or the error for a program or map of this name.
    #[inline]
    pub(crate) fn of(name: &'static str) -> Result<Self, BpfError> {
        Self::here().ok_or(BpfError::NoProgram(name))
    }
}
