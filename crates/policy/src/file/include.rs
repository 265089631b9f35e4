// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A policy's files: the policy itself and what it includes.
//!
//! Every file has its place in one long row of bytes, the policy first, so that
//! a span alone says which file it is in. A file is read with spaces before it,
//! as many as there are bytes before its place.

use crate::codes;
use crate::named::group::{self, Groups};
use crate::named::schedule;
use crate::named::service::{self, LIBRARY, Services};
use std::collections::{BTreeMap, BTreeSet};
use weirgate_document::{Problem, Problems, SourceSpan};
use weirgate_units::Arrange as _;

/// Includes within includes.
const DEEPEST: usize = 8;
/// Files of one policy.
const MOST_FILES: usize = 64;
/// Bytes of all included files together.
const MOST_BYTES: usize = 1 << 20;

/// The files of a policy, to tell where a problem is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sources {
    /// Sorted by place; the first is the policy itself.
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

    /// The name of the file that a span is in, unless it is the policy itself.
    #[must_use]
    pub fn included(&self, span: &SourceSpan) -> Option<&str> {
        self.file(span)
            .filter(|file| file.base > 0)
            .map(|file| file.name.as_str())
    }

    /// A problem as text, with its file's name and the source underlined.
    #[must_use]
    pub fn render(&self, problem: &Problem) -> String {
        match self.local(problem) {
            Some((file, local)) => local.render(&file.name, &file.text),
            None => problem.render("", ""),
        }
    }

    /// The file, line and column of a problem, the latter two from 1.
    #[must_use]
    pub fn locate(&self, problem: &Problem) -> (&str, usize, usize) {
        let Some((file, local)) = self.local(problem) else {
            return ("", 1, 1);
        };
        let (line, column) = local.line_column(&file.text);
        (&file.name, line, column)
    }

    /// A problem with its span within its own file.
    fn local(&self, problem: &Problem) -> Option<(&Source, Problem)> {
        let file = self.file(&problem.span)?;
        let within = |at: usize| at.saturating_sub(file.base);
        let local = Problem {
            span: within(problem.span.start)..within(problem.span.end),
            ..problem.clone()
        };
        Some((file, local))
    }

    /// The names of the included files.
    pub fn includes(&self) -> impl Iterator<Item = &str> {
        self.files.iter().skip(1).map(|file| file.name.as_str())
    }
}

/// What rules refer to by name, of all files.
#[derive(Debug, Default)]
pub(crate) struct Env {
    pub(crate) groups: Groups,
    pub(crate) services: Services,
    pub(crate) schedules: BTreeMap<String, weirgate_schedule::Schedule>,
    /// Schedules that were reported where they stand.
    pub(crate) broken_schedules: BTreeSet<String>,
}

/// The files and the order in which their rules come: those of an included
/// file before those of the one that includes it.
pub(crate) struct Files {
    pub(crate) sources: Sources,
    order: Vec<usize>,
}

impl Files {
    /// Each file's text with spaces before it, in the order of rules; true for
    /// the policy itself.
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

/// Reads the policy and what it includes. `load` gets the path of a file
/// relative to the policy's folder.
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
    /// The paths of the files that are being read.
    open: Vec<String>,
}

impl Gathering<'_> {
    /// Takes a file in, and before it what it includes. `path` is empty for
    /// the policy itself.
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
            let way = self.open[1..].join(" includes ");
            return complain(
                format!("`{path}` includes itself: {way} includes {path}"),
                "leave out one of these includes",
            );
        }
        if self.sources.files.iter().skip(1).any(|f| f.name == path) {
            // Two files may share a third, which is read once.
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

/// The files that a text includes; what is wrong with the list is reported
/// when the file is read for good.
fn includes(padded: &str) -> Vec<weirgate_document::Value<String>> {
    if !may_have(padded, &["include"]) {
        return Vec::new();
    }
    let scratch = Problems::default();
    weirgate_document::parse(padded, &scratch, |mut root| {
        root.text_list("include").unwrap_or_default()
    })
}

/// Whether a text can have one of the fields, so that long texts without them
/// are parsed once. A key may be written with escapes.
fn may_have(text: &str, fields: &[&str]) -> bool {
    text.contains('\\') || fields.iter().any(|field| text.contains(field))
}

/// What all files define, for rules to refer to; problems are reported when
/// the files are read for good.
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
