// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The last look as JSON: for the page, for `top --json`, and for scripts.

use crate::circuits::metrics::is_below_link;
use crate::legend::{ClassLegend, Legend};
use crate::look::link::at_rate;
use crate::object::{Number, Object, Sort, Width};
use crate::step::diff::Change;
use crate::step::promise::{Promise, Wait, judge};
use serde_json::{Map, Value, json};
use weirgate_units::Inserted as _;

/// Returns `{"time_ms", "interval_ms", "objects": [{"sort", "labels", "numbers"}]}`. Counters
/// are given per second, gauges as they are, times in seconds. A class of the legend also has
/// its `promise`, and how its wait was determined. A rule also has `totals`, the counts since
/// its counter was created. Of circuits, only the link is included.
pub fn now(time: i64, interval: i64, changes: &[Change], legend: &Legend) -> Value {
    let objects: Vec<Value> = changes
        .iter()
        .filter(|one| !is_below_link(&one.object))
        .map(|one| object(one, interval, legend))
        .collect();
    json!({ "time_ms": time, "interval_ms": interval, "objects": objects })
}

fn object(change: &Change, interval: i64, legend: &Legend) -> Value {
    let mut numbers = Map::new();
    for (number, value) in &change.values {
        let metric = number.metric();
        let value = *value as f64 / f64::from(metric.divisor);
        let value = match metric.width {
            Width::Gauge => value,
            _ => value * 1000.0 / interval.max(1) as f64,
        };
        let rounded = (value * 1e6).round() / 1e6;
        numbers.insert(metric.name.to_owned(), json!(rounded));
    }
    let labels = change.object.labels.iter();
    let labels: Map<String, Value> = labels
        .map(|(name, value)| ((*name).to_owned(), Value::from(value.clone())))
        .inserted();
    let mut whole = json!({
        "sort": change.object.sort.word(),
        "labels": labels,
        "numbers": numbers,
    });
    if change.object.sort == Sort::Rule {
        let numbers = change.object.numbers.iter();
        let totals = numbers.map(|(number, value)| (number.metric().name.to_owned(), json!(value)));
        whole["totals"] = Value::Object(totals.inserted());
    }
    if let Some(class) = class_of(&change.object, &legend.classes) {
        whole["promise"] = json!(change.verdict.map(|verdict| verdict.promise));
        whole["judged_by"] = json!(change.verdict.and_then(|verdict| verdict.by));
        whole["guaranteed"] = json!(class.guaranteed);
        whole["maximum"] = json!(class.maximum);
    }
    whole
}

fn class_of<'a>(object: &Object, classes: &'a [ClassLegend]) -> Option<&'a ClassLegend> {
    let mut classes = classes.iter().filter(|_| object.sort == Sort::Class);
    classes.find(|class| {
        class.device == object.label("device") && class.handle.to_string() == object.label("handle")
    })
}

/// Adds derived values to classes: the estimated wait, and whether the promise was kept.
/// `waited` tells whether an object had a backlog all the time, as far as looks can tell.
pub(crate) fn conclude(
    changes: &mut [Change],
    legend: &Legend,
    interval: i64,
    waited: impl Fn(&Object) -> bool,
) {
    let classes: Vec<ClassLegend> = legend
        .classes
        .iter()
        .map(|class| at_rate(changes, class))
        .collect();
    for change in changes
        .iter_mut()
        .filter(|one| one.object.sort == Sort::Class)
    {
        let Some(backlog) = change.value(Number::ClassBacklogBytes) else {
            continue;
        };
        let sent = change.value(Number::ClassSentBytes);
        let both = backlog > 0 && waited(&change.object);
        let class = class_of(&change.object, &classes);
        // A new backlog leaves at least at the guaranteed rate; the rate before says nothing
        // about it.
        let rate = sent.map(|sent| sent as f64 * 1000.0 / interval.max(1) as f64);
        let rate = match (both, class) {
            (true, _) => rate,
            (false, Some(class)) => rate.map(|rate| rate.max(class.guaranteed as f64 / 8.0)),
            (false, None) => None,
        };
        let wait = match (backlog, rate) {
            (0, _) => Some(0),
            (_, Some(rate)) if rate > 0.0 => Some((backlog as f64 * 1e6 / rate) as i64),
            _ => None,
        };
        if let Some(wait) = wait {
            change.object.numbers.push((Number::ClassWait, wait as u64));
            change.values.push((Number::ClassWait, wait));
        }
        let Some((class, sent)) = class.zip(sent) else {
            continue;
        };
        let measured = change
            .value(Number::ClassMeanWait)
            .zip(change.value(Number::ClassHighWait));
        let wait = match (measured, wait) {
            (Some((mean, high)), _) => Wait::Measured {
                mean: mean as u64,
                high: high as u64,
            },
            (None, Some(wait)) => Wait::Estimated(wait as u64),
            (None, None) => Wait::Unknown,
        };
        let found = judge(class, both, sent, wait, interval);
        change.verdict = Some(found);
        let code = match found.promise {
            Promise::Idle | Promise::Kept => 0,
            Promise::Rate => 1,
            Promise::Wait => 2,
            Promise::Unknown => continue,
        };
        let number = (Number::ClassUnkept, code as u64);
        change.object.numbers.push(number);
        change.values.push((Number::ClassUnkept, code));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weirgate_units::Handle;

    fn class(sent: Option<i64>, backlog: i64) -> Change {
        let mut values = vec![
            (Number::ClassBacklogBytes, backlog),
            (Number::ClassBacklogPackets, backlog / 100),
        ];
        values.extend(sent.map(|sent| (Number::ClassSentBytes, sent)));
        Change {
            object: Object {
                sort: Sort::Class,
                identity: String::new(),
                begins: false,
                labels: vec![
                    ("device", String::from("wan")),
                    ("handle", String::from("2:10")),
                ],
                numbers: Vec::new(),
            },
            values,
            verdict: None,
        }
    }

    #[test]
    fn waits_and_promises_follow_from_the_numbers() {
        let legend = Legend {
            classes: vec![ClassLegend {
                device: String::from("wan"),
                direction: String::from("up"),
                name: String::from("voice"),
                handle: Handle::new(2, 0x10),
                guaranteed: 80_000,
                maximum: 100_000,
                bound: Some(200_000),
                objective: None,
            }],
            ..Legend::default()
        };
        let judged = |sent, backlog, waited| {
            let mut changes = [class(sent, backlog)];
            conclude(&mut changes, &legend, 500, |_| waited);
            let promise = changes[0].verdict.map(|verdict| verdict.promise);
            (changes[0].value(Number::ClassWait), promise)
        };
        assert_eq!(judged(Some(0), 0, true), (Some(0), Some(Promise::Idle)));
        // 5,000 bytes in half a second: 1,000 more take 0.1 s.
        assert_eq!(
            judged(Some(5_000), 1_000, true),
            (Some(100_000), Some(Promise::Kept))
        );
        assert_eq!(
            judged(Some(5_000), 3_000, true),
            (Some(300_000), Some(Promise::Wait))
        );
        assert_eq!(
            judged(Some(4_000), 1_000, true),
            (Some(125_000), Some(Promise::Rate))
        );
        assert_eq!(judged(Some(0), 1_000, true), (None, Some(Promise::Rate)));
        assert_eq!(judged(None, 1_000, true), (None, None));
        // The backlog is new, so it is unknown how much the class could have sent.
        assert_eq!(
            judged(Some(4_000), 1_000, false),
            (Some(100_000), Some(Promise::Idle))
        );
        // Measured waits take precedence over estimates.
        let mut changes = [class(Some(5_000), 3_000)];
        let waits = [
            (Number::ClassMeanWait, 80_000),
            (Number::ClassHighWait, 150_000),
        ];
        changes[0].values.extend(waits);
        conclude(&mut changes, &legend, 500, |_| true);
        assert_eq!(changes[0].value(Number::ClassWait), Some(300_000));
        let shown = now(1, 500, &changes, &legend);
        assert_eq!(shown["objects"][0]["promise"], "kept");
        assert_eq!(shown["objects"][0]["judged_by"], "measured");
        let shown = now(1, 500, &[class(Some(5_000), 0)], &legend);
        assert_eq!(shown["objects"][0]["numbers"]["sent_bytes"], 10_000.0);
        // Counters are converted to their base unit: half a second of waits in half a second.
        let mut change = class(Some(5_000), 0);
        change.values.push((Number::ClassWaited, 500_000));
        let shown = now(1, 500, &[change], &legend);
        assert_eq!(shown["objects"][0]["numbers"]["waited_seconds"], 1.0);
    }
}
