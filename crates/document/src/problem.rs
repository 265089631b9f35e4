// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Problems with their places, and their presentation.

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use std::borrow::Cow;
use std::cell::RefCell;
use std::ops::Range;
use weirgate_units::Arrange as _;

/// A place in a document: byte offsets.
pub type SourceSpan = Range<usize>;

/// The code of a number that is out of its range.
pub const OUT_OF_RANGE: &str = "D005";

/// The codes of problems that any document may have, with their meaning.
pub const CODES: &[(&str, &str)] = &[
    ("D001", "The text is not TOML."),
    ("D002", "A required field is missing."),
    ("D003", "A field is not known here."),
    (
        "D004",
        "A value is of another type, or its text cannot be read.",
    ),
    (OUT_OF_RANGE, "A number is out of range."),
    ("D006", "A parameter is malformed or unused."),
    ("D007", "A field has a newer name (note)."),
    (
        "D008",
        "A table has a field twice, by its present and by a former name.",
    ),
];

/// The severity of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The document cannot be used.
    Error,
    /// The document can be used; the author may have meant something else.
    Warning,
    /// The document is correct, but could be written better.
    Note,
}

/// One problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The severity.
    pub severity: Severity,
    /// A stable code, such as `P012`, that the reference explains.
    pub code: &'static str,
    /// The place.
    pub span: SourceSpan,
    /// What is wrong, one line.
    pub message: String,
    /// What would be right, one line; may be empty.
    pub hint: String,
}

/// Collects problems while a document is read.
///
/// Interior mutability lets nested readers share one collector.
#[derive(Debug, Default)]
pub struct Problems {
    list: RefCell<Vec<Problem>>,
}

impl Problems {
    /// Adds an error.
    pub fn error(
        &self,
        code: &'static str,
        span: SourceSpan,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.add(Severity::Error, code, span, &message.into(), &hint.into());
    }

    /// Adds a warning.
    pub fn warning(
        &self,
        code: &'static str,
        span: SourceSpan,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.add(Severity::Warning, code, span, &message.into(), &hint.into());
    }

    /// Adds a note.
    pub fn note(
        &self,
        code: &'static str,
        span: SourceSpan,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.add(Severity::Note, code, span, &message.into(), &hint.into());
    }

    fn add(
        &self,
        severity: Severity,
        code: &'static str,
        span: SourceSpan,
        message: &str,
        hint: &str,
    ) {
        self.list.borrow_mut().push(Problem {
            severity,
            code,
            span,
            message: escaped(message, &[]).into_owned(),
            hint: escaped(hint, &[]).into_owned(),
        });
    }

    /// Returns whether there is at least one error.
    #[must_use]
    pub fn has_errors(&self) -> bool {
        self.list
            .borrow()
            .iter()
            .any(|problem| problem.severity == Severity::Error)
    }

    /// Returns all problems in the order of their places.
    #[must_use]
    pub fn into_sorted(self) -> Vec<Problem> {
        let mut list = self.list.into_inner();
        list.arrange_by(|a, b| {
            (a.span.start, a.span.end, a.code).cmp(&(b.span.start, b.span.end, b.code))
        });
        // The TOML parser reports each level of an unclosed array at the same place.
        list.dedup();
        list
    }
}

/// Escapes control characters, and characters that change the direction of writing, except some
/// that are kept: neither a document nor the name of a file must control the reader's terminal.
#[must_use]
pub fn escaped<'t>(text: &'t str, kept: &[char]) -> Cow<'t, str> {
    let steers = |c: char| {
        (c.is_control() && !kept.contains(&c))
            || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if !text.contains(steers) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if steers(c) {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

impl Problem {
    /// Returns the line and column of the place, both from 1; columns count characters.
    #[must_use]
    pub fn line_column(&self, source: &str) -> (usize, usize) {
        line_column(source, self.span.start)
    }

    /// Renders the problem as text, with the offending source underlined.
    #[must_use]
    pub fn render(&self, file: &str, source: &str) -> String {
        let level = match self.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
            Severity::Note => Level::NOTE,
        };
        // Only the lines of the span are passed on: to read a large document for each of many
        // problems takes minutes.
        let span = clamp(&self.span, source);
        let from = source[..span.start].rfind('\n').map_or(0, |at| at + 1);
        let rest = &source[span.end..];
        let to = span.end + rest.find('\n').map_or(rest.len(), |at| at + 1);
        let snippet = Snippet::source(&source[from..to])
            .line_start(line_column(source, from).0)
            .path(file)
            .annotation(AnnotationKind::Primary.span(span.start - from..span.end - from));
        let mut group = level
            .primary_title(&self.message)
            .id(self.code)
            .element(snippet);
        if !self.hint.is_empty() {
            group = group.element(Level::HELP.message(&self.hint));
        }
        Renderer::plain().render(&[group])
    }
}

/// Returns the line and column of a byte offset, both from 1; columns count characters.
pub(crate) fn line_column(source: &str, offset: usize) -> (usize, usize) {
    let offset = floor_char(source, offset);
    let before = &source[..offset];
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    (
        before.matches('\n').count() + 1,
        before[line_start..].chars().count() + 1,
    )
}

/// Limits a span to the source and to character boundaries.
fn clamp(span: &SourceSpan, source: &str) -> SourceSpan {
    let start = floor_char(source, span.start);
    let end = floor_char(source, span.end).max(start);
    start..end
}

fn floor_char(source: &str, offset: usize) -> usize {
    let mut at = offset.min(source.len());
    while !source.is_char_boundary(at) {
        at -= 1;
    }
    at
}
