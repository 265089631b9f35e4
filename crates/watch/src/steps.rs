// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One look after the other, and what follows from two of them.

use crate::WatchError;
use crate::changes::Trees;
use crate::connections::Flow;
use crate::differ::{Change, Differ};
use crate::legend::Legend;
use crate::line::LineNow;
use crate::look::Looker;
use crate::now::{conclude, now};
use crate::object::{Number, Object, Sort};
use crate::probe::{Prober, Target};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;
use weirgate_history::Event;
use weirgate_kernel::KernelError;

/// Wall clock and time that passed differ by so much where somebody set the
/// clock, milliseconds.
const JUMP: i64 = 500;
/// After a pause of so many milliseconds, nothing is known of the time between.
const PAUSE: i64 = 60_000;

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
}

impl Step {
    /// As JSON, see [`now`](crate::now()), with the flows.
    pub fn json(&self, legend: &Legend) -> serde_json::Value {
        let mut value = now(self.time, self.interval, &self.changes, legend);
        value["flows"] = serde_json::json!(*self.flows);
        value
    }
}

/// Looks again and again.
pub struct Steps {
    pub(crate) looker: Looker,
    differ: Differ,
    trees: Trees,
    last: Option<(i64, Instant)>,
    /// For how many looks, one after the other, classes had packets waiting.
    waited: BTreeMap<String, u32>,
    events: Vec<Event>,
    probes: Vec<Prober>,
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
            waited: BTreeMap::new(),
            events: Vec::new(),
            probes: Vec::new(),
        })
    }

    /// Looks at packets that pass, too, where that is allowed: waits, round trips,
    /// hosts.
    pub fn look_at_packets(&mut self) {
        self.looker.look_at_packets();
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
        let interval = self.interval(time, passed);
        let legend = self.looker.legend();
        let happened = self.trees.step(&devices, legend, self.looker.lines());
        self.events
            .extend(happened.into_iter().map(|(kind, text)| Event {
                time,
                kind: kind.to_owned(),
                text,
            }));
        let Some(interval) = interval.filter(|interval| *interval <= PAUSE) else {
            self.differ = Differ::default();
            self.waited.clear();
            self.differ.step(objects);
            return Ok(None);
        };
        let mut changes = self.differ.step(objects);
        self.waited = waiting(&changes, &self.waited);
        let waited = |object: &Object| self.waited.get(&object.label_text()) >= Some(&LOOKS);
        conclude(&mut changes, legend, interval, waited);
        Ok(Some(Step {
            time,
            interval,
            changes,
            flows: self.looker.flows(),
        }))
    }

    /// What happened since this was called last.
    pub fn events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// The milliseconds since the look before: by the wall clock, so that one
    /// row begins where the other ends, but where the clock was set.
    fn interval(&mut self, time: i64, passed: Instant) -> Option<i64> {
        let (last, before) = self.last.replace((time, passed))?;
        let real = (passed - before).as_millis() as i64;
        let jump = time - last - real;
        if jump.abs() < JUMP {
            return Some((time - last).max(1));
        }
        let way = if jump > 0 { "forward" } else { "back" };
        let seconds = jump.unsigned_abs() as f64 / 1000.0;
        self.events.push(Event {
            time,
            kind: String::from("clock"),
            text: format!("the clock was set {way} by {seconds} s"),
        });
        Some(real.max(1))
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
    waiting.map(count).collect()
}
