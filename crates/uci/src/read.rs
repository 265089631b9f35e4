// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses UCI files: sections with options and lists (`uci_parse_line` and `uci_parse_argument` of
//! libuci's file.c). A quoted word may span several lines.

use crate::codes;
use weirgate_document::{Problems, SourceSpan};

/// A section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// The line of its `config`, from 1.
    pub line: usize,
    /// The place of its type.
    pub span: SourceSpan,
    /// Its type.
    pub kind: String,
    /// Its name, if it has one.
    pub name: Option<String>,
    /// Its options and lists, in order.
    pub choices: Vec<Choice>,
}

/// An option, or one value of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// Its line, from 1.
    pub line: usize,
    /// The place of its name.
    pub name_span: SourceSpan,
    /// The place of its value.
    pub span: SourceSpan,
    /// Whether it is a value of a list.
    pub list: bool,
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
}

const FORM: &str =
    "a UCI file has lines such as: config TYPE, option NAME 'VALUE', list NAME 'VALUE'";

/// The most lines that are reported. A quote without an end is looked for up to the end of the
/// file, so a file full of them would take minutes.
const MOST: usize = 200;

/// Returns the sections of a file, and reports every line that is not UCI and every quote that is
/// not closed.
#[must_use]
pub fn read(text: &str, problems: &Problems) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    let mut wrong = 0;
    let mut lines = Lines {
        text,
        at: 0,
        line: 1,
        crossing: None,
    };
    while lines.at < text.len() && wrong < MOST {
        let (from, line) = (lines.at, lines.line);
        let words = lines.next_line();
        let span = |at: usize| words.get(at).map_or(from..from, |word| word.1.clone());
        let texts: Vec<&str> = words.iter().map(|word| word.0.as_str()).collect();
        let failed = lines.crossing.is_some_and(|quote| !quote.closed);
        let what = match (texts.as_slice(), sections.last_mut()) {
            _ if failed => String::new(),
            ([] | ["package", _], _) => continue,
            (["config", kind, rest @ ..], _) if rest.len() < 2 => {
                sections.push(Section {
                    line,
                    span: span(1),
                    kind: (*kind).to_owned(),
                    name: rest.first().map(|name| (*name).to_owned()),
                    choices: Vec::new(),
                });
                continue;
            }
            ([word @ ("option" | "list"), name, value], Some(section)) => {
                section.choices.push(Choice {
                    line,
                    name_span: span(1),
                    span: span(2),
                    list: *word == "list",
                    name: (*name).to_owned(),
                    value: (*value).to_owned(),
                });
                continue;
            }
            ([word @ ("option" | "list"), _, _], None) => format!("`{word}` before any `config`"),
            ([word, ..], _) => format!("`{word}` begins no UCI line of this form"),
        };
        wrong += 1;
        if let Some(quote) = lines.crossing {
            // The quote was probably meant to end on its own line: go on with the next one.
            let rest = &text[quote.at..];
            let end = quote.at + rest.find('\n').unwrap_or(rest.len());
            problems.error(codes::FORM, quote.at..end, "a quote has no end", FORM);
            (lines.at, lines.line) = (end, quote.line);
        } else {
            let end = span(words.len().wrapping_sub(1)).end;
            problems.error(codes::FORM, span(0).start..end, what, FORM);
        }
    }
    sections
}

/// A quote that is still open at the end of its line.
#[derive(Clone, Copy)]
struct Crossing {
    at: usize,
    line: usize,
    closed: bool,
}

/// The rest of a text.
struct Lines<'a> {
    text: &'a str,
    at: usize,
    line: usize,
    /// The first such quote of the last line; a later one that has no end makes it fail.
    crossing: Option<Crossing>,
}

impl Lines<'_> {
    /// Returns the next line's words and their places, without quotes and comment.
    fn next_line(&mut self) -> Vec<(String, SourceSpan)> {
        self.crossing = None;
        let mut words = Vec::new();
        let mut word: Option<(String, usize)> = None;
        loop {
            let at = self.at;
            let ended = |word: &mut Option<(String, usize)>| {
                word.take().map(|(text, from)| (text, from..at))
            };
            let Some(c) = self.next() else {
                words.extend(ended(&mut word));
                return words;
            };
            match c {
                '\n' => {
                    words.extend(ended(&mut word));
                    return words;
                }
                '#' if word.is_none() => {
                    let rest = &self.text[self.at..];
                    self.at += rest.find('\n').unwrap_or(rest.len());
                }
                '\'' | '"' => self.quoted(c, &mut word.get_or_insert((String::new(), at)).0),
                '\\' => match self.next() {
                    // A backslash at the end continues the line.
                    Some('\n') | None => {}
                    Some(c) => word.get_or_insert((String::new(), at)).0.push(c),
                },
                c if c.is_whitespace() => words.extend(ended(&mut word)),
                c => word.get_or_insert((String::new(), at)).0.push(c),
            }
        }
    }

    /// Reads up to the closing quote; a backslash is literal between single quotes.
    fn quoted(&mut self, quote: char, word: &mut String) {
        let (at, line) = (self.at - 1, self.line);
        let mut closed = false;
        while let Some(c) = self.next() {
            match c {
                c if c == quote => {
                    closed = true;
                    break;
                }
                '\\' if quote == '"' => word.extend(self.next()),
                c => word.push(c),
            }
        }
        if !closed || self.line > line {
            let crossing = self.crossing.get_or_insert(Crossing {
                at,
                line,
                closed: true,
            });
            crossing.closed &= closed;
        }
    }

    fn next(&mut self) -> Option<char> {
        let next = self.text[self.at..].chars().next()?;
        self.at += next.len_utf8();
        self.line += usize::from(next == '\n');
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_quotes_and_comments() {
        let text = "package weirgate # all\n\nconfig rule 'a'\\''b' # one\n \
                    option name \"x\\\"y # z\"\n\tlist lan two\\ words\n\
                    option about 'two\nlines'\nlist lan ''\n";
        let problems = Problems::default();
        let found = read(text, &problems);
        assert!(!problems.has_errors());
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].line, found[0].name.as_deref()), (3, Some("a'b")));
        let choices: Vec<(usize, bool, &str)> = found[0]
            .choices
            .iter()
            .map(|choice| (choice.line, choice.list, choice.value.as_str()))
            .collect();
        assert_eq!(
            choices,
            [
                (4, false, "x\"y # z"),
                (5, true, "two words"),
                (6, false, "two\nlines"),
                (8, true, "")
            ]
        );
    }

    /// Returns the line and column of each mistake.
    fn places(text: &str) -> Vec<(usize, usize)> {
        let problems = Problems::default();
        let _ = read(text, &problems);
        let all = problems.into_sorted();
        all.iter().map(|one| one.line_column(text)).collect()
    }

    #[test]
    fn what_is_no_uci() {
        assert_eq!(places("option up 1"), [(1, 1)]);
        assert_eq!(places("config link\n option up\n"), [(2, 2)]);
        assert_eq!(
            places("config link\n\noption up 'x\ny\n"),
            [(3, 11), (4, 1)]
        );
        assert_eq!(places("config a b c"), [(1, 1)]);
        assert!(places("").is_empty());
    }

    #[test]
    fn every_wrong_line_is_reported_in_one_run() {
        let text = "config link\noption up '1mbit\noption down '2mbit'\nwhat is this\n\
                    config rule\noption a\nlist name 'x'\noption b \"y\n";
        assert_eq!(places(text), [(2, 11), (4, 1), (6, 1), (8, 10)]);
        let sections = read(text, &Problems::default());
        // What is between the mistakes is read.
        assert_eq!(sections[0].choices[0].value, "2mbit");
        assert_eq!(sections[1].choices[0].value, "x");
        // A file full of mistakes takes no minutes.
        let many = "option up 'x\n\"".repeat(50_000);
        assert!(places(&many).len() <= MOST);
    }
}
