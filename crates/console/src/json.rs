// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The one JSON document of a command with `--json`, also if the command fails.

use crate::exit::Outcome;
use crate::output;
use serde_json::{Map, Value};
use std::cell::RefCell;

/// The document, to which a command adds fields while it works. Without `--json` there is none,
/// and what is added is ignored.
#[derive(Debug)]
pub struct Document(Option<RefCell<Map<String, Value>>>);

impl Document {
    /// Returns the document of a command without `--json`.
    #[must_use]
    pub const fn none() -> Self {
        Self(None)
    }

    /// Returns whether the command prints JSON.
    pub const fn is_wanted(&self) -> bool {
        self.0.is_some()
    }

    /// Sets a field.
    pub fn put(&self, name: &str, value: Value) {
        if let Some(fields) = &self.0 {
            fields.borrow_mut().insert(name.to_owned(), value);
        }
    }

    /// Appends to a field that is a list.
    pub fn add(&self, name: &str, value: Value) {
        if let Some(fields) = &self.0 {
            let mut fields = fields.borrow_mut();
            let list = fields
                .entry(name)
                .or_insert_with(|| Value::Array(Vec::new()));
            if let Value::Array(list) = list {
                list.push(value);
            }
        }
    }

    /// Notes a result, unless the document has it.
    pub fn note(&self, text: &str) {
        if !self.is_wanted() {
            output::note(text);
        }
    }

    /// Prints the document. That of a failed command also has `error` and `problems`.
    fn end(self, outcome: Outcome) -> Outcome {
        let Some(fields) = self.0 else {
            return outcome;
        };
        let mut fields = fields.into_inner();
        if let Err(failure) = &outcome {
            fields.insert("error".to_owned(), failure.text().into());
            let problems = fields.entry("problems");
            problems.or_insert_with(|| Value::Array(Vec::new()));
        }
        let written = output::data(&format!("{:#}", Value::from(fields)));
        let status = outcome?;
        written?;
        Ok(status)
    }
}

/// Runs a command, and with `--json` prints its document at its end.
///
/// # Errors
/// The command's failure; or that standard output cannot be written.
pub fn documented(json: bool, command: impl FnOnce(&Document) -> Outcome) -> Outcome {
    let document = Document(json.then(RefCell::default));
    let outcome = command(&document);
    document.end(outcome)
}
