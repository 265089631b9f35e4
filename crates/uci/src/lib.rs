// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Converts a policy to OpenWrt's configuration (UCI), and back without loss.
//!
//! The mapping of options to fields follows from the registry of fields
//! ([`weirgate_policy::TABLES`]), so a new field needs no change here.
//!
//! * A table is a section with its name, `config link`. Each of several tables is a section.
//! * A table within one of several has both names, `config ruleset_rule`, and belongs to the last
//!   `config ruleset` before it.
//! * A field is an option with its name, with `_` for `-`. A field of an inner table has both
//!   names, with `__` between them: `option layer__overhead '44'`.
//! * A list is several `list` lines; a single value is an `option`.
//! * `true` and `false` are `1` and `0`, except for a setting that may also be a number.
//! * A named table of a policy, such as a group, has its name in `option name`.
//! * A table of texts by text is a list of `KEY=VALUE`.
//!
//! This crate is pure; crate `policy` judges the values. [`Configured::origins`] has the place in
//! the UCI file for each place of the policy.
//!
//! ```
//! let file = "config weirgate\n\toption enabled '1'\n\n\
//!     config policy\n\toption version '1'\n\n\
//!     config link\n\toption device 'wan'\n\tlist lan 'br-lan'\n\toption up '40mbit'\n";
//! let read = weirgate_uci::to_policy(file).expect("it is right");
//! assert!(read.enabled);
//! assert_eq!(
//!     read.policy,
//!     "version = 1\n\n[link]\ndevice = \"wan\"\nlan = [\"br-lan\"]\nup = \"40mbit\"\n"
//! );
//! assert_eq!(weirgate_uci::of_policy(&read.policy, read.enabled)?, file);
//! # Ok::<(), weirgate_uci::UciError>(())
//! ```

mod codes;
mod fields;
mod of_policy;
mod read;
mod to_policy;

pub use codes::CODES;
pub use of_policy::of_policy;
pub use read::{Choice, Section, read};
pub use to_policy::{Configured, convert, to_policy};

/// The error of a policy that is not TOML, or that has something that UCI cannot express.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what} ({hint})")]
pub struct UciError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong.
    pub what: String,
    /// What would be right.
    pub hint: String,
}

impl UciError {
    fn new(line: usize, what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            line,
            what: what.into(),
            hint: hint.into(),
        }
    }
}

/// The section of the service, which is not part of the policy.
const SERVICE: &str = "weirgate";
