// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The codes of problems in files of other tools. A code never changes its meaning.

/// Every code of this crate with its meaning.
pub const CODES: &[(&str, &str)] = &[
    (
        FORM,
        "A file to import has another format than that of the named tool.",
    ),
    (
        MISSING,
        "A file to import lacks something that every policy needs.",
    ),
    (VALUE, "A value of a file to import cannot be read."),
];

pub(crate) const FORM: &str = "I001";
pub(crate) const MISSING: &str = "I002";
pub(crate) const VALUE: &str = "I003";
