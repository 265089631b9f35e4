// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The codes of problems in experiment files. Documentation and tests read this table. A code
//! never changes its meaning.

/// Every code of this crate and what it means.
pub const CODES: &[(&str, &str)] = &[
    (
        VERSION,
        "the file has a version that this weirgate does not read",
    ),
    (NAME, "a name is not allowed, or is given twice"),
    (WORD, "a word is not one that the field accepts"),
    (NODE, "a place does not exist in the topology"),
    (
        TIME,
        "a time interval is empty, reversed, overlapping or outside the run",
    ),
    (PHASE, "a phase does not exist"),
    (LIMIT, "a value is out of the lab's range"),
    (
        PACKET,
        "a packet is too small or too large for what it carries",
    ),
    (PORT, "a port is used twice at one place"),
    (
        ARM,
        "an arm does not exist, or its settings exclude each other",
    ),
    (METRIC, "a text is not the name of a metric"),
    (
        SUBJECT,
        "a metric refers to something that the file or the arm does not have",
    ),
    (
        PROMISE,
        "an expectation does not have exactly one of `value`, `at-least` and `at-most`",
    ),
    (COMMAND, "a command cannot be run"),
    (SWEEP, "a sweep and the commands that use it do not match"),
    (PATH, "a path does not name a file beside the experiment"),
    (SETTING, "a module parameter or kernel option is malformed"),
    (EMPTY, "the file has nothing to run"),
    (
        DIRECTION,
        "traffic does not cross the line, or goes to itself",
    ),
    (FORMULA, "a formula cannot be computed"),
];

pub(crate) const VERSION: &str = "E101";
pub(crate) const NAME: &str = "E102";
pub(crate) const WORD: &str = "E103";
pub(crate) const NODE: &str = "E104";
pub(crate) const TIME: &str = "E105";
pub(crate) const PHASE: &str = "E106";
pub(crate) const LIMIT: &str = "E107";
pub(crate) const PACKET: &str = "E108";
pub(crate) const PORT: &str = "E109";
pub(crate) const ARM: &str = "E110";
pub(crate) const METRIC: &str = "E111";
pub(crate) const SUBJECT: &str = "E112";
pub(crate) const PROMISE: &str = "E113";
pub(crate) const COMMAND: &str = "E114";
pub(crate) const SWEEP: &str = "E115";
pub(crate) const PATH: &str = "E116";
pub(crate) const SETTING: &str = "E117";
pub(crate) const EMPTY: &str = "E118";
pub(crate) const DIRECTION: &str = "E119";
pub(crate) const FORMULA: &str = "E120";
