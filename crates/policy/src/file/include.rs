// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A policy's files: the policy itself and the files that it includes.
//!
//! All files share one range of byte positions, the policy first, so that a span alone
//! identifies its file. A file is parsed with spaces before it, one for each byte before its
//! first position.

use crate::codes;
use crate::named::group::{self, Groups};
use crate::named::schedule;
use crate::named::service::{self, LIBRARY, Services};
use std::collections::{BTreeMap, BTreeSet};
use weirgate_document::{Problem, Problems, SourceSpan};
use weirgate_units::Arrange as _;

/// The largest nesting depth of includes.
const DEEPEST: usize = 8;
/// The largest number of files of one policy.
const MOST_FILES: usize = 64;
/// The largest total length of the included files in bytes.
const MOST_BYTES: usize = 1 << 20;

/// The files of a policy, which map a problem's span to its file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sources {
    /// Sorted by position; the first is the policy itself.
    files: Vec<Source>,
}

/// One file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Source {
    name: String,
    base: usize,
    text: String,
}

impl Sources {
    fn file(&self, span: &SourceSpan) -> Option<&Source> {
        let after = self.files.partition_point(|file| file.base <= span.start);
        self.files.get(after.checked_sub(1)?)
    }

    /// Returns the name of the file that a span is in, or `None` for the policy itself.
    #[must_use]
    pub fn included(&self, span: &SourceSpan) -> Option<&str> {
        self.file(span)
            .filter(|file| file.base > 0)
            .map(|file| file.name.as_str())
    }

    /// Returns a problem as text, with its file's name and the source underlined.
    #[must_use]
    pub fn render(&self, problem: &Problem) -> String {
        match self.local(problem) {
            Some((file, local)) => local.render(&file.name, &file.text),
            None => problem.render("", ""),
        }
    }

    /// Returns the file, line and column of a problem. Lines and columns are counted from 1.
    #[must_use]
    pub fn locate(&self, problem: &Problem) -> (&str, usize, usize) {
        let Some((file, local)) = self.local(problem) else {
            return ("", 1, 1);
        };
        let (line, column) = local.line_column(&file.text);
        (&file.name, line, column)
    }

    /// Returns a problem's file, and the problem with its span relative to that file.
    fn local(&self, problem: &Problem) -> Option<(&Source, Problem)> {
        let file = self.file(&problem.span)?;
        let within = |at: usize| at.saturating_sub(file.base);
        let local = Problem {
            span: within(problem.span.start)..within(problem.span.end),
            ..problem.clone()
        };
        Some((file, local))
    }

    /// Returns the names of the included files.
    pub fn includes(&self) -> impl Iterator<Item = &str> {
        self.files.iter().skip(1).map(|file| file.name.as_str())
    }
}

/// Definitions of all files that rules refer to by name.
#[derive(Debug, Default)]
pub(crate) struct Env {
    pub(crate) groups: Groups,
    pub(crate) services: Services,
    pub(crate) schedules: BTreeMap<String, weirgate_schedule::Schedule>,
    /// Schedules with errors that are already reported where they are defined.
    pub(crate) broken_schedules: BTreeSet<String>,
}

/// The files, and the order of their rules. The rules of an included file come before those of
/// the file that includes it.
pub(crate) struct Files {
    pub(crate) sources: Sources,
    order: Vec<usize>,
}

impl Files {
    /// Returns each file's text with spaces before it, in the order of rules. The flag is true
    /// for the policy itself.
    pub(crate) fn texts(&self) -> impl Iterator<Item = (String, bool)> {
        self.order.iter().filter_map(|at| {
            let file = self.sources.files.get(*at)?;
            Some((padded(file), file.base == 0))
        })
    }
}

fn padded(file: &Source) -> String {
    " ".repeat(file.base) + &file.text
}

/// Reads the policy and the files that it includes. `load` returns the text of a file by its
/// path, relative to the policy's folder.
pub(crate) fn gather(
    name: &str,
    source: &str,
    load: &dyn Fn(&str) -> Result<String, String>,
    problems: &Problems,
) -> Files {
    let mut gathering = Gathering {
        load,
        problems,
        sources: Sources::default(),
        order: Vec::new(),
        next: 0,
        open: Vec::new(),
    };
    gathering.add(name.to_owned(), source.to_owned(), "");
    gathering.sources.files.arrange_by_key(|file| file.base);
    Files {
        sources: gathering.sources,
        order: gathering.order,
    }
}

struct Gathering<'a> {
    load: &'a dyn Fn(&str) -> Result<String, String>,
    problems: &'a Problems,
    sources: Sources,
    order: Vec<usize>,
    next: usize,
    /// The paths of the files that are currently being read, to detect cycles.
    open: Vec<String>,
}

impl Gathering<'_> {
    /// Adds a file, after the files that it includes. `path` is empty for the policy itself.
    fn add(&mut self, name: String, text: String, path: &str) {
        let base = self.next;
        self.next += text.len() + 1;
        let at = self.sources.files.len();
        let file = Source { name, base, text };
        let includes = includes(&padded(&file));
        self.sources.files.push(file);
        self.open.push(path.to_owned());
        for include in includes {
            self.include(&include.value, include.span, path);
        }
        self.open.pop();
        self.order.push(at);
    }

    fn include(&mut self, written: &str, span: SourceSpan, from: &str) {
        let complain = |wrong: String, right: &str| {
            let span = span.clone();
            self.problems.error(codes::INCLUDE, span, wrong, right);
        };
        let folder = from.rsplit_once('/').map(|(folder, _)| folder);
        let parts: Vec<&str> = written.split('/').collect();
        let odd = |part: &&str| part.is_empty() || *part == "." || *part == "..";
        if parts.iter().any(odd) || written.contains(['\\', '\0']) {
            return complain(
                format!("`{written}` is not a path below this file's folder"),
                "write a relative path without `.` and `..`, such as `services/ours.toml`",
            );
        }
        let path = match folder {
            Some(folder) => format!("{folder}/{written}"),
            None => written.to_owned(),
        };
        if self.open.contains(&path) {
            let chain = self.open[1..].join(" includes ");
            return complain(
                format!("`{path}` includes itself: {chain} includes {path}"),
                "leave out one of these includes",
            );
        }
        if self.sources.files.iter().skip(1).any(|f| f.name == path) {
            // Two files may include the same third file, which is read once.
            return;
        }
        if self.open.len() > DEEPEST {
            return complain(
                format!("includes are nested more than {DEEPEST} deep here"),
                "include the file from the policy itself",
            );
        }
        if self.sources.files.len() > MOST_FILES {
            return complain(
                format!("more than {MOST_FILES} files are included"),
                "put several of them into one",
            );
        }
        let shipped = LIBRARY.iter().find(|known| known.0 == path);
        let text = match ((self.load)(&path), shipped) {
            (Ok(text), _) => text,
            (Err(_), Some((_, text))) => (*text).to_owned(),
            (Err(why), None) => {
                return complain(
                    format!("`{path}` cannot be read: {why}"),
                    "name a file below the policy's folder, or one of the shipped services",
                );
            }
        };
        let so_far: usize = self
            .sources
            .files
            .iter()
            .skip(1)
            .map(|f| f.text.len())
            .sum();
        if so_far + text.len() > MOST_BYTES {
            return complain(
                "the included files have more than 1 MiB".to_owned(),
                "include less",
            );
        }
        self.add(path.clone(), text, &path);
    }
}

/// Returns the files that a text includes. Errors in the list are reported later, when the file
/// is parsed.
fn includes(padded: &str) -> Vec<weirgate_document::Value<String>> {
    if !may_have(padded, &["include"]) {
        return Vec::new();
    }
    let scratch = Problems::default();
    weirgate_document::parse(padded, &scratch, |mut root| {
        root.text_list("include").unwrap_or_default()
    })
}

/// Returns whether a text can have one of the fields. Long texts without them need to be parsed
/// only once. A key may be written with escapes.
fn may_have(text: &str, fields: &[&str]) -> bool {
    text.contains('\\') || fields.iter().any(|field| text.contains(field))
}

/// Collects the definitions of all files that rules refer to. Problems are reported later, when
/// the files are parsed.
pub(crate) fn survey(files: &Files) -> Env {
    let scratch = Problems::default();
    let mut env = Env {
        services: service::shipped(),
        ..Env::default()
    };
    for (text, _) in files.texts() {
        if !may_have(&text, &["group", "schedule"]) {
            continue;
        }
        weirgate_document::parse(&text, &scratch, |mut root| {
            if let Some(mut table) = root.table("group") {
                for name in table.keys() {
                    if let Some(one) = table.table_named(&name) {
                        let group = group::read(name.clone(), one);
                        env.groups.insert(name.value, group);
                    }
                }
            }
            if let Some(mut table) = root.table("schedule") {
                for name in table.keys() {
                    if let Some(found) = table.table_named(&name).and_then(schedule::read) {
                        env.schedules.insert(name.value, found)
                    } else {
                        env.broken_schedules.insert(name.value);
                        None
                    };
                }
            }
        });
    }
    for (text, _) in files.texts() {
        if !may_have(&text, &["service"]) {
            continue;
        }
        weirgate_document::parse(&text, &scratch, |mut root| {
            let own = service::tables(&mut root, &env.groups);
            env.services.extend(own);
        });
    }
    env
}
