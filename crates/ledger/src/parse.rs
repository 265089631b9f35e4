// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the stored form.

use crate::measurement::{Machine, MadeWith};
use crate::text::VERSION;
use crate::{Arm, Digest, Entry, Expected, Figure, Standing, codes};
use std::collections::BTreeMap;
use weirgate_document::{Problem, Problems, Reader, Value};

/// Reads a stored result. Returns an entry only if no problem is an error.
///
/// ```
/// let (entry, problems) = weirgate_ledger::parse("version = 1\nexperiment = \"x\"\n");
/// assert!(entry.is_none());
/// let missing = problems.iter().find(|one| one.message.contains("`seeds` is missing"));
/// assert!(missing.is_some(), "{problems:?}");
/// ```
#[must_use]
pub fn parse(source: &str) -> (Option<Entry>, Vec<Problem>) {
    let problems = Problems::default();
    let entry = weirgate_document::parse(source, &problems, |mut root| read(&mut root));
    let entry = entry.filter(|_| !problems.has_errors());
    (entry, problems.into_sorted())
}

/// The end of every hint: a program writes these files.
const AGAIN: &str = "`weirgate-lab results accept` writes the file anew";

fn read(root: &mut Reader<'_, '_>) -> Option<Entry> {
    let version = required(root, "version", |root, key| root.integer(key, 0..=i64::MAX));
    if let Some(version) = version.filter(|version| version.value != VERSION) {
        let message = format!("version {} of the form is not known", version.value);
        let problems = root.problems();
        problems.error(codes::VERSION, version.span, message, AGAIN);
        // The meaning of the other fields is unknown in that version.
        root.keys();
        return None;
    }
    let experiment = required(root, "experiment", Reader::text);
    let seeds = required(root, "seeds", seeds);
    let made = required(root, "made-with", Reader::table);
    let made = made.map(|mut made| {
        let expectations = digest(&mut made, "expectations");
        (made_with(&mut made), expectations)
    });
    let runs = seeds.as_ref().map(Vec::len);
    let arms = root.tables("arm").into_iter();
    let arms: Vec<Option<Arm>> = arms.map(|mut table| arm(&mut table, runs)).collect();
    let (made_with, expectations) = made?;
    Some(Entry {
        experiment: experiment?.value,
        seeds: seeds?,
        made_with: made_with?,
        expectations: expectations?,
        arms: arms.into_iter().collect::<Option<_>>()?,
    })
}

/// Reads a required field.
fn required<'d, 'i, T>(
    table: &mut Reader<'d, 'i>,
    key: &'static str,
    read: impl FnOnce(&mut Reader<'d, 'i>, &'static str) -> Option<T>,
) -> Option<T> {
    if table.has(key) {
        read(table, key)
    } else {
        table.missing(key, AGAIN)
    }
}

fn seeds(root: &mut Reader<'_, '_>, key: &'static str) -> Option<Vec<u64>> {
    let problems = root.problems();
    let seed = |text: &Value<String>| {
        let seed = text.value.parse().ok();
        if seed.is_none() {
            let message = format!("`{}` is not a seed", text.value);
            problems.error(codes::SEEDS, text.span.clone(), message, AGAIN);
        }
        seed
    };
    root.text_list(key)?.iter().map(seed).collect()
}

fn digest(table: &mut Reader<'_, '_>, key: &'static str) -> Option<Digest> {
    let digest = required(table, key, Reader::parsed::<Digest>);
    digest.map(|digest| digest.value)
}

fn made_with(table: &mut Reader<'_, '_>) -> Option<MadeWith> {
    let (setup, measure) = (digest(table, "setup"), digest(table, "measure"));
    let has_machine = ["guest", "kernel", "release", "emulator"].map(|key| table.has(key));
    let machine = has_machine.contains(&true).then(|| {
        let (guest, kernel) = (digest(table, "guest"), digest(table, "kernel"));
        let release = required(table, "release", Reader::text);
        let emulator = required(table, "emulator", Reader::text);
        Some(Machine {
            guest: guest?,
            kernel: kernel?,
            release: release?.value,
            emulator: emulator?.value,
        })
    });
    let mut files = BTreeMap::new();
    if let Some(mut table) = table.named_tables("files") {
        for path in table.keys() {
            let text = table.entry_text(&path)?;
            let digest = table.convert::<Digest>(&path.value, text)?;
            files.insert(path.value, digest.value);
        }
    }
    Some(MadeWith {
        setup: setup?,
        files,
        measure: measure?,
        machine: machine.map_or(Some(None), |machine| machine.map(Some))?,
    })
}

fn arm(table: &mut Reader<'_, '_>, seeds: Option<usize>) -> Option<Arm> {
    let name = required(table, "name", Reader::text);
    let recordings = table.parsed_list::<Digest>("recordings");
    let recordings = recordings.unwrap_or_default().into_iter();
    let recordings: Vec<Digest> = recordings.map(|digest| digest.value).collect();
    if let Some(seeds) = seeds.filter(|seeds| *seeds != recordings.len()) {
        let message = format!("there are {} recordings of {seeds} seeds", recordings.len());
        let problems = table.problems();
        problems.error(codes::SEEDS, table.span(), message, AGAIN);
    }
    let figures = table.tables("figures").into_iter();
    let figures: Vec<Option<Figure>> = figures.map(|mut line| figure(&mut line)).collect();
    Some(Arm {
        name: name?.value,
        recordings,
        figures: figures.into_iter().collect::<Option<_>>()?,
    })
}

fn figure(line: &mut Reader<'_, '_>) -> Option<Figure> {
    let metric = required(line, "metric", Reader::text);
    let runs = required(line, "runs", Reader::text).and_then(|text| {
        let numbers = text.value.split_whitespace().map(str::parse::<f64>);
        let numbers: Result<Vec<f64>, _> = numbers.collect();
        let finite = |numbers: &Vec<f64>| numbers.iter().all(|number| number.is_finite());
        let numbers = numbers.ok().filter(finite);
        if numbers.is_none() {
            let message = format!("`{}` are not numbers", text.value);
            let problems = line.problems();
            problems.error(codes::NUMBERS, text.span, message, AGAIN);
        }
        numbers
    });
    let stated = ["mean", "interval", "judged"].map(|key| (key, line.number(key)));
    let expected = if line.has("expected") {
        Some(expected(line))
    } else {
        None
    };
    let figure = Figure {
        metric: metric?.value,
        runs: runs?,
        expected: expected.map_or(Some(None), |expected| expected.map(Some))?,
    };
    let judged = figure.judged().filter(|_| figure.judged() != figure.mean());
    let follow = [figure.mean(), figure.interval(), judged];
    for ((key, stated), follows) in stated.into_iter().zip(follow) {
        if stated.as_ref().map(|stated| stated.value) == follows {
            continue;
        }
        let message = match follows {
            Some(number) => format!("`{key}` of these runs is {number}"),
            None => format!("these runs have no `{key}`"),
        };
        let place = stated.map_or_else(|| line.span(), |stated| stated.span);
        line.problems().error(codes::NUMBERS, place, message, AGAIN);
    }
    Some(figure)
}

fn expected(line: &mut Reader<'_, '_>) -> Option<Expected> {
    let promise = line.text("expected");
    let number = |line: &mut Reader<'_, '_>, key| line.number(key).map(|number| number.value);
    let value = number(line, "value");
    let thesis = number(line, "thesis");
    let theory = number(line, "theory");
    let verdict = required(line, "verdict", Reader::text)?;
    let verdict = match verdict.value.as_str() {
        "kept" => Standing::Kept,
        "explained" => Standing::Explained {
            by: required(line, "explained-by", Reader::text)?.value,
            reason: required(line, "reason", Reader::text)?.value,
        },
        "missed" => Standing::Missed {
            reason: required(line, "reason", Reader::text)?.value,
        },
        other => {
            let message = format!("`{other}` is not a verdict");
            let hint = format!("it is `kept`, `explained` or `missed`; {AGAIN}");
            let problems = line.problems();
            problems.error(codes::VERDICT, verdict.span, message, hint);
            return None;
        }
    };
    Some(Expected {
        promise: promise?.value,
        value,
        thesis,
        theory,
        verdict,
    })
}
