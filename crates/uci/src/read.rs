// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses UCI files: sections with options and lists (`uci_parse_line` and `uci_parse_argument` of
//! libuci's file.c). A quoted word may span several lines.

use crate::UciError;
use std::iter::Peekable;
use std::str::Chars;

/// A section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// The line of its `config`, from 1.
    pub line: usize,
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
    /// Whether it is a value of a list.
    pub list: bool,
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
}

const FORM: &str = "a UCI file has lines such as: config link, option up '40mbit', list lan 'lan'";

/// Returns the sections of a file.
///
/// # Errors
///
/// Fails if a line is not UCI, or a quote is not closed.
pub fn read(text: &str) -> Result<Vec<Section>, UciError> {
    let mut sections: Vec<Section> = Vec::new();
    let mut lines = Lines {
        rest: text.chars().peekable(),
        line: 1,
    };
    while let Some((line, words)) = lines.next_line()? {
        match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            [] | ["package", _] => {}
            ["config", kind] => sections.push(section(line, kind, None)),
            ["config", kind, name] => sections.push(section(line, kind, Some(name))),
            [word @ ("option" | "list"), name, value] => {
                let section = sections.last_mut().ok_or_else(|| {
                    UciError::new(line, format!("`{word}` before any `config`"), FORM)
                })?;
                section.choices.push(Choice {
                    line,
                    list: word == "list",
                    name: name.to_owned(),
                    value: value.to_owned(),
                });
            }
            [word, ..] => {
                let what = format!("`{}` begins no UCI line of this form", word.escape_debug());
                return Err(UciError::new(line, what, FORM));
            }
        }
    }
    Ok(sections)
}

fn section(line: usize, kind: &str, name: Option<&str>) -> Section {
    Section {
        line,
        kind: kind.to_owned(),
        name: name.map(str::to_owned),
        choices: Vec::new(),
    }
}

/// The rest of a text.
struct Lines<'a> {
    rest: Peekable<Chars<'a>>,
    line: usize,
}

impl Lines<'_> {
    /// Returns the next line's number and words, without quotes and comment; `None` at the end.
    fn next_line(&mut self) -> Result<Option<(usize, Vec<String>)>, UciError> {
        if self.rest.peek().is_none() {
            return Ok(None);
        }
        let line = self.line;
        let mut words = Vec::new();
        let mut word: Option<String> = None;
        while let Some(c) = self.next() {
            match c {
                '\n' => break,
                '#' if word.is_none() => {
                    while self.rest.peek().is_some_and(|&c| c != '\n') {
                        self.rest.next();
                    }
                }
                '\'' | '"' => self.quoted(c, word.get_or_insert_default())?,
                '\\' => match self.next() {
                    // A backslash at the end continues the line.
                    Some('\n') | None => {}
                    Some(c) => word.get_or_insert_default().push(c),
                },
                c if c.is_whitespace() => words.extend(word.take()),
                c => word.get_or_insert_default().push(c),
            }
        }
        words.extend(word);
        Ok(Some((line, words)))
    }

    /// Reads up to the closing quote; a backslash is literal between single quotes.
    fn quoted(&mut self, quote: char, word: &mut String) -> Result<(), UciError> {
        let line = self.line;
        while let Some(c) = self.next() {
            match c {
                c if c == quote => return Ok(()),
                '\\' if quote == '"' => word.extend(self.next()),
                c => word.push(c),
            }
        }
        Err(UciError::new(line, "a quote has no end", FORM))
    }

    fn next(&mut self) -> Option<char> {
        let next = self.rest.next();
        if next == Some('\n') {
            self.line += 1;
        }
        next
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
        let found = read(text).unwrap();
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

    #[test]
    fn what_is_no_uci() {
        let line = |text: &str| read(text).unwrap_err().line;
        assert_eq!(line("option up 1"), 1);
        assert_eq!(line("config link\noption up\n"), 2);
        assert_eq!(line("config link\n\noption up 'x\ny\n"), 3);
        assert_eq!(line("config a b c"), 1);
        assert!(read("").unwrap().is_empty());
    }
}
