// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Several files, and their problems, each with its line and column.

use std::cell::OnceCell;
use std::fmt;
use weirgate_document::{Problem, Problems, Severity, SourceSpan};

/// A file to read.
#[derive(Debug, Clone, Copy)]
pub struct File<'t> {
    /// The name of the file in messages.
    pub name: &'t str,
    /// The contents of the file.
    pub text: &'t str,
}

/// A problem with its file, line and column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located {
    /// The name of the file as the caller gave it.
    pub file: String,
    /// The line, counted from 1.
    pub line: usize,
    /// The column in characters, counted from 1.
    pub column: usize,
    /// The problem itself.
    pub problem: Problem,
}

impl fmt::Display for Located {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            file,
            line,
            column,
            problem,
        } = self;
        let severity = match problem.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
        };
        write!(
            f,
            "{file}:{line}:{column}: {severity}[{}]: {}",
            problem.code, problem.message
        )?;
        if !problem.hint.is_empty() {
            write!(f, "; {}", problem.hint)?;
        }
        Ok(())
    }
}

/// Collects the problems of several files.
pub(crate) struct Mistakes<'t> {
    files: Vec<Own<'t>>,
}

struct Own<'t> {
    file: File<'t>,
    problems: Problems,
    /// The offset at which each line begins, computed on first use.
    lines: OnceCell<Vec<usize>>,
}

impl Own<'_> {
    /// Returns the number of the line that contains an offset, counted from 1, and where it
    /// begins.
    fn line(&self, at: usize) -> (usize, usize) {
        let lines = self.lines.get_or_init(|| {
            let ends = self.file.text.match_indices('\n');
            std::iter::once(0)
                .chain(ends.map(|(at, _)| at + 1))
                .collect()
        });
        let line = lines.partition_point(|begin| *begin <= at).max(1);
        (line, lines.get(line - 1).copied().unwrap_or(0))
    }
}

/// Collects the problems of one file.
pub(crate) struct FileMistakes<'m, 't> {
    /// The number of the file.
    pub(crate) file: usize,
    /// The collector for all files.
    pub(crate) all: &'m Mistakes<'t>,
}

/// A span in one of the files.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct FileSpan {
    pub(crate) file: usize,
    pub(crate) span: SourceSpan,
}

impl<'t> Mistakes<'t> {
    pub(crate) fn new(files: &[File<'t>]) -> Self {
        let with = |file: &File<'t>| Own {
            file: *file,
            problems: Problems::default(),
            lines: OnceCell::new(),
        };
        Self {
            files: files.iter().map(with).collect(),
        }
    }

    pub(crate) fn of(&self, file: usize) -> FileMistakes<'_, 't> {
        FileMistakes { file, all: self }
    }

    /// Reports an error at a span.
    pub(crate) fn error(
        &self,
        code: &'static str,
        at: &FileSpan,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        if let Some(own) = self.files.get(at.file) {
            own.problems.error(code, at.span.clone(), message, hint);
        }
    }

    /// Reports a warning at a span.
    pub(crate) fn warning(
        &self,
        code: &'static str,
        at: &FileSpan,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        if let Some(own) = self.files.get(at.file) {
            own.problems.warning(code, at.span.clone(), message, hint);
        }
    }

    /// Returns the file and line of a span, for use in a message.
    pub(crate) fn named(&self, at: &FileSpan) -> String {
        let own = self.files.get(at.file);
        own.map_or_else(String::new, |own| {
            format!("{}:{}", own.file.name, own.line(at.span.start).0)
        })
    }

    /// Returns all problems with their lines.
    pub(crate) fn located(self) -> Vec<Located> {
        let mut all = Vec::new();
        for mut own in self.files {
            let mut problems = std::mem::take(&mut own.problems).into_sorted();
            // A file that belongs to two lists is read twice.
            problems.dedup();
            for problem in problems {
                let start = problem.span.start.min(own.file.text.len());
                let (line, begin) = own.line(start);
                let before = own.file.text.get(begin..start).unwrap_or_default();
                all.push(Located {
                    file: own.file.name.to_owned(),
                    line,
                    column: before.chars().count() + 1,
                    problem,
                });
            }
        }
        all
    }
}

impl FileMistakes<'_, '_> {
    /// Reports an error in this file.
    pub(crate) fn error(
        &self,
        code: &'static str,
        span: &SourceSpan,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.all.error(code, &self.at(span), message, hint);
    }

    /// Reports a warning in this file.
    pub(crate) fn warning(
        &self,
        code: &'static str,
        span: &SourceSpan,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.all.warning(code, &self.at(span), message, hint);
    }

    /// Converts a span in this file to one that names the file.
    pub(crate) fn at(&self, span: &SourceSpan) -> FileSpan {
        FileSpan {
            file: self.file,
            span: span.clone(),
        }
    }
}
