// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The configuration of one device's queue, from either format.

use crate::codes;
use std::collections::BTreeMap;
use std::str::FromStr;
use weirgate_document::{Problems, SourceSpan};
use weirgate_uci::Section;

/// The value of an option.
pub(super) struct Setting {
    pub(super) line: usize,
    /// The place of the value.
    pub(super) span: SourceSpan,
    /// The option's name in the file.
    pub(super) written: String,
    pub(super) text: String,
}

/// One device's queue: a `config queue`, or a whole `.iface.conf`.
pub(super) struct Queue {
    pub(super) line: usize,
    /// The place of its head.
    pub(super) span: SourceSpan,
    /// The options by UCI's names.
    pub(super) options: BTreeMap<String, Setting>,
}

impl Queue {
    /// Returns the queue of a `config queue`; the last value of an option counts.
    pub(super) fn of_uci(section: Section) -> Self {
        let mut options = BTreeMap::new();
        for choice in section.choices {
            let set = Setting {
                line: choice.line,
                span: choice.span,
                written: choice.name.clone(),
                text: choice.value,
            };
            options.insert(choice.name, set);
        }
        Self {
            line: section.line,
            span: section.span,
            options,
        }
    }

    /// Returns the text of an option.
    pub(super) fn value(&self, option: &str) -> Option<&str> {
        self.options.get(option).map(|set| set.text.as_str())
    }

    /// Returns the place of an option's value, or of the queue if it has none.
    pub(super) fn place(&self, option: &str) -> &SourceSpan {
        let set = self.options.get(option);
        set.map_or(&self.span, |set| &set.span)
    }

    /// Returns the number of an option; reports another text.
    pub(super) fn number<T: FromStr>(
        &self,
        option: &str,
        right: &str,
        problems: &Problems,
    ) -> Option<T> {
        let set = self.options.get(option)?;
        let number = set.text.parse().ok();
        if number.is_none() {
            let what = format!("{} is `{}`", set.written, set.text);
            problems.error(codes::VALUE, set.span.clone(), what, right);
        }
        number
    }
}
