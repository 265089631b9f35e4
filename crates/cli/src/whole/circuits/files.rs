// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The files of a list.

use std::path::PathBuf;
use weirgate_circuits::{File, KeyKind, List, read as read_list};
use weirgate_console::exit::Failure;
use weirgate_console::{output, source};
use weirgate_document::Severity;

/// The largest file: two million circuits in long lines.
const LARGEST: u64 = 1 << 30;

/// Reads a list. Warnings are shown; errors become one failure that shows all.
pub(super) fn read(files: &[PathBuf]) -> Result<List, Failure> {
    let mut texts = Vec::new();
    for path in files {
        texts.push((
            path.display().to_string(),
            source::read_up_to(path, LARGEST)?,
        ));
    }
    let files: Vec<File<'_>> = texts
        .iter()
        .map(|(name, text)| File { name, text })
        .collect();
    let reading = read_list(&files);
    let shown: Vec<String> = reading.problems.iter().map(ToString::to_string).collect();
    let shown = shown.join("\n");
    let Some(list) = reading.list else {
        let errors = reading.problems.iter();
        let errors = errors.filter(|one| one.problem.severity == Severity::Error);
        let count = match errors.count() {
            1 => "1 error".to_owned(),
            many => format!("{many} errors"),
        };
        return Err(Failure::Input(format!(
            "{shown}\n\nweirgate: {count} in the list; nothing is changed"
        )));
    };
    if !shown.is_empty() {
        output::note(&shown);
    }
    Ok(list)
}

/// What a list has.
pub(super) fn summary(list: &List) -> String {
    let counts = list.keys().into_iter().zip(KeyKind::ALL.map(KeyKind::name));
    let of: Vec<String> = counts
        .filter(|(count, name)| *count > 0 || *name == KeyKind::Address.name())
        .map(|(count, name)| format!("{count} {name}"))
        .collect();
    format!(
        "{} with {}, below {}",
        output::count(list.circuits.len(), "circuit"),
        of.join(", "),
        output::count(list.sites.len(), "site")
    )
}
