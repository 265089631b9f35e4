// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The configuration of one device's queue, from either format.

use crate::ImportError;
use std::collections::BTreeMap;

/// The value of an option.
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
    /// Returns the text of an option.
    pub(super) fn value(&self, option: &str) -> Option<&str> {
        self.options.get(option).map(|set| set.text.as_str())
    }

    /// Returns the number of an option.
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
