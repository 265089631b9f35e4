// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The picture of before and after, drawn from the table of the README, so that both have the same
//! figures.

use anyhow::{Context, Result, ensure};
use std::fmt::Write as _;

/// The colours of Okabe and Ito for before and after. The text colour follows the reader's choice
/// of light or dark.
const STYLE: &str = "<style>text{font:15px sans-serif;fill:#222}.n{font-weight:bold}\
    .b{fill:#d55e00}.a{fill:#009e73}@media(prefers-color-scheme:dark){text{fill:#ddd}}</style>";

const WIDTH: f64 = 760.0;
/// The start of bars, and the space for the figure after the longest bar.
const LEFT: f64 = 210.0;
const RIGHT: f64 = 90.0;
const TOP: f64 = 60.0;
const ROW: f64 = 62.0;
const BAR: f64 = 20.0;

/// A row of the table: its name, and delays in milliseconds.
struct TableRow<'a> {
    name: &'a str,
    before: f64,
    after: f64,
}

/// Draws the table between the marks.
pub fn draw(readme: &str) -> Result<String> {
    let lines = table(readme)?;
    let height = TOP + ROW * lines.len() as f64 + 10.0;
    let most = lines.iter().map(|line| line.before).fold(0.0, f64::max);
    let width = |delay: f64| (WIDTH - LEFT - RIGHT) * delay / most;
    let mut text = format!(
        "<!-- SPDX-License-Identifier: Apache-2.0 OR MIT -->\n\
         <!-- Made by `cargo xtask docs` from the table in README.md; do not edit. -->\n\
         <svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\">\n\
         <title>Delay of a small packet on a full line</title>\n{STYLE}\n\
         <text class=\"n\" x=\"10\" y=\"24\">Delay of a small packet while the line is full</text>\n\
         <rect class=\"b\" x=\"10\" y=\"36\" width=\"12\" height=\"12\"/>\
         <text x=\"28\" y=\"47\">the modem alone</text>\n\
         <rect class=\"a\" x=\"190\" y=\"36\" width=\"12\" height=\"12\"/>\
         <text x=\"208\" y=\"47\">under weirgate</text>\n"
    );
    for (index, line) in lines.iter().enumerate() {
        let top = TOP + ROW * index as f64 + 12.0;
        let _ = writeln!(
            text,
            "<text x=\"10\" y=\"{:.0}\">{}</text>",
            top + BAR + 4.0,
            line.name
        );
        for (class, delay, top) in [("b", line.before, top), ("a", line.after, top + BAR + 2.0)] {
            let _ = writeln!(
                text,
                "<rect class=\"{class}\" x=\"{LEFT}\" y=\"{top:.0}\" width=\"{0:.1}\" \
                 height=\"{BAR}\"/><text x=\"{1:.1}\" y=\"{2:.0}\">{delay} ms</text>",
                width(delay),
                LEFT + width(delay) + 6.0,
                top + 15.0
            );
        }
    }
    Ok(text + "</svg>\n")
}

fn table(readme: &str) -> Result<Vec<TableRow<'_>>> {
    let marks = "`cargo xtask docs` draws docs/before-after.svg";
    let (_, after) = readme
        .split_once(marks)
        .context("README.md has no table of lines")?;
    let (table, _) = after
        .split_once("<!-- pictures:end")
        .context("README.md: no end of the table")?;
    let rows = table.lines().filter(|line| line.starts_with("| ")).skip(1);
    let lines: Result<Vec<TableRow>> = rows.map(line).collect();
    let lines = lines?;
    ensure!(!lines.is_empty(), "README.md: the table of lines is empty");
    Ok(lines)
}

fn line(row: &str) -> Result<TableRow<'_>> {
    let cells: Vec<&str> = row.split('|').map(str::trim).collect();
    let delay = |index: usize| -> Result<f64> {
        let cell = cells.get(index).and_then(|cell| cell.strip_suffix(" ms"));
        let number = cell.and_then(|cell| cell.parse().ok());
        number.with_context(|| format!("README.md: no delay in column {index} of `{row}`"))
    };
    Ok(TableRow {
        name: cells.get(1).copied().unwrap_or_default(),
        before: delay(2)?,
        after: delay(3)?,
    })
}

#[cfg(test)]
mod tests {
    use super::table;

    #[test]
    fn a_row_has_a_name_and_two_delays() {
        let readme = "`cargo xtask docs` draws docs/before-after.svg -->\n| line | a | b |\n|---|---|---|\n\
                      | fibre | 161 ms | 20.6 ms |\n<!-- pictures:end -->\n";
        let lines = table(readme).unwrap();
        assert_eq!(lines.len(), 1);
        assert_eq!((lines[0].name, lines[0].before), ("fibre", 161.0));
        assert!(table("nothing").is_err());
    }
}
