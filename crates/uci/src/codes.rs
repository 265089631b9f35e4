// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The codes of problems in a UCI file. A code never changes its meaning.

/// Every code of this crate with its meaning.
pub const CODES: &[(&str, &str)] = &[
    (FORM, "A line of a UCI file is not UCI."),
    (
        UNKNOWN,
        "A section or option of a UCI file is not one of a policy, or cannot be where it is.",
    ),
    (
        VALUE,
        "An option of a UCI file is given twice, or cannot have its value.",
    ),
];

pub(crate) const FORM: &str = "U001";
pub(crate) const UNKNOWN: &str = "U002";
pub(crate) const VALUE: &str = "U003";
