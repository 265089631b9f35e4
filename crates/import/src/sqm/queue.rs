// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One device's queue as either form of the file configures it.

use crate::ImportError;
use std::collections::BTreeMap;

/// What an option was set to.
pub(super) struct Setting {
    pub(super) line: usize,
    /// The option's name in the file.
    pub(super) written: String,
    pub(super) text: String,
}

/// One device's queue: a `config queue`, or a whole `.iface.conf`.
pub(super) struct Queue {
    pub(super) line: usize,
    /// The options by UCI's names.
    pub(super) options: BTreeMap<String, Setting>,
}

impl Queue {
    /// The text of an option.
    pub(super) fn value(&self, option: &str) -> Option<&str> {
        self.options.get(option).map(|set| set.text.as_str())
    }

    /// The number that an option is set to.
    pub(super) fn number(&self, option: &str) -> Result<Option<i64>, ImportError> {
        let Some(set) = self.options.get(option) else {
            return Ok(None);
        };
        set.text.parse().map(Some).map_err(|_| ImportError {
            line: set.line,
            what: format!("{} is `{}`", set.written, set.text),
            hint: "write a whole number",
        })
    }
}
