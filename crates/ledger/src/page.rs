// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The ledger as pages: thesis, theory and measurement of each experiment side by side.

use crate::compare::interval;
use crate::{Entry, Expected, Figure, Standing, plot};
use std::fmt::Write as _;
use weirgate_experiment::Experiment;

/// The pages: file name, prefix of the experiments' names, heading. The last page has the
/// experiments of no thesis.
pub const GROUPS: [(&str, &str, &str); 5] = [
    ("adsl", "adsl-", "ADSL: Brouer 2005"),
    ("rate", "rate-", "Receive windows: Shah 1999"),
    ("ds", "ds-", "Differentiated services: Mylonas"),
    ("aqm", "aqm-", "Queue management: Braithwaite 2006"),
    ("own", "", "weirgate's own"),
];

/// An experiment on the pages.
#[derive(Debug)]
pub struct Row {
    /// The experiment.
    pub experiment: Experiment,
    /// Its stored result; none if none was accepted so far.
    pub entry: Option<Entry>,
    /// The promises of the README that the experiment verifies.
    pub holds: Vec<String>,
}

const HEAD: &str = "<!-- SPDX-License-Identifier: Apache-2.0 OR MIT -->\n\
                    <!-- Written by `cargo xtask docs` from results/; do not edit. -->\n";

/// Returns the file name of the page that has an experiment.
fn page_of(name: &str) -> &'static str {
    let found = GROUPS.iter().find(|group| name.starts_with(group.1));
    found.map_or("own", |group| group.0)
}

/// Returns the first page: a line for each experiment.
#[must_use]
pub fn index(rows: &[Row]) -> String {
    let mut text = format!(
        "{HEAD}# Results\n\nWhat every experiment measured when its result was last accepted into \
         [the ledger](../results.md). The last column has the promises of the README that the \
         experiment holds.\n"
    );
    let mut total = [0; 3];
    for row in rows {
        let counts = row.entry.as_ref().map_or([0; 3], Entry::counts);
        for (sum, count) in total.iter_mut().zip(counts) {
            *sum += count;
        }
    }
    let stored = rows.iter().filter(|row| row.entry.is_some()).count();
    let _ = writeln!(
        text,
        "\nOf {} experiments {stored} have a stored result. Of their expectations {} are kept, {} \
         explained and {} missed.",
        rows.len(),
        total[0],
        total[1],
        total[2]
    );
    for (file, _, heading) in GROUPS {
        let _ = write!(
            text,
            "\n## [{heading}]({file}.md)\n\n| experiment | what it shows | kept | explained | \
             missed | promises |\n|---|---|--:|--:|--:|---|\n"
        );
        for row in rows
            .iter()
            .filter(|row| page_of(&row.experiment.name) == file)
        {
            let counts = row.entry.as_ref().map(Entry::counts);
            let counts = counts.map_or_else(
                || " | | ".to_owned(),
                |[kept, explained, missed]| format!(" {kept} | {explained} | {missed} "),
            );
            let (name, title) = (&row.experiment.name, &row.experiment.title);
            let holds = row.holds.join("; ");
            let _ = writeln!(text, "| {name} | {} |{counts}| {holds} |", cell(title));
        }
    }
    text
}

/// Returns the page of a group: a section for each experiment with a stored result.
#[must_use]
pub fn group(file: &str, rows: &[Row]) -> String {
    let heading = GROUPS.iter().find(|group| group.0 == file);
    let heading = heading.map_or(file, |group| group.2);
    let mut text = format!(
        "{HEAD}# {heading}\n\nMeans with 95 % confidence intervals (Student's t) over the seeds. \
         What is judged of a `max` or `min` is the largest or smallest of all runs. The plots show \
         ratios to the thesis's figure, or to the promised number where there is none.\n"
    );
    for row in rows
        .iter()
        .filter(|row| page_of(&row.experiment.name) == file)
    {
        let Some(entry) = &row.entry else {
            continue;
        };
        section(&mut text, row, entry);
    }
    text
}

fn section(text: &mut String, row: &Row, entry: &Entry) {
    let experiment = &row.experiment;
    let _ = write!(text, "\n## {}\n\n{}.", experiment.name, experiment.title);
    if !experiment.source.is_empty() {
        let _ = write!(
            text,
            " Source: {}.",
            experiment.source.trim_end_matches('.')
        );
    }
    match (&entry.made_with.machine, entry.seeds.as_slice()) {
        (Some(machine), [first, .., last]) => {
            let _ = write!(
                text,
                " Seeds {first} to {last}, kernel {}, qemu {}.",
                machine.release, machine.emulator
            );
        }
        _ => text.push_str(" Calculated."),
    }
    text.push('\n');
    for promise in &row.holds {
        let _ = write!(text, "\nIt holds a promise of the README: {promise}.\n");
    }
    if plot(entry).is_some() {
        let name = &experiment.name;
        let _ = write!(
            text,
            "\n![{name}: each figure as a ratio, beside thesis and theory]({name}.svg)\n"
        );
    }
    text.push_str(
        "\n| arm | figure | expected | thesis | theory | measured | verdict |\n\
         |---|---|---|--:|--:|--:|---|\n",
    );
    let mut notes = Vec::new();
    for arm in &entry.arms {
        for figure in &arm.figures {
            let _ = writeln!(text, "| {} |{}", arm.name, line(figure));
            if let Some(Expected { verdict, .. }) = &figure.expected {
                notes.extend(note(&arm.name, &figure.metric, verdict));
            }
        }
    }
    if !notes.is_empty() {
        let _ = write!(text, "\n{}\n", notes.join("\n"));
    }
}

fn line(figure: &Figure) -> String {
    let number = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
    let mut measured = interval(figure);
    if figure.judged() != figure.mean() {
        let _ = write!(measured, ", judged {}", number(figure.judged()));
    }
    let (expected, thesis, theory, verdict) = match &figure.expected {
        None => (String::new(), None, None, ""),
        Some(one) => {
            let mut promise = cell(&one.promise);
            if let Some(value) = one.value {
                let _ = write!(promise, ", with {value}");
            }
            (promise, one.thesis, one.theory, one.verdict.word())
        }
    };
    format!(
        " `{}` | {expected} | {} | {} | {measured} | {verdict} |",
        figure.metric,
        number(thesis),
        number(theory)
    )
}

fn note(arm: &str, metric: &str, verdict: &Standing) -> Option<String> {
    match verdict {
        Standing::Kept => None,
        Standing::Explained { by, reason } => Some(format!(
            "- `{metric}` of {arm} is explained by `{by}`: {}.",
            reason.trim_end_matches('.')
        )),
        Standing::Missed { reason } => Some(format!(
            "- `{metric}` of {arm} is missed. Why: {}.",
            reason.trim_end_matches('.')
        )),
    }
}

/// Escapes a text for a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}
