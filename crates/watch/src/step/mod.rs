// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Consecutive looks, and what follows from two of them.

mod broken_promises;
pub(crate) mod diff;
pub(crate) mod now;
pub(crate) mod promise;
mod tree_events;

use crate::WatchError;
use crate::legend::Legend;
use crate::look::Looker;
use crate::look::connections::Flow;
use crate::look::link::LineNow;
use crate::look::probe::{Prober, Target};
use crate::look::site_links::{self, SiteLink};
use crate::object::{Number, Object, Sort};
use crate::step::broken_promises::BrokenPromises;
use crate::step::diff::{Change, Differ};
use crate::step::now::{conclude, now};
use crate::step::tree_events::Trees;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use weirgate_history::Event;
use weirgate_kernel::KernelError;
use weirgate_units::Inserted as _;

/// Wall clock and time that passed differ by so much where somebody set the
/// clock, milliseconds.
const JUMP: i64 = 500;
/// After a pause of so many milliseconds, nothing is known of the time between;
/// nor after one of so many times that between two looks, where that is longer.
const PAUSE: i64 = 60_000;
const MISSED: i64 = 3;

/// A class that has so many packets waiting, at so many looks one after the
/// other, is taken to have had some waiting all of the time. One packet at two
/// looks may be chance: each of a steady stream waits for a moment.
const PACKETS: i64 = 2;
const LOOKS: u32 = 3;

/// What was seen between two looks.
#[derive(Debug, Clone)]
pub struct Step {
    /// When it ended, in milliseconds of Unix time.
    pub time: i64,
    /// How long it was.
    pub interval: i64,
    /// Objects and what changed.
    pub changes: Vec<Change>,
    /// The flows with most traffic, where the connection table may be read and
    /// counts.
    pub flows: Arc<Vec<Flow>>,
    /// The links of the site, where somebody holds several.
    pub links: Vec<SiteLink>,
}

impl Step {
    /// As JSON, see [`now`](crate::now()), with the flows and the links of the site.
    pub fn json(&self, legend: &Legend) -> serde_json::Value {
        let mut value = now(self.time, self.interval, &self.changes, legend);
        value["flows"] = serde_json::json!(*self.flows);
        value["links"] = serde_json::json!(self.links);
        value
    }
}

/// Looks again and again.
pub struct Steps {
    pub(crate) looker: Looker,
    differ: Differ,
    trees: Trees,
    /// The wall clock at the look before, and the milliseconds since the first.
    last: Option<(i64, i64)>,
    first: Option<Instant>,
    /// The longest interval of which anything is known.
    longest: i64,
    /// For how many looks, one after the other, classes had packets waiting.
    waited: BTreeMap<String, u32>,
    promises: BrokenPromises,
    events: Vec<Event>,
    probes: Vec<Prober>,
    /// The links of the site, and what events were told of.
    links: Vec<SiteLink>,
    told: Vec<SiteLink>,
}

impl Steps {
    /// Looks at the calling thread's namespace. Needs a tokio runtime, and no
    /// privilege.
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

    /// Looks at packets that pass, too, where that is allowed: waits, round trips,
    /// hosts.
    pub fn look_at_packets(&mut self) {
        self.looker.look_at_packets();
    }

    /// Looks come this often: after a pause that is much longer, what was counted
    /// meanwhile is of no known time.
    pub fn come_every(&mut self, every: Duration) {
        let every = i64::try_from(every.as_millis()).unwrap_or(i64::MAX);
        self.longest = every.saturating_mul(MISSED).max(PAUSE);
    }

    /// Sends each of these hosts an echo at every look from now on.
    pub fn probe(&mut self, targets: &[Target]) -> Result<(), WatchError> {
        let probes = targets.iter().cloned().map(Prober::open);
        self.probes = probes.collect::<Result<_, _>>()?;
        Ok(())
    }

    /// Takes what `[track]` has the line to be.
    pub fn set_lines(&mut self, lines: Vec<LineNow>) {
        self.looker.set_lines(lines);
    }

    /// Takes how the links of the site are used.
    pub fn set_links(&mut self, links: Vec<SiteLink>) {
        self.links = links;
    }

    /// Why packets that pass are not looked at; `None` where they are.
    pub fn blind(&self) -> Option<&str> {
        self.looker.blind()
    }

    /// Looks once. `None` for the first look, and for the first after a long
    /// pause. `time` is the wall clock's, in milliseconds of Unix time; `passed`
    /// is that of a clock that nobody sets.
    pub async fn step(&mut self, time: i64, passed: Instant) -> Result<Option<Step>, KernelError> {
        let probes: Vec<Object> = self.probes.iter().map(Prober::tick).collect();
        let (mut objects, devices) = self.looker.look().await?;
        objects.extend(probes);
        objects.extend(self.links.iter().map(SiteLink::object));
        let interval = self.interval(time, passed);
        let longest = self.longest;
        let legend = self.looker.legend();
        let mut happened = self.trees.step(&devices, legend, self.looker.lines());
        let links = site_links::events(&self.told, &self.links);
        self.told.clone_from(&self.links);
        happened.extend(links.into_iter().map(|text| ("link", text)));
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
        let broken = self.promises.step(time, &changes);
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
            links: self.links.clone(),
        }))
    }

    /// What happened since this was called last.
    pub fn events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// The milliseconds since the look before. They are never the wall clock's,
    /// which somebody may have set by a little: all rates come of them. Counted
    /// from the first look on, so that what is less than one is not lost.
    fn interval(&mut self, time: i64, passed: Instant) -> Option<i64> {
        let first = *self.first.get_or_insert(passed);
        let now = passed.saturating_duration_since(first).as_millis() as i64;
        let (last, before) = self.last.replace((time, now))?;
        let real = (now - before).max(1);
        let jump = time - last - real;
        if jump.abs() < JUMP {
            return Some(real);
        }
        let way = if jump > 0 { "forward" } else { "back" };
        let seconds = jump.unsigned_abs() as f64 / 1000.0;
        self.events.push(Event {
            time,
            kind: String::from("clock"),
            text: format!("the clock was set {way} by {seconds} s"),
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

    /// A clock that is set by less than what is reported changes no rate.
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

    /// Looks a minute apart are late by a tick now and then.
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
