// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The codes of problems that a stored result can have.

/// Every code of this crate and what it means.
pub const CODES: &[(&str, &str)] = &[
    (
        VERSION,
        "a stored result has a version that this weirgate does not read",
    ),
    (
        NUMBERS,
        "a figure's runs are not numbers, or its mean or interval does not follow from them",
    ),
    (
        VERDICT,
        "a verdict is not a known one, or lacks what it needs",
    ),
    (
        SEEDS,
        "seeds are not whole numbers, or there is not one run for each",
    ),
];

pub(crate) const VERSION: &str = "R001";
pub(crate) const NUMBERS: &str = "R002";
pub(crate) const VERDICT: &str = "R003";
pub(crate) const SEEDS: &str = "R004";
