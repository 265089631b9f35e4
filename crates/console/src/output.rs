// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writing to the terminal: data to standard output, notes to standard error.

use std::borrow::Cow;
use std::env;
use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, PoisonError};
use terminal_size::{Width, terminal_size_of};

/// The width if standard output is not a terminal.
const COLUMNS: usize = 80;

/// The smallest width that is assumed for a terminal: a line must hold its indent and a word.
const NARROWEST: usize = 40;

/// Colours of a terminal (ECMA-48, 8.3.117), and the reset to its own.
const RED: &str = "\x1b[1;31m";
const YELLOW: &str = "\x1b[1;33m";
const CYAN: &str = "\x1b[1;36m";
const PLAIN: &str = "\x1b[0m";

/// Words that are coloured at the beginning of a line, before a colon or a code.
const BEGINNINGS: [(&str, &str); 7] = [
    ("error", RED),
    ("fault", RED),
    ("differs", RED),
    ("warning", YELLOW),
    ("weirgate: warning", YELLOW),
    ("note", CYAN),
    ("= help", CYAN),
];

/// Returns whether a stream is a terminal with colours, unless `NO_COLOR` (no-color.org) is set or
/// the terminal has none.
pub fn has_colour(stream: &impl IsTerminal) -> bool {
    let value = |name| env::var_os(name).filter(|value| !value.is_empty());
    stream.is_terminal()
        && value("NO_COLOR").is_none()
        && value("TERM").is_some_and(|terminal| terminal != "dumb")
}

/// Returns the line with a word in red.
pub fn alarmed(line: &str, word: &str) -> String {
    line.replace(word, &format!("{RED}{word}{PLAIN}"))
}

fn coloured<'t>(text: &'t str, stream: &impl IsTerminal) -> Cow<'t, str> {
    if has_colour(stream) {
        Cow::Owned(painted(text))
    } else {
        Cow::Borrowed(text)
    }
}

/// Returns the text with the words at line beginnings and the underlines of places in files in
/// colour.
fn painted(text: &str) -> String {
    let mut out = String::new();
    for line in text.split_inclusive('\n') {
        let start = line.trim_start();
        let margin = &line[..line.len() - start.len()];
        let found = BEGINNINGS.iter().find_map(|(word, colour)| {
            let rest = start.strip_prefix(word)?;
            rest.starts_with([':', '['])
                .then_some((*word, rest, *colour))
        });
        let marks = start.strip_prefix('|').map(str::trim);
        let underlines = |marks: &str| !marks.is_empty() && marks.bytes().all(|mark| mark == b'^');
        match found {
            Some((word, rest, colour)) => {
                out.extend([margin, colour, word, PLAIN, rest]);
            }
            None if marks.is_some_and(underlines) => {
                out.extend([
                    margin,
                    "|",
                    RED,
                    start[1..].trim_end_matches('\n'),
                    PLAIN,
                    "\n",
                ]);
            }
            None => out.push_str(line),
        }
    }
    out
}

/// What [`later`] holds back, in order; `None` while everything is written at once.
static HELD: Mutex<Option<Vec<Held>>> = Mutex::new(None);

/// A text that is held back.
enum Held {
    Data(String),
    Note(String),
}

/// Holds back all output until this is dropped, and then writes it. A process that holds a lock must
/// not write: its reader may have been stopped, and would stop everybody who waits for the lock.
/// Declare it before the lock, so that it is dropped after it.
#[must_use]
pub fn later() -> Later {
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    let outermost = held.is_none();
    held.get_or_insert_default();
    Later(outermost)
}

/// Output that is held back. The flag says whether this is the outermost one.
#[derive(Debug)]
pub struct Later(bool);

impl Drop for Later {
    fn drop(&mut self) {
        if !self.0 {
            return;
        }
        let held = HELD.lock().unwrap_or_else(PoisonError::into_inner).take();
        for one in held.into_iter().flatten() {
            match one {
                Held::Data(text) => {
                    if let Err(error) = written(&text) {
                        note(&format!("weirgate: standard output: {error}"));
                    }
                }
                Held::Note(text) => note(&text),
            }
        }
    }
}

/// Keeps a text if output is held back. Returns whether it is.
fn is_held(one: impl FnOnce() -> Held) -> bool {
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    let texts = held.as_mut().map(|texts| texts.push(one()));
    texts.is_some()
}

/// Writes text, with lines wrapped at spaces to the terminal's width.
pub fn text(text: &str) -> io::Result<()> {
    let out = io::stdout();
    let width = match terminal_size_of(&out) {
        Some((Width(columns), _)) if out.is_terminal() => usize::from(columns),
        _ => COLUMNS,
    };
    let text = harmless(text, out.is_terminal());
    written(&coloured(&folded(&text, width.max(NARROWEST)), &out))
}

/// Writes lines unchanged, except for colours on a terminal.
pub fn lines(text: &str) -> io::Result<()> {
    let out = io::stdout();
    written(&coloured(&harmless(text, out.is_terminal()), &out))
}

/// Wraps lines at spaces to at most `width` characters, but not between a number and its unit.
/// Continuation lines are aligned with the text that they continue: right of a column such as
/// `12.34 ms  `, otherwise indented by two more than their line.
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

/// Returns the words of a line; a number and the following word are one unit.
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

/// Returns where a line's own text begins, in bytes, and the indent of continuation lines, in
/// characters.
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

/// Escapes what would control a terminal, such as part of a file's name.
fn harmless(text: &str, is_shown: bool) -> Cow<'_, str> {
    if is_shown {
        weirgate_document::escaped(text, &['\n', '\t'])
    } else {
        Cow::Borrowed(text)
    }
}

/// Writes data and a newline; only a terminal gets control characters escaped. A closed pipe is
/// not an error.
pub fn data(text: &str) -> io::Result<()> {
    written(&harmless(text, io::stdout().is_terminal()))
}

fn written(text: &str) -> io::Result<()> {
    if is_held(|| Held::Data(text.to_owned())) {
        return Ok(());
    }
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

/// Writes a note to standard error, with control characters escaped, and ignores errors.
pub fn note(text: &str) {
    if is_held(|| Held::Note(text.to_owned())) {
        return;
    }
    let mut err = io::stderr().lock();
    let text = harmless(text.trim_end_matches('\n'), true);
    let text = coloured(&text, &err);
    let _ = writeln!(err, "{text}");
}

/// Returns a number with a noun, which gets an `s` unless the number is 1.
#[must_use]
pub fn count(number: usize, thing: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {thing}{plural}")
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
    fn beginnings_and_underlines_have_colour() {
        let text = "error[P1]: it is wrong\n  |\n1 | x = 1\n  | ^^^\n  = help: write 2\nerrors\n";
        let expected = "\x1b[1;31merror\x1b[0m[P1]: it is wrong\n  |\n1 | x = 1\n  |\x1b[1;31m ^^^\x1b[0m\n  \
                        \x1b[1;36m= help\x1b[0m: write 2\nerrors\n";
        assert_eq!(painted(text), expected);
        assert_eq!(painted("2 warnings"), "2 warnings");
    }

    #[test]
    fn what_is_written_later_is_kept_until_the_outermost_end() {
        let held = || HELD.lock().unwrap().as_ref().map(Vec::len);
        let outer = later();
        data("one").unwrap();
        let inner = later();
        note("two");
        drop(inner);
        assert_eq!(held(), Some(2));
        drop(outer);
        assert_eq!(held(), None);
    }

    #[test]
    fn a_terminal_is_not_controlled() {
        let text = "a\x1b[31m\u{9b}2J\r\u{202e}b:\tü\n";
        let expected = "a\\u{1b}[31m\\u{9b}2J\\r\\u{202e}b:\tü\n";
        assert_eq!(harmless(text, true), expected);
        assert_eq!(harmless(text, false), text);
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
