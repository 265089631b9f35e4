// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The section `[[expect]]`, and whether a metric speaks of what is there.

use super::scope::Scope;
use super::{codes, field};
use crate::{Expectation, Metric, Promise, Subject};
use std::collections::BTreeSet;
use weirgate_document::{Reader, Span as Place, Value, nearest};

pub(super) fn expectations(root: &mut Reader<'_, '_>, scope: &Scope) -> Vec<Expectation> {
    let tables = root.tables("expect").into_iter();
    tables
        .flat_map(|mut table| expectation(&mut table, scope).unwrap_or_default())
        .collect()
}

fn expectation(table: &mut Reader<'_, '_>, scope: &Scope) -> Option<Vec<Expectation>> {
    let arms = if table.has("arm") {
        arms(table, scope)
    } else {
        table.missing("arm", "say which arm it speaks of")
    };
    let name = if table.has("metric") {
        table.text("metric")
    } else {
        table.missing("metric", "name the metric")
    };
    let metric = name.and_then(|name| metric(table, scope, &name));
    let promise = promise(table);
    let source = if table.has("source") {
        table.text("source")
    } else {
        table.missing("source", "say where the figure comes from")
    };
    let (arms, metric, promise, source) = (arms?, metric?, promise?, source?);
    let one = |arm| Expectation {
        arm,
        metric: metric.to_string(),
        promise,
        source: source.value.clone(),
    };
    Some(arms.into_iter().map(one).collect())
}

fn arms(table: &mut Reader<'_, '_>, scope: &Scope) -> Option<Vec<String>> {
    let names = table.text_list("arm")?;
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

fn promise(table: &mut Reader<'_, '_>) -> Option<Promise> {
    let value = table.number("value");
    let tolerance = table.text("tolerance");
    let least = table.number("at-least");
    let most = table.number("at-most");
    let given = [
        table.has("value"),
        table.has("at-least"),
        table.has("at-most"),
    ];
    let wrong = |message: &str| {
        let hint = "write `value` with `tolerance`, or `at-least`, or `at-most`";
        table
            .problems()
            .error(codes::PROMISE, field::head(table), message, hint);
        None
    };
    match given.iter().filter(|present| **present).count() {
        0 => return wrong("the expectation promises nothing"),
        1 => {}
        _ => return wrong("the expectation promises more than one thing"),
    }
    if given[0] != tolerance.is_some() {
        return wrong("`value` and `tolerance` belong together");
    }
    if let Some(least) = least {
        return Some(Promise::AtLeast(least.value));
    }
    if let Some(most) = most {
        return Some(Promise::AtMost(most.value));
    }
    let (value, text) = (value?.value, tolerance?);
    let (number, share) = match text.value.strip_suffix('%') {
        Some(number) => (number.trim_end(), true),
        None => (text.value.as_str(), false),
    };
    let plain = number.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let parsed = number.parse::<f64>().ok().filter(|_| plain);
    match (parsed, share) {
        (Some(percent), true) if percent <= 100.0 => Some(Promise::Near {
            value,
            tolerance: percent / 100.0,
        }),
        (Some(tolerance), false) => Some(Promise::Within { value, tolerance }),
        _ => {
            let message = format!("`{}` is not a tolerance", text.value);
            let hint = "write a part of the value, such as `2%`, or a distance, such as `0.5`";
            table
                .problems()
                .error(codes::PROMISE, text.span, message, hint);
            None
        }
    }
}

/// A metric name whose phase and subject the file has.
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
    let phases: BTreeSet<String> = scope
        .phases()
        .map(|(phase, _)| phase.name.clone())
        .collect();
    if let Some(phase) = &metric.phase
        && !phases.contains(phase)
    {
        unknown(table, codes::PHASE, "phase", text, phase, &phases);
        return None;
    }
    let names = |set: &BTreeSet<String>| set.contains(&metric.subject);
    let (what, known) = match metric.quantity.subject() {
        Subject::Probe => ("probe", scope.probes.clone()),
        Subject::Flow => ("traffic entry", scope.flows.clone()),
        Subject::FlowOrProbe => ("traffic entry or probe", scope.names.clone()),
        Subject::Class => ("class", scope.classes.clone()),
        Subject::Link => {
            let links = ["up", "down"].map(str::to_owned);
            ("link", links.into_iter().collect())
        }
        Subject::Place => return place(table, text, metric),
        Subject::Figure => ("figure", BTreeSet::new()),
    };
    if names(&known) {
        return Some(metric);
    }
    unknown(table, codes::SUBJECT, what, text, &metric.subject, &known);
    None
}

/// Queues on the gateway come from commands and policies; only the form of
/// their names is known here.
fn place(table: &Reader<'_, '_>, text: &Value<String>, metric: Metric) -> Option<Metric> {
    let subject = metric.subject.as_str();
    let device = subject.split_once('-').map_or(subject, |parts| parts.0);
    let known = ["modem", "exchange", "wan", "lan", "ifb"];
    if known.contains(&device) {
        return Some(metric);
    }
    let message = format!("there is no place `{subject}`");
    let hint = match nearest(device, known) {
        Some(near) => format!("did you mean `{near}`?"),
        None => "write modem, exchange, wan, lan, or a device and a handle: wan-1:50".to_owned(),
    };
    let span: Place = text.span.clone();
    table.problems().error(codes::SUBJECT, span, message, hint);
    None
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
