// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The input of this crate: a name and a text.

/// A file to read.
#[derive(Debug, Clone, Copy)]
pub struct File<'t> {
    /// The name of the file in messages.
    pub name: &'t str,
    /// The contents of the file.
    pub text: &'t str,
}
