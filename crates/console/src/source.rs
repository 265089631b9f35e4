// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reading files and showing the problems found in them.

use crate::exit::Failure;
use crate::output;
use std::io::Read as _;
use std::path::Path;
use weirgate_document::{Problem, Severity};

/// The largest file that is read as a policy or an experiment, in bytes. Both are written by hand,
/// so a larger file is a mistake.
const LARGEST: u64 = 1 << 20;

/// The largest list of circuits, in bytes: two million circuits on long lines.
pub const LARGEST_LIST: u64 = 1 << 30;

/// The largest number of problems that is shown of a file.
const MOST_SHOWN: usize = 200;

/// Reads a text file that a user wrote.
pub fn read(path: &Path) -> Result<String, Failure> {
    read_up_to(path, LARGEST)
}

/// Reads a text file of at most `largest` bytes.
pub fn read_up_to(path: &Path, largest: u64) -> Result<String, Failure> {
    let refused = |why: String| Failure::Input(format!("weirgate: {}: {why}", path.display()));
    let size = std::fs::metadata(path).map_err(|error| refused(error.to_string()))?;
    if !size.is_file() {
        return Err(refused("is not a file".to_owned()));
    }
    if size.len() > largest {
        return Err(refused(format!(
            "has {} bytes; at most {largest} are read",
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

/// Reads standard input, with the same limit.
pub fn read_stdin() -> Result<String, Failure> {
    read_stdin_up_to(LARGEST)
}

/// Reads standard input of at most `largest` bytes.
pub fn read_stdin_up_to(largest: u64) -> Result<String, Failure> {
    let refused = |why: String| Failure::Input(format!("weirgate: standard input: {why}"));
    let mut bytes = Vec::new();
    let input = std::io::stdin().lock();
    // Read one byte more, to detect longer input.
    let read = input.take(largest + 1).read_to_end(&mut bytes);
    read.map_err(|error| refused(error.to_string()))?;
    if bytes.len() as u64 > largest {
        return Err(refused(format!("at most {largest} bytes are read")));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        refused(format!("is not UTF-8 text: byte {at} is wrong"))
    })
}

/// Reads a file that another one includes, or returns why it cannot be read.
pub fn included(path: &Path) -> Result<String, String> {
    read(path).map_err(|failure| match failure {
        Failure::Input(text) => text.trim_start_matches("weirgate: ").to_owned(),
        _ => "it cannot be read".to_owned(),
    })
}

/// Parses a file with `parse`, and shows warnings. Errors become a failure that shows every
/// problem.
pub fn parse<T>(
    path: &Path,
    text: &str,
    parse: impl FnOnce(&str) -> (Option<T>, Vec<Problem>),
) -> Result<T, Failure> {
    let (value, problems) = parse(text);
    let file = path.display().to_string();
    judge(&file, value, &problems, |problem| {
        problem.render(&file, text)
    })
}

/// Shows warnings of a list of circuits, whose problems are one line each. Errors become a failure
/// that shows every problem.
pub fn judge_list<T>(
    problems: impl Iterator<Item = (Severity, String)>,
    list: Option<T>,
) -> Result<T, Failure> {
    let mut errors = 0;
    let mut shown = String::new();
    for (severity, line) in problems {
        errors += usize::from(severity == Severity::Error);
        shown.push_str(&line);
        shown.push('\n');
    }
    match list {
        Some(list) => {
            if !shown.is_empty() {
                output::note(shown.trim_end());
            }
            Ok(list)
        }
        None => Err(Failure::Input(format!(
            "{shown}\nweirgate: {} in the list; nothing is changed",
            output::count(errors, "error")
        ))),
    }
}

/// Shows warnings. Errors become a failure that shows every problem.
pub fn judge<T>(
    file: &str,
    value: Option<T>,
    problems: &[Problem],
    render: impl Fn(&Problem) -> String,
) -> Result<T, Failure> {
    let mut shown: Vec<String> = problems.iter().take(MOST_SHOWN).map(render).collect();
    if let Some(more @ 1..) = problems.len().checked_sub(MOST_SHOWN) {
        shown.push(format!("... and {more} more, of the lines that follow"));
    }
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
