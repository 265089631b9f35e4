// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Calculates changes from one look to the next. Counters that wrap, restart or disappear never
//! cause a spike: unknown changes are omitted.

use crate::object::{Metric, Number, Object, Sort, Width};
use crate::step::promise::JudgedPromise;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// An object and the changes of its numbers.
#[derive(Debug, Clone)]
pub struct Change {
    /// The object. Its 32-bit counters are extended beyond 2^32.
    pub object: Object,
    /// The increments of counters since the previous look, and the values of gauges, if they are
    /// known.
    pub values: Vec<(Number, i64)>,
    /// Whether a class of the legend got what it was promised.
    pub verdict: Option<JudgedPromise>,
}

impl Change {
    /// Returns the increment of a counter, or the value of a gauge.
    pub fn value(&self, number: Number) -> Option<i64> {
        let found = self.values.iter().find(|(other, _)| *other == number);
        found.map(|(_, value)| *value)
    }
}

struct Before {
    identity: String,
    numbers: Vec<(Number, u64)>,
    /// The sums of 32-bit counters before they wrapped.
    carried: BTreeMap<Number, u64>,
}

/// The objects at the previous look.
#[derive(Default)]
pub struct Differ {
    before: BTreeMap<(Sort, String), Before>,
}

impl Differ {
    /// Compares a look with the previous one.
    pub fn step(&mut self, objects: Vec<Object>) -> Vec<Change> {
        let mut now = BTreeMap::new();
        let mut changes = Vec::with_capacity(objects.len());
        for mut object in objects {
            let key = (object.sort, object.label_text());
            // If two have the same name, the first one counts.
            let Entry::Vacant(place) = now.entry(key) else {
                continue;
            };
            let known = self.before.remove(place.key());
            let known = known.filter(|before| before.identity == object.identity);
            let mut before = Before {
                identity: object.identity.clone(),
                numbers: object.numbers.clone(),
                carried: BTreeMap::new(),
            };
            let mut values = Vec::with_capacity(object.numbers.len());
            // If one counter has decreased, all of them have restarted.
            let known = known.filter(|known| !anew(&object, known));
            if let Some(known) = &known {
                before.carried.clone_from(&known.carried);
            }
            for (number, value) in &mut object.numbers {
                let metric = number.metric();
                let last = known
                    .as_ref()
                    .and_then(|known| find(&known.numbers, *number))
                    .or(object.begins.then_some(0));
                if let Some(change) = change(metric, *value, last) {
                    values.push((*number, change));
                }
                if metric.width == Width::Short {
                    let carried = before.carried.entry(*number).or_default();
                    if last.is_some_and(|last| *value < last) {
                        *carried += 1 << 32;
                    }
                    *value += *carried;
                }
            }
            place.insert(before);
            changes.push(Change {
                object,
                values,
                verdict: None,
            });
        }
        self.before = now;
        changes
    }
}

fn find(numbers: &[(Number, u64)], number: Number) -> Option<u64> {
    let found = numbers.iter().find(|(other, _)| *other == number);
    found.map(|(_, value)| *value)
}

fn anew(object: &Object, known: &Before) -> bool {
    object.numbers.iter().any(|(number, value)| {
        let last = find(&known.numbers, *number);
        last.is_some_and(|last| match number.metric().width {
            Width::Counter => *value < last,
            // Half of the counter's range: no queue drops as much in a second.
            Width::Short => (*value as u32).wrapping_sub(last as u32) >= 1 << 31,
            Width::Gauge => false,
        })
    })
}

fn change(metric: &Metric, value: u64, last: Option<u64>) -> Option<i64> {
    match metric.width {
        Width::Gauge => i64::try_from(value).ok(),
        Width::Counter => i64::try_from(value - last?).ok(),
        Width::Short => Some(i64::from((value as u32).wrapping_sub(last? as u32))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn object(identity: &str, bytes: u64, drops: u32) -> Object {
        Object {
            sort: Sort::Class,
            identity: identity.to_owned(),
            begins: false,
            labels: vec![("class", String::from("a"))],
            numbers: vec![
                (Number::ClassSentBytes, bytes),
                (Number::ClassDrops, u64::from(drops)),
                (Number::ClassBacklogBytes, 7),
            ],
        }
    }

    fn step(differ: &mut Differ, object: Object) -> (Option<i64>, Option<i64>, u64) {
        let changes = differ.step(vec![object]);
        let one = &changes[0];
        assert_eq!(one.value(Number::ClassBacklogBytes), Some(7));
        (
            one.value(Number::ClassSentBytes),
            one.value(Number::ClassDrops),
            one.object.number(Number::ClassDrops).unwrap(),
        )
    }

    #[test]
    fn wraps_restarts_and_gaps_make_no_spikes() {
        let mut differ = Differ::default();
        let last = u32::MAX - 1;
        assert_eq!(
            step(&mut differ, object("1", 1000, last)),
            (None, None, u64::from(last))
        );
        let wrapped = (1 << 32) + 3;
        assert_eq!(
            step(&mut differ, object("1", 1500, 3)),
            (Some(500), Some(5), wrapped)
        );
        assert_eq!(
            step(&mut differ, object("1", 1500, 4)),
            (Some(0), Some(1), wrapped + 1)
        );
        // The object was created again, with counters at zero.
        assert_eq!(step(&mut differ, object("1", 20, 0)), (None, None, 0));
        assert_eq!(
            step(&mut differ, object("1", 30, 1)),
            (Some(10), Some(1), 1)
        );
        // Another object with the same name, although its counters are larger.
        assert_eq!(step(&mut differ, object("2", 90, 9)), (None, None, 9));
        // The object was missing for a while.
        assert!(differ.step(Vec::new()).is_empty());
        assert_eq!(step(&mut differ, object("2", 100, 9)), (None, None, 9));
    }

    #[test]
    fn of_two_with_one_name_the_first_counts() {
        let mut differ = Differ::default();
        let other = || object("1", 10, 0);
        differ.step(vec![object("1", 1000, 0), other()]);
        let changes = differ.step(vec![object("1", 1100, 0), other()]);
        assert_eq!(changes.len(), 1);
        assert_eq!(changes[0].value(Number::ClassSentBytes), Some(100));
    }

    #[test]
    fn what_begins_counts_from_its_begin() {
        let mut differ = Differ::default();
        assert!(differ.step(Vec::new()).is_empty());
        let begins = |bytes| Object {
            begins: true,
            ..object("1", bytes, 3)
        };
        assert_eq!(step(&mut differ, begins(500)), (Some(500), Some(3), 3));
        assert_eq!(
            step(&mut differ, object("1", 700, 3)),
            (Some(200), Some(0), 3)
        );
    }

    proptest! {
        #[test]
        fn what_counts_is_counted_and_nothing_else(steps in proptest::collection::vec((0_u64..1 << 40, 0_u32..1 << 30, any::<bool>()), 1..40)) {
            let mut differ = Differ::default();
            let (mut bytes, mut drops) = (0_u64, u32::MAX - 5);
            let mut first = true;
            for (more, dropped, anew) in steps {
                if anew {
                    (bytes, drops) = (0, 0);
                } else {
                    bytes += more;
                    drops = drops.wrapping_add(dropped);
                }
                let (found, found_drops, _) = step(&mut differ, object("1", bytes, drops));
                if let Some(found) = found.filter(|_| !anew) {
                    prop_assert_eq!(found as u64, more);
                    prop_assert_eq!(found_drops, Some(i64::from(dropped)));
                }
                prop_assert!(found.is_some() || anew || first);
                first = false;
            }
        }
    }
}
