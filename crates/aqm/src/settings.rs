// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parameters of one instance, by name and checked.

use crate::discipline::{Discipline, Row};
use crate::ffi::NEEDS_ECN;
use thiserror::Error;

/// A value for every parameter of a discipline, all within their ranges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    discipline: Discipline,
    values: Vec<u64>,
}

/// Occurs when a parameter is set that is not there or to what it cannot be.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SettingsError {
    /// The discipline has no such parameter.
    #[error("{discipline} has no parameter `{name}`; it has {known}")]
    Unknown {
        /// The discipline.
        discipline: &'static str,
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// The value is outside the range.
    #[error("{name} is {value} {unit}; write {least} to {most}")]
    Range {
        /// The parameter.
        name: &'static str,
        /// What was asked for.
        value: u64,
        /// Its unit.
        unit: &'static str,
        /// Smallest value allowed.
        least: u64,
        /// Largest value allowed.
        most: u64,
    },
    /// The text is no value of the parameter.
    #[error("{name} is `{text}`; write {expected}")]
    Text {
        /// The parameter.
        name: &'static str,
        /// What was written.
        text: String,
        /// What may be written.
        expected: String,
    },
}

/// The discipline, its parameter and the value with which what cannot be marked is
/// let go (`enum meredt_ecn`, aqm/meredt.c).
const MARK: (&str, &str, u64) = ("meredt", "mark", 1);

/// What to say of it.
pub const ONLY_MARKS: &str = "nothing can be marked there, so `mark=mark` would drop nothing \
                              early; write `mark=mark-or-drop` or `mark=drop`";

impl Settings {
    /// Every parameter at its default.
    pub fn new(discipline: Discipline) -> Self {
        let values = discipline.params().iter().map(|row| row.default).collect();
        Self { discipline, values }
    }

    /// The same with one parameter set.
    pub fn with(mut self, name: &str, value: u64) -> Result<Self, SettingsError> {
        self.set(name, value)?;
        Ok(self)
    }

    /// Sets a parameter, in its table's unit.
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

    /// Values as an instance holds them; `None` where they are too few or
    /// outside their ranges.
    pub fn from_values(discipline: Discipline, values: &[u64]) -> Option<Self> {
        let rows = discipline.params();
        let fits = |(row, value): (&Row, &u64)| (row.least..=row.most).contains(value);
        let values = values.get(..rows.len())?;
        rows.iter().zip(values).all(fits).then(|| Self {
            discipline,
            values: values.to_vec(),
        })
    }

    /// Whose parameters they are.
    pub fn discipline(&self) -> Discipline {
        self.discipline
    }

    /// Values in the table's order, as an instance holds them.
    pub fn values(&self) -> &[u64] {
        &self.values
    }

    /// Whether packets may be marked: the discipline asks for their ECN field
    /// (`AQM_NEEDS_ECN`), and where a parameter `ecn` or `mark` could say that
    /// nothing is marked, it does not.
    pub fn marks(&self) -> bool {
        let off = |(row, value): &(Row, u64)| ["ecn", MARK.1].contains(&row.name) && *value == 0;
        self.discipline.raw.needs & NEEDS_ECN != 0 && !self.rows().iter().any(off)
    }

    /// Whether these settings let go whatever is chosen where nothing can be
    /// marked: then nothing is ever dropped early.
    pub fn only_marks(&self) -> bool {
        let mark = |(row, value): &(Row, u64)| row.name == MARK.1 && *value == MARK.2;
        self.discipline.name() == MARK.0 && self.rows().iter().any(mark)
    }

    /// Each parameter with its value.
    pub fn rows(&self) -> Vec<(Row, u64)> {
        let rows = self.discipline.params();
        rows.into_iter().zip(self.values.iter().copied()).collect()
    }
}
