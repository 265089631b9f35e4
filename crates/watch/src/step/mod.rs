// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Takes consecutive looks, and derives results from two of them.

mod broken_promises;
pub(crate) mod diff;
pub(crate) mod now;
pub(crate) mod promise;
mod tree_events;

use crate::WatchError;
use crate::legend::Legend;
use crate::look::Looker;
use crate::look::behaviour::HostAlert;
use crate::look::connections::Flow;
use crate::look::link::LineNow;
use crate::look::probe::{Prober, Target};
use crate::look::site_links::{self, SiteLink};
use crate::object::{Number, Object, Sort};
use crate::step::broken_promises::BrokenPromises;
use crate::step::diff::{Change, Differ};
use crate::step::now::{conclude, now};
use crate::step::tree_events::Trees;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use weirgate_history::Event;
use weirgate_kernel::KernelError;
use weirgate_units::Inserted as _;

/// The difference between the wall clock and the monotonic clock, in milliseconds, from which on
/// the clock counts as set.
const JUMP: i64 = 500;
/// The longest interval between looks that is evaluated: this, in milliseconds, or this many times
/// the usual interval if that is longer.
const PAUSE: i64 = 60_000;
const MISSED: i64 = 3;

/// A class with this many queued packets, at this many consecutive looks, is assumed to have had
/// a backlog all the time. One packet at two looks may be chance: each packet of a steady stream
/// waits for a moment.
const PACKETS: i64 = 2;
const LOOKS: u32 = 3;

/// The result of two looks.
#[derive(Debug, Clone)]
pub struct Step {
    /// The time of the second look in milliseconds of Unix time.
    pub time: i64,
    /// The interval in milliseconds.
    pub interval: i64,
    /// The objects and their changes.
    pub changes: Vec<Change>,
    /// The flows with the most traffic, if the connection table is readable and has counters.
    pub flows: Arc<Vec<Flow>>,
    /// The alerts for inside hosts that are in force.
    pub alerts: Arc<Vec<HostAlert>>,
    /// The links of the site, if there are several.
    pub links: Vec<SiteLink>,
}

impl Step {
    /// Returns the result as JSON, see [`now`](crate::now()), with the flows, the alerts
    /// and the links of the site.
    pub fn json(&self, legend: &Legend) -> serde_json::Value {
        let mut value = now(self.time, self.interval, &self.changes, legend);
        value["flows"] = serde_json::json!(*self.flows);
        value["alerts"] = serde_json::json!(*self.alerts);
        value["links"] = serde_json::json!(self.links);
        value
    }
}

/// Takes looks repeatedly.
pub struct Steps {
    pub(crate) looker: Looker,
    differ: Differ,
    trees: Trees,
    /// The wall clock at the previous look, and the milliseconds since the first one.
    last: Option<(i64, i64)>,
    first: Option<Instant>,
    /// The longest interval that is evaluated, in milliseconds.
    longest: i64,
    /// For how many consecutive looks classes had a backlog.
    waited: BTreeMap<String, u32>,
    promises: BrokenPromises,
    events: Vec<Event>,
    probes: Vec<Prober>,
    /// The current links of the site, and those that were last reported.
    links: Vec<SiteLink>,
    told: Vec<SiteLink>,
}

impl Steps {
    /// Opens the namespace of the calling thread. Needs a tokio runtime, but no privilege.
    pub fn open(legend: Legend) -> Result<Self, KernelError> {
        Ok(Self {
            looker: Looker::open(legend)?,
            differ: Differ::default(),
            trees: Trees::default(),
            last: None,
            first: None,
            longest: PAUSE,
            waited: BTreeMap::new(),
            promises: BrokenPromises::default(),
            events: Vec::new(),
            probes: Vec::new(),
            links: Vec::new(),
            told: Vec::new(),
        })
    }

    /// Also measures passing packets, if this process has the permission: waits, round trips,
    /// hosts.
    pub fn look_at_packets(&mut self) {
        self.looker.look_at_packets();
    }

    /// Sets the interval between looks. After a much longer pause, counters are not evaluated.
    pub fn come_every(&mut self, every: Duration) {
        let every = i64::try_from(every.as_millis()).unwrap_or(i64::MAX);
        self.longest = every.saturating_mul(MISSED).max(PAUSE);
    }

    /// Sends an echo to each of these hosts at every look from now on.
    pub fn probe(&mut self, targets: &[Target]) -> Result<(), WatchError> {
        let mut names = BTreeSet::new();
        if let Some(twice) = targets.iter().find(|one| !names.insert(&*one.name)) {
            return Err(WatchError::Twice(twice.name.clone()));
        }
        let probes = targets.iter().cloned().map(Prober::open);
        self.probes = probes.collect::<Result<_, _>>()?;
        Ok(())
    }

    /// Changes to the legend of another policy.
    pub fn set_legend(&mut self, legend: Legend) {
        self.looker.set_legend(legend);
    }

    /// Sets the rates that `[track]` estimates.
    pub fn set_lines(&mut self, lines: Vec<LineNow>) {
        self.looker.set_lines(lines);
    }

    /// Sets the state of the site's links.
    pub fn set_links(&mut self, links: Vec<SiteLink>) {
        self.links = links;
    }

    /// Returns why passing packets are not measured; `None` if they are.
    pub fn blind(&self) -> Option<&str> {
        self.looker.blind()
    }

    /// Takes one look. Returns `None` for the first one, and for the first one after a long
    /// pause. `time` is the wall clock in milliseconds of Unix time; `passed` is the monotonic
    /// clock.
    pub async fn step(&mut self, time: i64, passed: Instant) -> Result<Option<Step>, KernelError> {
        let probes: Vec<Object> = self.probes.iter().map(Prober::tick).collect();
        let (mut objects, devices) = self.looker.look().await?;
        objects.extend(probes);
        objects.extend(self.links.iter().map(SiteLink::object));
        let interval = self.interval(time, passed);
        let longest = self.longest;
        let of_behaviour = self.looker.behaviour_events();
        let legend = self.looker.legend();
        let mut happened = self.trees.step(&devices, legend, self.looker.lines());
        let links = site_links::events(&self.told, &self.links);
        self.told.clone_from(&self.links);
        happened.extend(links.into_iter().map(|text| ("link", text)));
        happened.extend(of_behaviour);
        self.events
            .extend(happened.into_iter().map(|(kind, text)| Event {
                time,
                kind: kind.to_owned(),
                text,
            }));
        let Some(interval) = interval.filter(|interval| *interval <= longest) else {
            self.differ = Differ::default();
            self.waited.clear();
            self.differ.step(objects);
            return Ok(None);
        };
        let mut changes = self.differ.step(objects);
        self.waited = waiting(&changes, &self.waited);
        let waited = |object: &Object| self.waited.get(&object.label_text()) >= Some(&LOOKS);
        conclude(&mut changes, legend, interval, waited);
        let broken = self.promises.step(time, &changes, legend);
        self.events.extend(broken.into_iter().map(|text| Event {
            time,
            kind: String::from("promise"),
            text,
        }));
        Ok(Some(Step {
            time,
            interval,
            changes,
            flows: self.looker.flows(),
            alerts: self.looker.alerts(),
            links: self.links.clone(),
        }))
    }

    /// Returns the events since the last call.
    pub fn events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// Returns the milliseconds since the previous look. They are measured on the monotonic
    /// clock, because all rates depend on them. They are counted from the first look, so that
    /// fractions of a millisecond do not add up to an error.
    fn interval(&mut self, time: i64, passed: Instant) -> Option<i64> {
        let first = *self.first.get_or_insert(passed);
        let now = passed.saturating_duration_since(first).as_millis() as i64;
        let (last, before) = self.last.replace((time, now))?;
        let real = (now - before).max(1);
        let jump = time - last - real;
        if jump.abs() < JUMP {
            return Some(real);
        }
        let direction = if jump > 0 { "forward" } else { "back" };
        let seconds = jump.unsigned_abs() as f64 / 1000.0;
        self.events.push(Event {
            time,
            kind: String::from("clock"),
            text: format!("the clock was set {direction} by {seconds} s"),
        });
        Some(real)
    }
}

fn waiting(changes: &[Change], before: &BTreeMap<String, u32>) -> BTreeMap<String, u32> {
    let classes = changes
        .iter()
        .filter(|change| change.object.sort == Sort::Class);
    let waiting = classes.filter(|class| class.value(Number::ClassBacklogPackets) >= Some(PACKETS));
    let count = |class: &Change| {
        let name = class.object.label_text();
        let looks = before.get(&name).copied().unwrap_or(0) + 1;
        (name, looks)
    };
    waiting.map(count).inserted()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_runtime(work: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(work);
    }

    fn after(begin: Instant, ms: u64) -> Instant {
        begin + Duration::from_millis(ms)
    }

    /// Figures of a probe have only its name.
    #[test]
    fn two_probes_of_one_name_are_refused() {
        in_runtime(async {
            let mut steps = Steps::open(Legend::default()).expect("a socket");
            let probe = |text: &str| crate::target(text).expect("a probe");
            let twice = [probe("near=127.0.0.1"), probe("near=127.0.0.2,46")];
            let refused = steps.probe(&twice).expect_err("one name");
            assert_eq!(
                refused.to_string(),
                "two probes are called near; give each a name of its own"
            );
            assert!(steps.probes.is_empty());
        });
    }

    /// Setting the clock by less than the reported amount changes no rate.
    #[test]
    fn a_clock_that_is_set_by_a_little_changes_no_interval() {
        in_runtime(async {
            let mut steps = Steps::open(Legend::default()).expect("a socket");
            let begin = Instant::now();
            let mut wall = 1_700_000_000_000_i64;
            assert!(steps.step(wall, begin).await.expect("a look").is_none());
            for (look, set) in [0, 450, -450, 190, -199, 0].into_iter().enumerate() {
                wall += 200 + set;
                let passed = after(begin, 200 * (look as u64 + 1));
                let step = steps.step(wall, passed).await.expect("a look");
                let step = step.expect("a second look");
                assert_eq!((step.time, step.interval), (wall, 200), "set by {set} ms");
            }
            assert!(steps.events().is_empty());
            wall += 200 + 900;
            let step = steps.step(wall, after(begin, 1_400)).await.expect("a look");
            assert_eq!(step.expect("a look after another").interval, 200);
            let events = steps.events();
            assert_eq!(events.len(), 1);
            assert_eq!(events[0].text, "the clock was set forward by 0.9 s");
        });
    }

    /// Looks a minute apart may be late by a tick.
    #[test]
    fn looks_that_are_far_apart_are_no_pause() {
        in_runtime(async {
            for (every, late, known) in [
                (60_000, 60_040, true),
                (60_000, 179_000, true),
                (60_000, 181_000, false),
                (1_000, 59_000, true),
                (1_000, 61_000, false),
            ] {
                let mut steps = Steps::open(Legend::default()).expect("a socket");
                steps.come_every(Duration::from_millis(every));
                let begin = Instant::now();
                let wall = 1_700_000_000_000_i64;
                assert!(steps.step(wall, begin).await.expect("a look").is_none());
                let step = steps.step(wall + late as i64, after(begin, late)).await;
                let step = step.expect("a look");
                assert_eq!(step.is_some(), known, "{late} ms of {every}");
            }
        });
    }
}
