// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The section `[[expect]]`, and the check that its metrics refer to existing subjects.

use super::registry::{Field, Number, Own, Table, Text, Texts};
use super::scope::Scope;
use super::{codes, field};
use crate::{Expectation, Formula, Mechanism, Metric, Promise, Quantity, Subject};
use std::collections::BTreeSet;
use weirgate_document::{Kind, Reader, SourceSpan, Value, nearest};

pub(super) const EXPECT: Field<Own> = Field::new(
    "expect",
    Own("tables"),
    "What the figures are expected to be",
);

const ARM: Field<Texts> = Field::new(
    "arm",
    Texts("arms"),
    "The arms that should meet the expectation",
)
.required("say which arm it speaks of");
const METRIC: Field<Text> =
    Field::new("metric", Text, "The metric of the figure").required("name the metric");
const NUMBER: Own = Own("number or formula");
const VALUE: Field<Own> = Field::new("value", NUMBER, "The expected figure, within `tolerance`");
const TOLERANCE: Field<Own> = Field::new(
    "tolerance",
    Own("`\"2%\"` of the value, or a distance such as `0.5`"),
    "How far the figure may be from `value`; only with `value`",
);
const AT_LEAST: Field<Own> = Field::new(
    "at-least",
    NUMBER,
    "The lowest figure that meets the expectation",
);
const AT_MOST: Field<Own> = Field::new(
    "at-most",
    NUMBER,
    "The highest figure that meets the expectation",
);
const SOURCE: Field<Text> = Field::new("source", Text, "Where the expectation comes from")
    .required("say where the figure comes from");
const THESIS: Field<Number> = Field::new(
    "thesis",
    Number,
    "The figure that the source states, where the expectation is calculated or a bound",
);
const REASON: Field<Text> = Field::new(
    "reason",
    Text,
    "Why the figure does not meet the expectation, if it does not",
);
const EXPLAINED_BY: Field<Text> = Field::new(
    "explained-by",
    Text,
    "A metric, or `METRIC@ARM`: the figure that shows the mechanism in `reason`. The file must \
     have an expectation for it too",
);

pub(super) const TABLE: Table = Table::new(
    "[[expect]]",
    "What a figure is expected to be. One of `value`, `at-least` and `at-most` is required",
    &[
        &ARM,
        &METRIC,
        &VALUE,
        &TOLERANCE,
        &AT_LEAST,
        &AT_MOST,
        &SOURCE,
        &THESIS,
        &REASON,
        &EXPLAINED_BY,
    ],
);

pub(super) fn expectations(root: &mut Reader<'_, '_>, scope: &Scope) -> Vec<Expectation> {
    let problems = root.problems();
    let mut all = Vec::new();
    let mut named = Vec::new();
    for mut table in root.tables(EXPECT.name) {
        all.extend(expectation(&mut table, scope, &mut named).unwrap_or_default());
    }
    for (mechanism, place) in named {
        let expected =
            |one: &Expectation| (&one.arm, &one.metric) == (&mechanism.arm, &mechanism.metric);
        if !all.iter().any(expected) {
            let message = format!(
                "nothing is expected of `{}` in the arm `{}`",
                mechanism.metric, mechanism.arm
            );
            let hint = "a figure explains another one if it is as expected: add an `[[expect]]`";
            problems.error(codes::PROMISE, place, message, hint);
        }
    }
    all
}

fn expectation(
    table: &mut Reader<'_, '_>,
    scope: &Scope,
    named: &mut Vec<(Mechanism, SourceSpan)>,
) -> Option<Vec<Expectation>> {
    let arms = arms(table, scope);
    let name = METRIC.get(table);
    let of_arms = arms.as_deref().unwrap_or_default();
    let metric = name.and_then(|name| {
        let metric = metric(table, scope, &name)?;
        measured(table, scope, &name, of_arms, [&metric]).then_some(metric)
    });
    let promise = promise(table, scope, of_arms);
    let source = SOURCE.get(table);
    let thesis = THESIS.get(table);
    let reason = REASON.get(table).map(|text| text.value);
    let explained = explained(table, scope, of_arms, reason.is_some());
    let (arms, metric, source) = (arms?, metric?, source?);
    let (promise, formula) = promise?;
    let one = |arm: String| {
        let mechanism = explained.as_ref().map(|(metric, other, place)| {
            let mechanism = Mechanism {
                arm: other.clone().unwrap_or_else(|| arm.clone()),
                metric: metric.clone(),
            };
            named.push((mechanism.clone(), place.clone()));
            mechanism
        });
        Expectation {
            formula: formula.clone(),
            thesis,
            mechanism,
            reason: reason.clone().unwrap_or_default(),
            ..Expectation::new(arm, metric.to_string(), promise, source.value.clone())
        }
    };
    Some(arms.into_iter().map(one).collect())
}

/// Reads the metric that explains a missed expectation: its name, its arm if that is another
/// one, and the position of the text.
fn explained(
    table: &mut Reader<'_, '_>,
    scope: &Scope,
    arms: &[String],
    has_reason: bool,
) -> Option<(String, Option<String>, SourceSpan)> {
    let text = EXPLAINED_BY.get(table)?;
    if !has_reason {
        let message = "`explained-by` names a figure, but no mechanism";
        let hint = "say what the figure shows: `reason = \"the timer fires at 250 Hz\"`";
        let problems = table.problems();
        problems.error(codes::PROMISE, text.span.clone(), message, hint);
    }
    let (name, arm) = match text.value.split_once('@') {
        Some((name, arm)) => (name.to_owned(), Some(arm.to_owned())),
        None => (text.value.clone(), None),
    };
    if let Some(arm) = arm.as_ref().filter(|arm| !scope.arms.contains(*arm)) {
        unknown(table, codes::ARM, "arm", &text, arm, &scope.arms);
        return None;
    }
    let place = text.span.clone();
    let name = text.map(|_| name);
    let metric = metric(table, scope, &name)?;
    let own = arm.as_ref().map_or(arms, std::slice::from_ref);
    let there = measured(table, scope, &name, own, [&metric]);
    there.then(|| (metric.to_string(), arm, place))
}

fn arms(table: &mut Reader<'_, '_>, scope: &Scope) -> Option<Vec<String>> {
    let names = ARM.get(table)?;
    let mut known = Vec::new();
    for name in names {
        if scope.arms.contains(&name.value) {
            known.push(name.value);
        } else {
            unknown(table, codes::ARM, "arm", &name, &name.value, &scope.arms);
        }
    }
    (!known.is_empty()).then_some(known)
}

/// Reads the condition, and the formula if the number is calculated.
fn promise(
    table: &mut Reader<'_, '_>,
    scope: &Scope,
    arms: &[String],
) -> Option<(Promise, Option<Formula>)> {
    let fields = [VALUE, AT_LEAST, AT_MOST].map(|field| field.name);
    let given: Vec<&'static str> = fields.into_iter().filter(|f| table.has(f)).collect();
    let hint = "write `value` with `tolerance`, or `at-least`, or `at-most`";
    let place = field::head(table);
    let problems = table.problems();
    let wrong = |message: &str| {
        problems.error(codes::PROMISE, place, message, hint);
    };
    let tolerated = TOLERANCE.is_in(table);
    match given.as_slice() {
        [] => {
            wrong("the expectation promises nothing");
            None
        }
        ["value"] if tolerated => {
            let tolerance = tolerance(table);
            let (value, formula) = number(table, scope, arms, VALUE)?;
            Some((tolerance?.of(value), formula))
        }
        ["value"] => {
            wrong("`value` needs a `tolerance`");
            None
        }
        [_] if tolerated => {
            wrong("`tolerance` belongs to `value`");
            None
        }
        ["at-least"] => {
            let (bound, formula) = number(table, scope, arms, AT_LEAST)?;
            Some((Promise::AtLeast(bound), formula))
        }
        ["at-most"] => {
            let (bound, formula) = number(table, scope, arms, AT_MOST)?;
            Some((Promise::AtMost(bound), formula))
        }
        _ => {
            wrong("the expectation promises more than one thing");
            None
        }
    }
}

/// Reads a number, or a formula in quotes.
fn number(
    table: &mut Reader<'_, '_>,
    scope: &Scope,
    arms: &[String],
    of: Field<Own>,
) -> Option<(f64, Option<Formula>)> {
    if table.kind(of.name) != Some(Kind::Text) {
        return table.number(of.name).map(|number| (number.value, None));
    }
    let text = table.text(of.name)?;
    let formula = formula(table, scope, &text)?;
    if !measured(table, scope, &text, arms, formula.metrics()) {
        return None;
    }
    for (metric, arm) in formula.of_others() {
        if !scope.arms.contains(arm) {
            unknown(table, codes::ARM, "arm", &text, arm, &scope.arms);
            return None;
        }
        if !exists(table, scope, &text, metric) || !measured(table, scope, &text, &[arm], [metric])
        {
            return None;
        }
    }
    Some((0.0, Some(formula)))
}

/// Parses a formula and checks that the file has its metrics.
pub(super) fn formula(
    table: &Reader<'_, '_>,
    scope: &Scope,
    text: &Value<String>,
) -> Option<Formula> {
    match text.value.parse::<Formula>() {
        Ok(formula) => {
            let known = formula
                .metrics()
                .into_iter()
                .filter(|metric| exists(table, scope, text, metric))
                .count();
            (known == formula.metrics().len()).then_some(formula)
        }
        Err(error) => {
            let place = text.span.clone();
            let problems = table.problems();
            problems.error(codes::FORMULA, place, error.problem, error.hint);
            None
        }
    }
}

/// Reads the tolerance: `"2%"`, `"0.5"` or `0.5`. The value in the result is 0.
fn tolerance(table: &mut Reader<'_, '_>) -> Option<Promise> {
    if table.kind(TOLERANCE.name) != Some(Kind::Text) {
        let tolerance = table.number(TOLERANCE.name)?;
        if tolerance.value >= 0.0 {
            let (value, tolerance) = (0.0, tolerance.value);
            return Some(Promise::Within { value, tolerance });
        }
        let message = "a tolerance cannot be negative";
        let problems = table.problems();
        problems.error(codes::PROMISE, tolerance.span, message, "write `0.5`");
        return None;
    }
    let text = table.text(TOLERANCE.name)?;
    let (number, share) = match text.value.strip_suffix('%') {
        Some(number) => (number.trim_end(), true),
        None => (text.value.as_str(), false),
    };
    let plain = number.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let parsed = number.parse::<f64>().ok().filter(|_| plain);
    match (parsed, share) {
        (Some(percent), true) if percent <= 100.0 => Some(Promise::Near {
            value: 0.0,
            tolerance: percent / 100.0,
        }),
        (Some(tolerance), false) if tolerance.is_finite() => Some(Promise::Within {
            value: 0.0,
            tolerance,
        }),
        _ => {
            let message = format!("`{}` is not a tolerance", text.value);
            let hint = "write a part of the value, such as `2%`, or a distance, such as `0.5`";
            let problems = table.problems();
            problems.error(codes::PROMISE, text.span, message, hint);
            None
        }
    }
}

/// Parses a metric name and checks that the file has its phase and subject.
pub(super) fn metric(
    table: &Reader<'_, '_>,
    scope: &Scope,
    text: &Value<String>,
) -> Option<Metric> {
    let metric = match text.value.parse::<Metric>() {
        Ok(metric) => metric,
        Err(error) => {
            let (place, message) = (text.span.clone(), error.problem);
            table
                .problems()
                .error(codes::METRIC, place, message, error.hint);
            return None;
        }
    };
    exists(table, scope, text, &metric).then_some(metric)
}

/// Returns whether all of these arms can have these metrics, and reports the first that cannot:
/// the kernel's netem logs no packets.
pub(super) fn measured<'m>(
    table: &Reader<'_, '_>,
    scope: &Scope,
    text: &Value<String>,
    arms: &[impl AsRef<str>],
    metrics: impl IntoIterator<Item = &'m Metric>,
) -> bool {
    let metrics: Vec<&Metric> = metrics.into_iter().collect();
    if !changed(table, scope, text, arms, &metrics) {
        return false;
    }
    let mut netem = arms.iter().filter(|arm| scope.netem.contains(arm.as_ref()));
    let Some(arm) = netem.next() else {
        return true;
    };
    let Some(metric) = metrics.into_iter().find(|metric| metric.needs_own_line()) else {
        return true;
    };
    let message = format!("the arm `{}` cannot have `{metric}`", arm.as_ref());
    let hint = "its line is the kernel's netem, which logs no packets: name another metric, or \
                leave the arm's `emulator` out";
    let problems = table.problems();
    problems.error(codes::SUBJECT, text.span.clone(), message, hint);
    false
}

/// Returns whether all of these arms have the changes that the metrics name, and reports the
/// first that has not.
fn changed(
    table: &Reader<'_, '_>,
    scope: &Scope,
    text: &Value<String>,
    arms: &[impl AsRef<str>],
    metrics: &[&Metric],
) -> bool {
    let of_changes = |metric: &&&Metric| metric.quantity.subject() == Subject::Change;
    for metric in metrics.iter().filter(of_changes) {
        for arm in arms.iter().map(AsRef::as_ref) {
            let count = scope.changes.get(arm).copied().unwrap_or(0);
            let number = metric.subject.parse().unwrap_or(usize::MAX);
            if number <= count {
                continue;
            }
            let message = format!("the arm `{arm}` has no change `{}`", metric.subject);
            let hint = match count {
                0 => {
                    "add `then = [{ at = \"20s\", policy = \"policies/x.toml\" }]` to it".to_owned()
                }
                1 => "it has one, `1`".to_owned(),
                count => format!("it has {count}, `1` to `{count}`"),
            };
            let problems = table.problems();
            problems.error(codes::SUBJECT, text.span.clone(), message, hint);
            return false;
        }
    }
    true
}

/// Returns whether the file has the phase and subject of a metric, and reports them if not.
fn exists(table: &Reader<'_, '_>, scope: &Scope, text: &Value<String>, metric: &Metric) -> bool {
    if let Some(phase) = &metric.phase
        && scope.phase_named(phase).is_none()
    {
        let phases = scope.phases().map(|(phase, _)| phase.name.clone());
        unknown(table, codes::PHASE, "phase", text, phase, &phases.collect());
        return false;
    }
    let links = || ["up", "down"].map(str::to_owned).into_iter().collect();
    let changes = || {
        let most = scope.changes.values().max().copied().unwrap_or(0);
        (1..=most).map(|number| number.to_string()).collect()
    };
    let connections = || {
        ["all", "answered", "unanswered", "kept"]
            .map(str::to_owned)
            .into_iter()
            .collect()
    };
    let compared = || scope.flows.union(&scope.groups).cloned().collect();
    let (what, known) = match metric.quantity.subject() {
        // Downstream packets pass the gateway's gate only after the line, so only `up` is
        // measured.
        _ if metric.quantity == Quantity::Unshaped => ("link", &["up".to_owned()].into()),
        _ if metric.quantity == Quantity::Jain => ("group or traffic entry", &compared()),
        Subject::Probe => ("probe", &scope.probes),
        Subject::Flow if metric.quantity.is_by_size() => (
            "traffic entry or size of its flows",
            &scope.flows.union(&scope.parts).cloned().collect(),
        ),
        Subject::Flow => ("traffic entry", &scope.flows),
        Subject::FlowOrProbe => ("traffic entry or probe", &scope.names),
        Subject::Class => ("class", &scope.classes),
        Subject::Link => ("link", &links()),
        Subject::Connections => ("kind of connections", &connections()),
        Subject::Figure => ("figure", &scope.figures),
        Subject::Change => ("change of the policy", &changes()),
        Subject::Machine => ("part of the machine", &["processor".to_owned()].into()),
        Subject::Place => return place_exists(table, text, metric),
    };
    if known.contains(named(metric)) {
        return true;
    }
    unknown(table, codes::SUBJECT, what, text, &metric.subject, known);
    false
}

/// Returns the subject as named in the file: a metric may append the direction to a class.
fn named(metric: &Metric) -> &str {
    let subject = metric.subject.as_str();
    let class = subject
        .strip_suffix("-up")
        .or_else(|| subject.strip_suffix("-down"));
    class
        .filter(|_| metric.quantity.subject() == Subject::Class)
        .unwrap_or(subject)
}

/// Checks the form of a place's name. Commands and policies create the queues on the gateway, so
/// their names are not known here.
fn place_exists(table: &Reader<'_, '_>, text: &Value<String>, metric: &Metric) -> bool {
    let subject = metric.subject.as_str();
    let device = subject.split_once('-').map_or(subject, |parts| parts.0);
    let known = ["modem", "exchange", "wan", "lan", "ifb"];
    if known.contains(&device) {
        return true;
    }
    let message = format!("there is no place `{subject}`");
    let hint = match nearest(device, known) {
        Some(near) => format!("did you mean `{near}`?"),
        None => "write modem, exchange, wan, lan, or a device and a handle: wan-1:50".to_owned(),
    };
    let problems = table.problems();
    problems.error(codes::SUBJECT, text.span.clone(), message, hint);
    false
}

fn unknown(
    table: &Reader<'_, '_>,
    code: &'static str,
    what: &str,
    at: &Value<String>,
    name: &str,
    known: &BTreeSet<String>,
) {
    let message = format!("there is no {what} `{name}`");
    let hint = match nearest(name, known.iter().map(String::as_str)) {
        Some(near) => format!("did you mean `{near}`?"),
        None if known.is_empty() => format!("the file has no {what}"),
        None => {
            let list: Vec<&str> = known.iter().map(String::as_str).collect();
            format!("known: {}", list.join(", "))
        }
    };
    table.problems().error(code, at.span.clone(), message, hint);
}
