// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A document's text: parses it, and finds lines in it.

use crate::parameters;
use crate::problem::Problems;
use crate::reader::Reader;
use crate::vocabulary::Vocabulary;
use toml::de::DeTable;

/// Parses `source` and passes its root table to `read`. Syntax errors become problems (code
/// `D001`), and `read` still gets what could be parsed.
pub fn parse<T>(source: &str, problems: &Problems, read: impl FnOnce(Reader<'_, '_>) -> T) -> T {
    read_source(source, problems, false, &PLAIN, read)
}

/// Parses a document with a table `[parameters]`, whose values its texts name in braces: see
/// [`with_parameters`](crate::with_parameters). `read` must request that table, or it is reported
/// as unknown.
pub fn parse_with_parameters<T>(
    source: &str,
    problems: &Problems,
    read: impl FnOnce(Reader<'_, '_>) -> T,
) -> T {
    read_source(source, problems, true, &PLAIN, read)
}

/// Parses a document, with hints for names from other tools.
pub fn parse_with_vocabulary<T>(
    source: &str,
    problems: &Problems,
    vocabulary: &'static Vocabulary,
    read: impl FnOnce(Reader<'_, '_>) -> T,
) -> T {
    read_source(source, problems, false, vocabulary, read)
}

/// A vocabulary without names from other tools.
static PLAIN: Vocabulary = Vocabulary {
    synonyms: &[],
    manual: "",
};

fn read_source<T>(
    source: &str,
    problems: &Problems,
    has_parameters: bool,
    vocabulary: &'static Vocabulary,
    read: impl FnOnce(Reader<'_, '_>) -> T,
) -> T {
    let (mut root, errors) = DeTable::parse_recoverable(source);
    let lines = Text::of(source);
    for error in errors {
        let span = error.span().unwrap_or(0..source.len().min(1));
        problems.error(
            "D001",
            span,
            error.message(),
            "see toml.io for the syntax of TOML",
        );
    }
    if has_parameters {
        parameters::fill(root.get_mut(), problems);
    }
    read(Reader::root(&lines, &root, problems, vocabulary))
}

/// The source and the offsets of its lines, so that a value's line is found without counting from
/// the beginning.
#[derive(Debug)]
pub(crate) struct Text<'i> {
    pub(crate) source: &'i str,
    starts: Vec<usize>,
}

impl<'i> Text<'i> {
    fn of(source: &'i str) -> Self {
        let ends = source
            .bytes()
            .enumerate()
            .filter(|(_, byte)| *byte == b'\n');
        Self {
            source,
            starts: ends.map(|(at, _)| at + 1).collect(),
        }
    }

    /// Returns the line of a byte offset, from 1.
    pub(crate) fn line(&self, offset: usize) -> u32 {
        let before = self.starts.partition_point(|start| *start <= offset);
        u32::try_from(before + 1).unwrap_or(u32::MAX)
    }
}
