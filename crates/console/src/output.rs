// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writing to the terminal: data to standard output, notes to standard error.

use std::io::{self, IsTerminal, Write};
use terminal_size::{Width, terminal_size_of};

/// Columns where standard output is no terminal.
const COLUMNS: usize = 80;

/// Columns that no terminal is taken to have less of: a line must hold its
/// indent and a word.
const NARROWEST: usize = 40;

/// Writes text whose lines are broken at the terminal's edge, at spaces.
pub fn text(text: &str) -> io::Result<()> {
    let out = io::stdout();
    let width = match terminal_size_of(&out) {
        Some((Width(columns), _)) if out.is_terminal() => usize::from(columns),
        _ => COLUMNS,
    };
    data(&folded(text, width.max(NARROWEST)))
}

/// Breaks lines at spaces so that they have at most `width` characters, but not
/// between a number and its unit. What goes on stands below the text that it
/// continues: right of a column such as `12.34 ms  `, else two further in than
/// its line.
fn folded(text: &str, width: usize) -> String {
    let mut out = String::new();
    for line in text.lines() {
        if line.chars().count() <= width {
            out.push_str(line);
        } else {
            let (start, indent) = hang(line, width / 2);
            out.push_str(&line[..start]);
            let mut used = line[..start].chars().count();
            for (number, unit) in units(&line[start..]).into_iter().enumerate() {
                let length = unit.chars().count();
                if number > 0 && used + 1 + length > width {
                    out.push('\n');
                    out.extend(std::iter::repeat_n(' ', indent));
                    used = indent;
                } else if number > 0 {
                    out.push(' ');
                    used += 1;
                }
                out.push_str(unit);
                used += length;
            }
        }
        out.push('\n');
    }
    out
}

/// The words of a line; a number and what follows it are one.
fn units(line: &str) -> Vec<&str> {
    let mut units = Vec::new();
    let mut start = 0;
    for (space, _) in line.match_indices(' ') {
        let last = line[start..space].rsplit(' ').next().unwrap_or_default();
        if last.parse::<f64>().is_err() {
            units.push(&line[start..space]);
            start = space + 1;
        }
    }
    units.push(&line[start..]);
    units
}

/// Where a line's own text begins, in bytes, and the indent, in characters, of
/// what goes on below it.
fn hang(line: &str, most: usize) -> (usize, usize) {
    let first = line.len() - line.trim_start_matches(' ').len();
    let gap = line[first..].find("  ").map(|gap| first + gap);
    let column = gap.map(|gap| line.len() - line[gap..].trim_start_matches(' ').len());
    match column {
        Some(column) if line[..column].chars().count() <= most => {
            (column, line[..column].chars().count())
        }
        _ => (first, (first + 2).min(most)),
    }
}

/// Writes data and a newline. A reader that has gone away (a closed pipe) is
/// no error of ours.
pub fn data(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let written = out
        .write_all(text.as_bytes())
        .and_then(|()| {
            if text.ends_with('\n') {
                Ok(())
            } else {
                out.write_all(b"\n")
            }
        })
        .and_then(|()| out.flush());
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// Writes a note for the person at the terminal. Where standard error is
/// closed there is nobody to tell.
pub fn note(text: &str) {
    let mut err = io::stderr().lock();
    let _ = writeln!(err, "{}", text.trim_end_matches('\n'));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_broken_below_their_text() {
        let text = "upstream on wan: a line\n\n        163.09 ms  a packet of 1696 B sent on credit\n    \
                    Otherwise no hard bound: served in turn.\n";
        let expected = "upstream on wan: a line\n\n        163.09 ms  a packet of 1696 B\n                   \
                        sent on credit\n    Otherwise no hard bound: served in\n      turn.\n";
        assert_eq!(folded(text, 38), expected);
        assert_eq!(folded(text, 80), text);
        let unit = "        163.09 ms  the packets of 1696 B before it\n";
        let kept = "        163.09 ms  the packets of\n                   1696 B before it\n";
        assert_eq!(folded(unit, 39), kept);
    }

    #[test]
    fn no_word_is_lost_and_none_is_cut() {
        let long = format!("  {} ä {}  x", "w".repeat(90), "y z ".repeat(40));
        let broken = folded(&long, 40);
        let words =
            |text: &str| -> Vec<String> { text.split_whitespace().map(str::to_owned).collect() };
        assert_eq!(words(&broken), words(&long));
        let too_long = broken.lines().filter(|line| line.chars().count() > 40);
        assert_eq!(too_long.count(), 1, "the word that has more\n{broken}");
    }
}
