// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The codes of problems in files of links. A code never changes its meaning.

/// Every code of this crate with its meaning.
pub const CODES: &[(&str, &str)] = &[
    (
        VERSION,
        "the file of links has a version that this weirgate does not read",
    ),
    (COUNT, "there are too few or too many links"),
    (
        DEVICE,
        "a device cannot belong to a link, or belongs to two",
    ),
    (WORD, "a word is not one that the field accepts"),
    (ADDRESS, "an address or prefix cannot be used in this field"),
    (MARKS, "`marks` is not a mask of four contiguous bits"),
    (UNKNOWN, "a rule names a link that the file does not have"),
    (
        TIMING,
        "the times of the health check contradict one another",
    ),
    (
        PROTOCOL,
        "a rule's protocol is unknown, has no ports, or is of another IP version",
    ),
    (PORT, "a rule's ports are not port numbers or ranges"),
];

pub(crate) const VERSION: &str = "L101";
pub(crate) const COUNT: &str = "L102";
pub(crate) const DEVICE: &str = "L103";
pub(crate) const WORD: &str = "L104";
pub(crate) const ADDRESS: &str = "L105";
pub(crate) const MARKS: &str = "L106";
pub(crate) const UNKNOWN: &str = "L107";
pub(crate) const TIMING: &str = "L108";
pub(crate) const PROTOCOL: &str = "L109";
pub(crate) const PORT: &str = "L110";
