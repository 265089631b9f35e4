// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A policy as OpenWrt's configuration (UCI), and back without loss.
//!
//! Which option is which field follows from the registry of fields
//! ([`weirgate_policy::TABLES`]), so there is nothing to add here for a new field.
//!
//! * A table is a section of its name, `config link`; one of several is another section.
//! * A table within one of several has both names, `config ruleset_rule`, and belongs to the
//!   last `config ruleset` before it.
//! * A field is an option of its name with `_` for `-`. A field of a table within has both
//!   names, with `__` between: `option layer__overhead '44'`.
//! * A list is several `list`; one value that stands alone is an `option`.
//! * `true` and `false` are `1` and `0`, but for a setting that may be a number, too.
//! * A table that a policy has by name, such as a group, says it in `option name`.
//! * A table from texts to texts is a list of `KEY=VALUE`.
//!
//! Text in, text out; what the values mean is judged by crate `policy`.
//!
//! ```
//! let file = "config weirgate\n\toption enabled '1'\n\n\
//!     config policy\n\toption version '1'\n\n\
//!     config link\n\toption device 'wan'\n\tlist lan 'br-lan'\n\toption up '40mbit'\n";
//! let read = weirgate_uci::to_policy(file)?;
//! assert!(read.enabled);
//! assert_eq!(
//!     read.policy,
//!     "version = 1\n\n[link]\ndevice = \"wan\"\nlan = [\"br-lan\"]\nup = \"40mbit\"\n"
//! );
//! assert_eq!(weirgate_uci::of_policy(&read.policy, read.enabled)?, file);
//! # Ok::<(), weirgate_uci::UciError>(())
//! ```

mod fields;
mod of_policy;
mod read;
mod to_policy;

pub use of_policy::of_policy;
pub use read::{Choice, Section, read};
pub use to_policy::{Configured, to_policy};

/// Occurs when a text is no UCI, or holds what no policy has.
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

/// The section of the service itself, which is no part of the policy.
const SERVICE: &str = "weirgate";
