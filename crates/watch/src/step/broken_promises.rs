// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Events: a promise to a class is broken, or is kept again.

use crate::legend::Legend;
use crate::object::Sort;
use crate::step::diff::Change;
use crate::step::promise::Promise;
use std::collections::BTreeMap;

/// The number of consecutive looks with a broken promise that makes an event, and that without
/// one that ends it. Otherwise a class at its limit would fill the history.
const BREAKS: u32 = 3;
const MENDS: u32 = 10;

/// The recent looks at one class.
#[derive(Debug, Default)]
struct Course {
    /// The number of consecutive looks that differ from the last event.
    looks: u32,
    /// The time of the first of them.
    since: i64,
    /// When the reported promise was broken.
    broken_since: Option<i64>,
}

/// The promises of all classes.
#[derive(Debug, Default)]
pub(crate) struct BrokenPromises(BTreeMap<String, Course>);

impl BrokenPromises {
    /// Returns the events after the look at `time`, in milliseconds of Unix time.
    pub(crate) fn step(&mut self, time: i64, changes: &[Change], legend: &Legend) -> Vec<String> {
        let mut events = Vec::new();
        let mut before = std::mem::take(&mut self.0);
        for class in changes.iter().filter(|one| one.object.sort == Sort::Class) {
            let key = class.object.label_text();
            let known = before.remove(&key);
            let Some(verdict) = class.verdict else {
                // One look without a verdict, as after a restart of counters, ends nothing.
                self.0.extend(known.map(|course| (key, course)));
                continue;
            };
            let mut course = known.unwrap_or_default();
            let broken = verdict.promise.broken();
            if broken == course.broken_since.is_some() {
                course.looks = 0;
            } else {
                if course.looks == 0 {
                    course.since = time;
                }
                course.looks += 1;
            }
            let [device, direction, name] =
                ["device", "direction", "class"].map(|label| class.object.label(label));
            let name = legend.class_name(device, direction, name);
            if broken && course.looks == BREAKS {
                let how = match verdict.promise {
                    Promise::Rate => "gets less than its guarantee",
                    _ => "waits longer than it was promised",
                };
                events.push(format!("{name} {how}"));
                (course.broken_since, course.looks) = (Some(course.since), 0);
            } else if course.looks == MENDS
                && let Some(begin) = course.broken_since.take()
            {
                let seconds = (course.since - begin) / 1000;
                events.push(format!(
                    "{name} has what it was promised again, after {seconds} s"
                ));
                course.looks = 0;
            }
            self.0.insert(key, course);
        }
        events
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Object;
    use crate::step::promise::JudgedPromise;

    fn class(verdict: Option<Promise>) -> Change {
        Change {
            object: Object {
                sort: Sort::Class,
                identity: String::new(),
                begins: false,
                labels: vec![
                    ("device", String::from("wan")),
                    ("direction", String::from("up")),
                    ("class", String::from("voice")),
                ],
                numbers: Vec::new(),
            },
            values: Vec::new(),
            verdict: verdict.map(|promise| JudgedPromise { promise, by: None }),
        }
    }

    /// Returns the events of looks a second apart, of which each has some times the same promise.
    fn events(looks: &[(Option<Promise>, usize)], legend: &Legend) -> Vec<String> {
        let mut promises = BrokenPromises::default();
        let all = looks
            .iter()
            .flat_map(|(promise, count)| vec![*promise; *count]);
        let step =
            |(time, promise): (i64, _)| promises.step(time * 1000, &[class(promise)], legend);
        (0..).zip(all).flat_map(step).collect()
    }

    /// A look says nothing of a class whose counters began again.
    #[test]
    fn a_broken_promise_outlasts_a_look_without_a_verdict() {
        let looks = [
            (Some(Promise::Wait), 8),
            (None, 1),
            (Some(Promise::Kept), 10),
        ];
        assert_eq!(
            events(&looks, &Legend::default()),
            [
                "up voice waits longer than it was promised",
                "up voice has what it was promised again, after 9 s"
            ]
        );
    }

    #[test]
    fn of_several_links_the_device_is_told() {
        let link = |way: &str, device: &str| (way.to_owned(), device.to_owned(), 1_000_000);
        let legend = Legend {
            links: vec![link("up", "wan"), link("up", "dsl")],
            ..Legend::default()
        };
        assert_eq!(
            events(&[(Some(Promise::Rate), 3)], &legend),
            ["wan up voice gets less than its guarantee"]
        );
    }

    #[test]
    fn a_promise_is_told_of_when_it_stays_broken_and_when_it_is_kept_again() {
        let mut promises = BrokenPromises::default();
        let mut time = 0;
        let mut look = |promise| {
            time += 1000;
            promises.step(time, &[class(Some(promise))], &Legend::default())
        };
        let mut looks = |promise, count: usize| -> Vec<String> {
            (0..count).flat_map(|_| look(promise)).collect()
        };
        // Two looks may be chance.
        assert!(looks(Promise::Wait, 2).is_empty());
        assert!(looks(Promise::Kept, 5).is_empty());
        assert_eq!(
            looks(Promise::Wait, 8),
            ["up voice waits longer than it was promised"]
        );
        assert!(looks(Promise::Idle, 9).is_empty());
        assert!(looks(Promise::Rate, 1).is_empty());
        assert_eq!(
            looks(Promise::Kept, 30),
            ["up voice has what it was promised again, after 18 s"]
        );
        assert_eq!(
            looks(Promise::Rate, 3),
            ["up voice gets less than its guarantee"]
        );
    }
}
