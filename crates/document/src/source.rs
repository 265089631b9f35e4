// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A document's text: parses it, and finds lines in it.

use crate::parameters;
use crate::problem::Problems;
use crate::reader::Reader;
use crate::vocabulary::Vocabulary;
use toml::de::DeTable;

/// Parses `source` and hands its root table to `read`; syntax errors become
/// problems (code `D001`), and `read` still sees what could be understood.
pub fn parse<T>(source: &str, problems: &Problems, read: impl FnOnce(Reader<'_, '_>) -> T) -> T {
    read_source(source, problems, false, &PLAIN, read)
}

/// The same of a document whose table `[parameters]` holds values that its
/// texts name in braces: see [`with_parameters`](crate::with_parameters).
/// `read` has to ask for that table, or it is unknown.
pub fn parse_with_parameters<T>(
    source: &str,
    problems: &Problems,
    read: impl FnOnce(Reader<'_, '_>) -> T,
) -> T {
    read_source(source, problems, true, &PLAIN, read)
}

/// The same with hints for names that authors bring from elsewhere.
pub fn parse_with_vocabulary<T>(
    source: &str,
    problems: &Problems,
    vocabulary: &'static Vocabulary,
    read: impl FnOnce(Reader<'_, '_>) -> T,
) -> T {
    read_source(source, problems, false, vocabulary, read)
}

/// No names from elsewhere.
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

/// The source, and where its lines begin, so that the line of a value is found
/// without counting from the document's beginning each time.
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

    /// The line of a byte offset, from 1.
    pub(crate) fn line(&self, offset: usize) -> u32 {
        let before = self.starts.partition_point(|start| *start <= offset);
        u32::try_from(before + 1).unwrap_or(u32::MAX)
    }
}
