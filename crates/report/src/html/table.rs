// SPDX-License-Identifier: Apache-2.0 OR MIT
//! HTML tables with headings for screen readers.

use crate::markup::escaped;
use crate::rows;
use std::fmt::Write as _;

/// A cell: text that is escaped, or markup of this crate.
pub(super) enum Cell {
    /// Text, left aligned.
    Text(String),
    /// A number, right aligned.
    Number(String),
    /// Markup of this crate.
    Markup(String),
}

impl Cell {
    /// Returns a metric in words, and below them its name, which may break after its dots.
    pub(super) fn metric(name: &str) -> Self {
        let words = name.parse().map(|metric| rows::in_words(&metric));
        let words = words.map_or_else(
            |_| String::new(),
            |words| format!("{}<br/>", escaped(&words)),
        );
        let parts: Vec<String> = name
            .split('.')
            .map(|part| escaped(part).to_string())
            .collect();
        Self::Markup(format!(
            "{words}<code class=\"soft\">{}</code>",
            parts.join(".<wbr>")
        ))
    }

    pub(super) fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }
}

/// Writes a table; the first cell of each row is its heading. Rows with one cell are headings of
/// groups.
pub(super) fn table(out: &mut String, caption: &str, columns: &[&str], rows: &[Vec<Cell>]) {
    let _ = write!(
        out,
        "<div class=\"scroll\"><table>\n<caption>{}</caption>\n<thead><tr>",
        escaped(caption)
    );
    for (index, column) in columns.iter().enumerate() {
        // Align headings of numeric columns to the right.
        let number = rows
            .iter()
            .any(|row| matches!(row.get(index), Some(Cell::Number(_))));
        let class = if number { " class=\"num\"" } else { "" };
        let _ = write!(out, "<th scope=\"col\"{class}>{}</th>", escaped(column));
    }
    *out += "</tr></thead>\n<tbody>\n";
    for row in rows {
        *out += "<tr>";
        if let [Cell::Text(group)] = row.as_slice() {
            let span = columns.len();
            let group = escaped(group);
            let _ = write!(
                out,
                "<th class=\"group\" scope=\"rowgroup\" colspan=\"{span}\">{group}</th>"
            );
        } else {
            for (index, cell) in row.iter().enumerate() {
                put(out, cell, index == 0);
            }
        }
        *out += "</tr>\n";
    }
    *out += "</tbody></table></div>\n";
}

fn put(out: &mut String, cell: &Cell, heading: bool) {
    let _ = match (cell, heading) {
        (Cell::Text(text), true) => write!(out, "<th scope=\"row\">{}</th>", escaped(text)),
        (Cell::Text(text), false) => write!(out, "<td>{}</td>", escaped(text)),
        (Cell::Number(text), _) => write!(out, "<td class=\"num\">{}</td>", escaped(text)),
        (Cell::Markup(markup), true) => write!(out, "<th scope=\"row\">{markup}</th>"),
        (Cell::Markup(markup), false) => write!(out, "<td>{markup}</td>"),
    };
}
