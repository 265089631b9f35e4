// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Results for a terminal: plain text, 80 columns, no colour.

use crate::format::{self, promise, quantity};
use crate::rows::{self, Row, Table};
use crate::{Findings, words};
use std::fmt::Write as _;
use weirgate_measure::{JudgedExpectation, Judgement};

/// Columns of the terminal.
const WIDTH: usize = 80;

/// The smallest and the largest width of a table's column, with the space before it.
const NARROWEST: usize = 10;
const WIDEST: usize = 22;

/// Returns the results of one experiment: the figures of all arms by phase, then the expectations.
#[must_use]
pub fn terminal(findings: &Findings) -> String {
    let mut out = String::new();
    let experiment = findings.experiment;
    for line in wrapped(
        &format!("{}: {}", experiment.name, experiment.title),
        WIDTH,
        "",
    ) {
        out += &line;
        out.push('\n');
    }
    out.push('\n');
    table(&mut out, &rows::table(findings));
    let runs = findings.runs.iter().map(|run| run.figures);
    for text in [findings.repeated(), words::overloaded(runs)]
        .into_iter()
        .flatten()
        .chain(words::calls(findings))
    {
        for line in wrapped(&text, WIDTH, "") {
            out += &line;
            out.push('\n');
        }
        out.push('\n');
    }
    out += &expectations(findings);
    out
}

/// Writes the table of figures; columns that do not fit go into another table.
fn table(out: &mut String, table: &Table) {
    let rows = || table.blocks.iter().flat_map(|block| &block.rows);
    let titles = table.blocks.iter().map(|block| text_width(&block.title));
    let label = rows()
        .map(|row| text_width(&labelled(row)) + 2)
        .chain(titles.map(|title| title.min(WIDEST) + 1))
        .max()
        .unwrap_or(0);
    let columns = &table.columns;
    let cells = |column: usize| rows().filter_map(move |row| row.cells().nth(column).flatten());
    let widths: Vec<usize> = columns
        .iter()
        .enumerate()
        .map(|(column, name)| {
            let cells = cells(column).map(|cell| text_width(&cell));
            let widest = cells.max().unwrap_or(0).max(text_width(name));
            (widest + 2).clamp(NARROWEST, WIDEST)
        })
        .collect();
    let mut start = 0;
    while start < columns.len() {
        let mut end = start + 1;
        while end < columns.len() && label + widths[start..=end].iter().sum::<usize>() <= WIDTH {
            end += 1;
        }
        part(out, table, &widths, (start, end), label);
        start = end;
    }
}

/// Writes the part of the table from the first given column to just before the second.
fn part(
    out: &mut String,
    table: &Table,
    widths: &[usize],
    (start, end): (usize, usize),
    label: usize,
) {
    let name = |column: usize| {
        right(
            &shortened(&table.columns[column], widths[column] - 1),
            widths[column],
        )
    };
    for (index, block) in table.blocks.iter().enumerate() {
        let mut heading = left(&shortened(&block.title, label - 1), label);
        if index == 0 {
            heading.extend((start..end).map(name));
        }
        let _ = writeln!(out, "{}", heading.trim_end());
        let some = |row: &&Row| row.values[start..end].iter().any(Option::is_some);
        for row in block.rows.iter().filter(some) {
            let _ = write!(out, "{}", left(&format!("  {}", labelled(row)), label));
            let cells = row.cells().zip(widths).skip(start).take(end - start);
            for (cell, width) in cells {
                out.push_str(&right(cell.as_deref().unwrap_or("-"), *width));
            }
            out.push('\n');
        }
    }
    out.push('\n');
}

fn labelled(row: &Row) -> String {
    let text = if row.unit.is_empty() {
        row.label.clone()
    } else {
        format!("{}, {}", row.label, row.unit)
    };
    shortened(&text, WIDTH / 2 - 4)
}

fn expectations(findings: &Findings) -> String {
    let mut out = String::new();
    let (kept, all) = findings.score();
    if all == 0 {
        out += "Nothing was expected.\n";
        return out;
    }
    let _ = writeln!(out, "{}", words::score(kept, all));
    for verdict in findings.verdicts {
        out += &judged(verdict, findings.verdicts);
    }
    out
}

/// Returns the expectations that are not kept, with the reasons; empty if there are none.
#[must_use]
pub fn missed(verdicts: &[JudgedExpectation]) -> String {
    let missed: String = verdicts
        .iter()
        .filter(|verdict| !verdict.kept())
        .map(|verdict| judged(verdict, verdicts))
        .collect();
    if missed.is_empty() {
        missed
    } else {
        format!("\nNot as expected:\n{missed}")
    }
}

fn judged(verdict: &JudgedExpectation, all: &[JudgedExpectation]) -> String {
    let mut out = verdict_line(verdict);
    out.push('\n');
    for line in reasons(verdict, all) {
        for line in wrapped(&line, WIDTH - 12, "            ") {
            let _ = writeln!(out, "{line}");
        }
    }
    out
}

/// Returns the line of a verdict: `kept       weirgate  upload1.rtt.interactive.max_ms` and the
/// figure.
fn verdict_line(verdict: &JudgedExpectation) -> String {
    let expectation = &verdict.expectation;
    let measured = verdict.measured.map_or_else(
        || "no figure".to_owned(),
        |measured| quantity(measured, &expectation.metric),
    );
    let deviation = format::deviation(verdict);
    let deviation = if deviation.is_empty() {
        deviation
    } else {
        format!(" ({deviation})")
    };
    format!(
        "  {:<9} {} {}\n            {measured}, expected {}{deviation}",
        format::judgement(verdict),
        expectation.arm,
        expectation.metric,
        promise(expectation, verdict.promise),
    )
}

/// Returns the reasons, if the promise was not kept.
fn reasons(verdict: &JudgedExpectation, all: &[JudgedExpectation]) -> Vec<String> {
    let mut lines = Vec::new();
    match &verdict.judgement {
        Judgement::Kept => return lines,
        Judgement::NoData(reason) => lines.push(format!("{reason}.")),
        Judgement::Broken => {}
    }
    lines.push(format!(
        "Source: {}.",
        verdict.expectation.source.trim_end_matches('.')
    ));
    let reason = verdict.expectation.reason.trim_end_matches('.');
    if !reason.is_empty() {
        let word = if verdict.has_mechanism(all) {
            "Explained"
        } else {
            "Supposed"
        };
        lines.push(format!("{word}: {reason}."));
    }
    if let Some(calculated) = &verdict.calculated {
        lines.push(format!(
            "Calculated: {}. {}.",
            quantity(calculated.value, &calculated.metric),
            words::capitalised(&calculated.derivation)
        ));
    }
    lines
}

/// Returns the width of a text in columns; every character counts as one.
fn text_width(text: &str) -> usize {
    text.chars().count()
}

fn left(text: &str, width: usize) -> String {
    format!("{text:<width$}")
}

fn right(text: &str, width: usize) -> String {
    format!("{text:>width$}")
}

/// Shortens a text to this many columns, with an ellipsis if something is cut.
fn shortened(text: &str, width: usize) -> String {
    if text_width(text) <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(3)).collect();
    format!("{kept}...")
}

/// Wraps a text to lines of at most `width` columns after the indent; a longer word gets its own
/// line.
pub(crate) fn wrapped(text: &str, width: usize, indent: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() && text_width(&line) + 1 + text_width(word) > width {
            lines.push(format!("{indent}{line}"));
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line += word;
    }
    if !line.is_empty() {
        lines.push(format!("{indent}{line}"));
    }
    lines
}

/// Aligns a small table: the first column to the left, the others to the right.
pub(crate) fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter()
            .filter_map(|row| row.get(column))
            .map(|cell| text_width(cell))
            .max()
    };
    let widths: Vec<usize> = (0..columns)
        .map(|column| width(column).unwrap_or(0))
        .collect();
    let mut out = String::new();
    for row in rows {
        let cells = row.iter().enumerate().map(|(column, cell)| match column {
            0 => left(cell, widths[column]),
            _ => right(cell, widths[column] + 3),
        });
        out += cells.collect::<String>().trim_end();
        out.push('\n');
    }
    out
}
