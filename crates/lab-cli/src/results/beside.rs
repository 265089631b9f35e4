// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Selects experiments, and reads each with its stored result.

use weirgate_campaign::ledger::{Bench, Ledger, Subject};
use weirgate_console::exit::Failure;
use weirgate_ledger::{Entry, MadeWith};

/// Which of the experiments are run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    /// Those that have changed.
    Changed,
    /// All, changed or not.
    All,
}

impl Which {
    pub(super) fn of(all: bool) -> Self {
        if all { Self::All } else { Self::Changed }
    }
}

/// An experiment with its stored result.
pub(super) struct Beside {
    pub(super) subject: Subject,
    pub(super) stored: Option<Entry>,
    pub(super) made_with: MadeWith,
    /// Why the stored result is stale.
    pub(super) stale: Vec<String>,
}

impl Beside {
    pub(super) fn read(ledger: &Ledger, name: &str, bench: &mut Bench) -> Result<Self, Failure> {
        let subject = ledger.subject(name)?;
        let stored = ledger.stored(name)?;
        let made_with = bench.made_with(&subject)?;
        let stale = stored
            .as_ref()
            .map(|stored| subject.stale(stored, &made_with));
        Ok(Self {
            stale: stale.unwrap_or_default(),
            subject,
            stored,
            made_with,
        })
    }

    /// Returns whether its stored result is current.
    pub(super) fn unchanged(&self) -> bool {
        self.stored.is_some() && self.stale.is_empty()
    }

    /// Returns its new entry: measured, and judged by the current expectations.
    pub(super) fn entry(&self, bench: &mut Bench, fresh: bool) -> Result<Entry, Failure> {
        let seeds = self.subject.seeds();
        let measured = bench.measured(&self.subject, &self.made_with, &seeds, fresh)?;
        Ok(self.subject.judge(&measured)?)
    }
}

/// Returns the named experiments, or all if none is named.
pub(super) fn chosen(ledger: &Ledger, names: &[String]) -> Result<Vec<String>, Failure> {
    if names.is_empty() {
        ledger.names()
    } else {
        ledger.chosen(names)
    }
}
