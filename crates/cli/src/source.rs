// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reading files and showing the problems found in them.

use crate::exit::Failure;
use crate::output;
use std::path::Path;
use weirgate_document::{Problem, Severity};

/// The largest file read as a policy or an experiment; both are written by
/// hand, and anything larger is a mistake.
const LARGEST: u64 = 1 << 20;

/// Reads a text file.
pub fn read(path: &Path) -> Result<String, Failure> {
    let refused = |why: String| Failure::Input(format!("weirgate: {}: {why}", path.display()));
    let size = std::fs::metadata(path).map_err(|error| refused(error.to_string()))?;
    if !size.is_file() {
        return Err(refused("is not a file".to_owned()));
    }
    if size.len() > LARGEST {
        return Err(refused(format!(
            "has {} bytes; at most {LARGEST} are read",
            size.len()
        )));
    }
    let bytes = std::fs::read(path).map_err(|error| refused(error.to_string()))?;
    String::from_utf8(bytes).map_err(|error| {
        refused(format!(
            "is not UTF-8 text: byte {} is wrong",
            error.utf8_error().valid_up_to()
        ))
    })
}

/// Parses a file with `parse`; shows warnings; errors become a failure that
/// shows every problem.
pub fn parse<T>(
    path: &Path,
    text: &str,
    parse: impl FnOnce(&str) -> (Option<T>, Vec<Problem>),
) -> Result<T, Failure> {
    let (value, problems) = parse(text);
    let file = path.display().to_string();
    settle(&file, value, &problems, |problem| {
        problem.render(&file, text)
    })
}

/// Shows what is said about a file: warnings; errors become a failure that
/// shows every problem. `render` knows the files that problems are in.
pub fn settle<T>(
    file: &str,
    value: Option<T>,
    problems: &[Problem],
    render: impl Fn(&Problem) -> String,
) -> Result<T, Failure> {
    let shown: Vec<String> = problems.iter().map(render).collect();
    let errors = problems
        .iter()
        .filter(|problem| problem.severity == Severity::Error)
        .count();
    match value {
        Some(value) if errors == 0 => {
            if !shown.is_empty() {
                output::note(&shown.join("\n\n"));
            }
            Ok(value)
        }
        _ => {
            let count = match errors {
                1 => "1 error".to_owned(),
                many => format!("{many} errors"),
            };
            Err(Failure::Input(format!(
                "{}\n\nweirgate: {file}: {count}",
                shown.join("\n\n")
            )))
        }
    }
}
