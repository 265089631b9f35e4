// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A file, as this crate is given it.

/// A file to read.
#[derive(Debug, Clone, Copy)]
pub struct File<'t> {
    /// What problems call it.
    pub name: &'t str,
    /// What it has.
    pub text: &'t str,
}
