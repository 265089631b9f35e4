// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `/etc/config/sqm`: sections and options in UCI's form.

use super::queue::{Queue, Setting};
use crate::ImportError;
use std::collections::BTreeMap;

pub(super) fn parse(text: &str) -> Result<Vec<Queue>, ImportError> {
    let wrong = |line, what: String| ImportError {
        line,
        what,
        hint: "a UCI file has lines such as: config queue, option NAME 'VALUE'",
    };
    let mut queues: Vec<Queue> = Vec::new();
    let mut within = false;
    for (index, raw) in text.lines().enumerate() {
        let line = index + 1;
        let words = words(raw).ok_or_else(|| wrong(line, "a quote has no end".to_owned()))?;
        match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            [] => {}
            ["config", "queue"] | ["config", "queue", _] => {
                within = true;
                queues.push(Queue {
                    line,
                    options: BTreeMap::new(),
                });
            }
            ["config", ..] => within = false,
            ["option" | "list", name, value] => {
                if let Some(queue) = queues.last_mut().filter(|_| within) {
                    let set = Setting {
                        line,
                        written: name.to_owned(),
                        text: value.to_owned(),
                    };
                    queue.options.insert(name.to_owned(), set);
                }
            }
            _ => return Err(wrong(line, format!("`{}` is no UCI line", raw.trim()))),
        }
    }
    if queues.is_empty() {
        return Err(wrong(1, "there is no `config queue`".to_owned()));
    }
    Ok(queues)
}

/// Splits a line into words, without quotes and comment; returns `None` if a quote is not closed.
pub(super) fn words(line: &str) -> Option<Vec<String>> {
    let mut words: Vec<String> = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in line.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, '#') => break,
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}
