// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Phases, and the times between which traffic and probes run.

use super::field::LONGEST;
use super::registry::{Field, Own, Table, Texts, Within, time};
use super::scope::Scope;
use super::{codes, field};
use crate::Phase;
use std::collections::BTreeSet;
use weirgate_document::{Reader, Value, nearest};
use weirgate_units::Span;

/// The largest number of phases in one file.
const MOST_PHASES: usize = 64;

pub(super) const PHASE: Field<Own> =
    Field::new("phase", Own("tables"), "Phases, which divide the time")
        .required("add a `[[phase]]` with name, start and end");

const NAME: Field<Own> = Field::new(
    "name",
    Own("name"),
    "The first part of the names of the phase's metrics",
)
.required("give the phase a name");
const START: Field<Within<Span>> =
    Field::new("start", time(Span::ZERO, LONGEST), "When the phase begins")
        .default("the end of the phase before");
const END: Field<Within<Span>> =
    Field::new("end", time(Span::ZERO, LONGEST), "When the phase ends")
        .required("say when the phase ends, since the start of traffic");

pub(super) const TABLE: Table = Table::new(
    "[[phase]]",
    "A stretch of time. Phases are in order and do not overlap",
    &[&NAME, &START, &END],
);

/// The phases during which traffic or a probe runs.
pub(super) const DURING: Field<Texts> = Field::new(
    "during",
    Texts("phases"),
    "When it runs; adjacent phases make one run",
)
.default("the whole experiment");
pub(super) const FROM_TIME: Field<Within<Span>> = Field::new(
    "start",
    time(Span::ZERO, LONGEST),
    "When it begins, in place of `during`",
)
.default("the experiment's start");
pub(super) const UNTIL: Field<Within<Span>> = Field::new(
    "stop",
    time(Span::ZERO, LONGEST),
    "When it ends, in place of `during`",
)
.default("the experiment's end");

pub(super) fn phases(root: &mut Reader<'_, '_>, scope: &mut Scope) -> Vec<Phase> {
    PHASE.is_there(root);
    let tables = root.tables(PHASE.name);
    let mut names = BTreeSet::new();
    let mut phases: Vec<Phase> = Vec::new();
    for (index, mut table) in tables.into_iter().enumerate() {
        if index == MOST_PHASES {
            let message = format!("there are more than {MOST_PHASES} phases");
            table
                .problems()
                .error(codes::LIMIT, field::head(&table), message, "use fewer");
        }
        if let Some(phase) = phase(&mut table, &mut names, phases.last()) {
            scope.phase(&phase, &table);
            phases.push(phase);
        }
    }
    phases
}

fn phase(
    table: &mut Reader<'_, '_>,
    names: &mut BTreeSet<String>,
    previous: Option<&Phase>,
) -> Option<Phase> {
    let name = field::name(table, &NAME, "phase", names);
    let start = START.or(table, previous.map_or(Span::ZERO, |phase| phase.end));
    let end = END.get(table);
    let (name, start, end) = (name?, start?, end?);
    if end <= start {
        let message = format!("phase `{}` ends before it begins", name.value);
        let hint = format!("write an `end` after {start}");
        table
            .problems()
            .error(codes::TIME, name.span, message, hint);
        return None;
    }
    if let Some(previous) = previous.filter(|phase| start < phase.end) {
        let message = format!(
            "phase `{}` begins before `{}` ends",
            name.value, previous.name
        );
        let hint = format!(
            "phases are in order and do not overlap: begin at {} or later",
            previous.end
        );
        table
            .problems()
            .error(codes::TIME, name.span, message, hint);
    }
    Some(Phase {
        name: name.value,
        start,
        end,
    })
}

/// Checks that each phase is longer than the time that it settles.
pub(super) fn settled(root: &Reader<'_, '_>, scope: &Scope, settle: Span) {
    for (phase, place) in scope.phases() {
        if phase.end - phase.start <= settle {
            let message = format!(
                "phase `{}` is not longer than it settles ({settle})",
                phase.name
            );
            let hint = "make the phase longer or `settle` shorter";
            root.problems()
                .error(codes::TIME, place.clone(), message, hint);
        }
    }
}

/// Reads the runs of a table: `during` some phases, or from `start` to `stop`, or the whole
/// experiment. Adjacent phases make one run.
pub(super) fn runs(table: &mut Reader<'_, '_>, scope: &Scope) -> Option<Vec<(Span, Span)>> {
    let during = DURING.get(table);
    let bounded = FROM_TIME.is_in(table) || UNTIL.is_in(table);
    if let Some(names) = during {
        if bounded {
            let message = "`during` and `start` or `stop` exclude each other";
            table
                .problems()
                .error(codes::TIME, field::head(table), message, "leave one out");
        }
        return during_phases(table, scope, &names);
    }
    let start = FROM_TIME.or(table, Span::ZERO)?;
    let stop = UNTIL.or(table, scope.duration())?;
    // Without phases there is no duration; that is reported already.
    if scope.duration() == Span::ZERO {
        return None;
    }
    if start >= stop || stop > scope.duration() {
        let message = format!("the time from {start} to {stop} is not within the experiment");
        let hint = format!(
            "`start` comes before `stop`, and the last phase ends at {}",
            scope.duration()
        );
        table
            .problems()
            .error(codes::TIME, field::head(table), message, hint);
        return None;
    }
    Some(vec![(start, stop)])
}

fn during_phases(
    table: &Reader<'_, '_>,
    scope: &Scope,
    names: &[Value<String>],
) -> Option<Vec<(Span, Span)>> {
    let mut stretches = Vec::new();
    let mut complete = true;
    for name in names {
        if let Some(phase) = scope.phase_named(&name.value) {
            stretches.push((phase.start, phase.end));
        } else {
            complete = false;
            let message = format!("there is no phase `{}`", name.value);
            let known = || scope.phases().map(|(phase, _)| phase.name.as_str());
            let hint = match nearest(&name.value, known()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("known: {}", known().collect::<Vec<_>>().join(", ")),
            };
            table
                .problems()
                .error(codes::PHASE, name.span.clone(), message, hint);
        }
    }
    if names.is_empty() {
        let message = "`during` names no phase";
        let hint = "leave it out for the whole experiment, or name phases";
        table
            .problems()
            .error(codes::PHASE, field::head(table), message, hint);
        return None;
    }
    if !complete {
        return None;
    }
    stretches.sort_unstable();
    let mut runs: Vec<(Span, Span)> = Vec::new();
    for (start, end) in stretches {
        match runs.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => runs.push((start, end)),
        }
    }
    Some(runs)
}
