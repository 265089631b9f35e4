// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checked parameters of one instance, by name.

use crate::discipline::{Discipline, Row};
use crate::ffi::NEEDS_ECN;
use thiserror::Error;

/// A value for every parameter of a discipline, all within their ranges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    discipline: Discipline,
    values: Vec<u64>,
}

/// The error of an unknown parameter, or of a value that it cannot have.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SettingsError {
    /// The discipline has no such parameter.
    #[error("{discipline} has no parameter `{name}`; it has {known}")]
    Unknown {
        /// The discipline.
        discipline: &'static str,
        /// The name that was given.
        name: String,
        /// The names that exist.
        known: String,
    },
    /// The value is out of range.
    #[error("{name} is {value} {unit}; write {least} to {most}")]
    Range {
        /// The parameter.
        name: &'static str,
        /// The value that was given.
        value: u64,
        /// Its unit.
        unit: &'static str,
        /// The smallest allowed value.
        least: u64,
        /// The largest allowed value.
        most: u64,
    },
    /// The text is not a value of the parameter.
    #[error("{name} is `{text}`; write {expected}")]
    Text {
        /// The parameter.
        name: &'static str,
        /// The text that was given.
        text: String,
        /// The values that are accepted.
        expected: String,
    },
}

/// The discipline, the parameter and the value with which packets that cannot be marked are
/// accepted (`enum meredt_ecn`, aqm/meredt.c).
const MARK: (&str, &str, u64) = ("meredt", "mark", 1);

/// The message about that value where nothing can be marked.
pub const ONLY_MARKS: &str = "nothing can be marked there, so `mark=mark` would drop nothing \
                              early; write `mark=mark-or-drop` or `mark=drop`";

impl Settings {
    /// Returns the default of every parameter.
    pub fn new(discipline: Discipline) -> Self {
        let values = discipline.params().iter().map(|row| row.default).collect();
        Self { discipline, values }
    }

    /// Returns the settings with one parameter changed.
    pub fn with(mut self, name: &str, value: u64) -> Result<Self, SettingsError> {
        self.set(name, value)?;
        Ok(self)
    }

    /// Sets a parameter, in the unit of its row.
    pub fn set(&mut self, name: &str, value: u64) -> Result<(), SettingsError> {
        let rows = self.discipline.params();
        let Some(index) = rows.iter().position(|row| row.name == name) else {
            let known: Vec<&str> = rows.iter().map(|row| row.name).collect();
            return Err(SettingsError::Unknown {
                discipline: self.discipline.name(),
                name: name.to_owned(),
                known: known.join(", "),
            });
        };
        let row = rows[index];
        if value < row.least || value > row.most {
            return Err(SettingsError::Range {
                name: row.name,
                value,
                unit: row.unit,
                least: row.least,
                most: row.most,
            });
        }
        self.values[index] = value;
        Ok(())
    }

    /// Converts the values of an instance; returns `None` if there are too few or one is out of
    /// range.
    pub fn from_values(discipline: Discipline, values: &[u64]) -> Option<Self> {
        let rows = discipline.params();
        let fits = |(row, value): (&Row, &u64)| (row.least..=row.most).contains(value);
        let values = values.get(..rows.len())?;
        rows.iter().zip(values).all(fits).then(|| Self {
            discipline,
            values: values.to_vec(),
        })
    }

    /// Returns the discipline.
    pub fn discipline(&self) -> Discipline {
        self.discipline
    }

    /// Returns the values in the order of the table, as an instance holds them.
    pub fn values(&self) -> &[u64] {
        &self.values
    }

    /// Returns whether packets may be marked: the discipline reads their ECN field
    /// (`AQM_NEEDS_ECN`), and no parameter `ecn` or `mark` disables marking. With `l4s_marks`, L4S
    /// packets are marked whatever `mark` is (`aqm/include/shallow.h`).
    pub fn marks(&self) -> bool {
        let off = |(row, value): &(Row, u64)| ["ecn", MARK.1].contains(&row.name) && *value == 0;
        let l4s = |(row, value): &(Row, u64)| row.name == "l4s_marks" && *value > 0;
        let rows = self.rows();
        self.discipline.raw.needs & NEEDS_ECN != 0
            && (rows.iter().any(l4s) || !rows.iter().any(off))
    }

    /// Returns whether these settings never drop early where nothing can be marked.
    pub fn only_marks(&self) -> bool {
        let mark = |(row, value): &(Row, u64)| row.name == MARK.1 && *value == MARK.2;
        self.discipline.name() == MARK.0 && self.rows().iter().any(mark)
    }

    /// Returns each parameter with its value.
    pub fn rows(&self) -> Vec<(Row, u64)> {
        let rows = self.discipline.params();
        rows.into_iter().zip(self.values.iter().copied()).collect()
    }
}
