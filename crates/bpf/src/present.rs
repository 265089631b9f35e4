// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A type that exists only if this library contains BPF programs. Only this module tests the
//! feature `programs`.

use crate::error::BpfError;
use weirgate_state::Capabilities;

/// Whether this library contains programs: the feature `programs`. Without it, loading, holding
/// or opening a program fails with [`BpfError::NoProgram`].
pub const HAS_PROGRAMS: bool = WithPrograms::here().is_some();

/// Returns the capabilities of this library with a kernel that supports everything.
pub fn most_capabilities() -> Capabilities {
    if HAS_PROGRAMS {
        Capabilities::all()
    } else {
        Capabilities::small()
    }
}

/// A token that every map, program and attachment contains. A library without programs cannot
/// construct one, and therefore no type that contains it. The compiler sees this, and removes
/// the code for these types and nearly all of libbpf.
#[derive(Debug, Clone, Copy)]
pub(crate) enum WithPrograms {
    /// The programs are part of this library.
    #[cfg(feature = "programs")]
    Here,
}

impl WithPrograms {
    /// Returns the token, if this library contains programs.
    #[inline]
    pub(crate) const fn here() -> Option<Self> {
        #[cfg(feature = "programs")]
        let found = Some(Self::Here);
        #[cfg(not(feature = "programs"))]
        let found = None;
        found
    }

    /// Returns the token, or the error for a program or map with this name.
    #[inline]
    pub(crate) fn of(name: &'static str) -> Result<Self, BpfError> {
        Self::here().ok_or(BpfError::NoProgram(name))
    }
}
