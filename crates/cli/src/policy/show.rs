// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate show`: shows the state in force, since when, its problems, and the classes with their
//! promises and counters.

use crate::keep::track;
use crate::metrics::legend;
use crate::policy::apply::{asked, site, unread};
use crate::policy::change::damages;
use crate::policy::{check, promises, rules};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::Path;
use weirgate_compile::{ClassReport, DirectionReport};
use weirgate_console::exit::{Failure, Outcome, Status};
use weirgate_console::output;
use weirgate_console::policy;
use weirgate_console::runtime::in_runtime;
use weirgate_console::time::calendar;
use weirgate_keep::{Entry, Memory, RatesNow, Site};
use weirgate_kernel::Scope;
use weirgate_plan::{Difference, verify};
use weirgate_policy::Policy;
use weirgate_state::State;
use weirgate_units::{Handle, Inserted as _, Rate};
use weirgate_watch::{Looker, METRICS, Number, Object, Sort, Sorter};

/// The applied state, and how the kernel differs from it.
struct Shown {
    memory: Memory,
    /// The history entry that was applied, or `None` if it is lost.
    entry: Option<Entry>,
    /// The time until the state is undone, in seconds, if nobody has confirmed it yet.
    returns_s: Option<u64>,
    differences: Vec<Difference>,
    /// The policies of the entry; empty if their texts cannot be read any more.
    policies: Vec<Policy>,
    /// The classes with their counters since they were created.
    counters: Vec<Object>,
    rates: Option<RatesNow>,
}

/// `weirgate show`: exit status 1 if the kernel differs from what was applied.
pub fn run(state: &Path, json: bool) -> Outcome {
    in_runtime(async {
        let site = site(state).map_err(asked)?;
        let Some(memory) = Memory::read(&site.folders).map_err(unread)? else {
            let nothing = json!({ "applied": false });
            output::data(&if json {
                format!("{nothing:#}")
            } else {
                "nothing is applied".to_owned()
            })?;
            return Ok(Status::Done);
        };
        let observed = site.kernel.observe(&Scope::of([&memory.applied])).await?;
        let differences = verify(&observed, &memory.applied);
        let whole = damages(&site).map_err(unread)?;
        let mut shown = Shown::read(&site, memory, differences)?;
        shown.count().await?;
        if json {
            output::data(&format!("{:#}", shown.json()))?;
        } else {
            output::lines(&shown.text())?;
        }
        Ok(if shown.differences.is_empty() {
            whole
        } else {
            Status::Differs
        })
    })
}

impl Shown {
    fn read(site: &Site, memory: Memory, differences: Vec<Difference>) -> Result<Self, Failure> {
        let pending = site.unconfirmed().map_err(unread)?;
        let confirmed = site.head().map_err(unread)?.confirmed;
        let number = pending.as_ref().map(|(pending, _)| pending.number);
        let entry = number.or(confirmed);
        let entry = entry.and_then(|number| site.history.entry(number).ok());
        let loaded = entry
            .as_ref()
            .and_then(|entry| policy::again(&entry.sources).ok());
        Ok(Self {
            memory,
            returns_s: pending.map(|(_, seconds)| seconds),
            differences,
            policies: loaded.map_or_else(Vec::new, |loaded| loaded.policies().to_vec()),
            counters: Vec::new(),
            rates: RatesNow::read(&site.folders).map_err(unread)?,
            entry,
        })
    }

    /// Reads the counters of the classes.
    async fn count(&mut self) -> Result<(), Failure> {
        let legend = legend::of(&self.policies, "", |_, _| Sorter::default());
        let (objects, _) = Looker::open(legend)?.look().await?;
        let classes = objects.into_iter().filter(|one| one.sort == Sort::Class);
        self.counters = classes.collect();
        Ok(())
    }

    fn text(&self) -> String {
        let mut text = match &self.entry {
            Some(entry) => format!(
                "state {} is in force since {}{}\n",
                entry.number,
                calendar(entry.time),
                path(entry).map_or_else(String::new, |path| format!(", from {path}"))
            ),
            None => "a state is in force that the history no longer has\n".to_owned(),
        };
        if let Some((entry, seconds)) = self.entry.as_ref().zip(self.returns_s) {
            let unless = if seconds > 0 {
                " unless you say `weirgate confirm`"
            } else {
                ""
            };
            let _ = writeln!(
                text,
                "warning: state {} is not confirmed: it {}{unless}",
                entry.number,
                weirgate_keep::returns(seconds)
            );
        }
        match self.differences.len() {
            0 => text += "the kernel has all of it, and nothing differs\n",
            count => {
                let _ = writeln!(
                    text,
                    "warning: {count} thing{} in the kernel {}, because something else changed \
                     what weirgate applied; `weirgate apply` puts it right, and `weirgate keep` \
                     does so by itself",
                    if count == 1 { "" } else { "s" },
                    if count == 1 { "differs" } else { "differ" },
                );
            }
        }
        for difference in &self.differences {
            let _ = writeln!(text, "differs: {difference}");
        }
        for one in &self.policies {
            let report = promises(one);
            for direction in &report.directions {
                let _ = write!(text, "\n{}", direction_text(direction, &self.counters));
            }
            if let Some(policed) = &report.policed {
                let _ = writeln!(text, "\n{policed}");
            }
            if let Some(missing) = without_windows(&self.memory.applied, one) {
                let _ = writeln!(text, "{missing}");
            }
        }
        if self.policies.is_empty() {
            text += "\nits policy cannot be read any more; its devices are:\n";
            for device in self.memory.applied.devices.keys() {
                let _ = writeln!(text, "  {device}");
            }
        }
        if let Some(rates) = &self.rates {
            text += "\nthe line's rate is followed\n";
            for line in track::lines(rates) {
                let _ = writeln!(text, "  {line}");
            }
        }
        let sets = rules::switches(&self.memory.applied);
        if !sets.is_empty() {
            let word =
                |(name, on): (&String, &bool)| format!("{name} {}", if *on { "on" } else { "off" });
            let sets: Vec<String> = sets.iter().map(word).collect();
            let _ = writeln!(text, "\nrule sets: {}", sets.join(", "));
        }
        text
    }

    fn json(&self) -> Value {
        let links = self.policies.iter();
        let links = links.map(|policy| check::link(policy, &promises(policy)));
        json!({
            "applied": true,
            "state": self.entry.as_ref().map(|entry| entry.number),
            "since_unix_s": self.entry.as_ref().map(|entry| entry.time),
            "policy": self.entry.as_ref().and_then(path),
            "confirmed": self.returns_s.is_none(),
            "returns_in_s": self.returns_s,
            "differences": self.differences.iter().map(|one| json!({
                "place": one.object,
                "expected": one.expected,
                "found": one.found,
                "line": one.origin.line,
                "reason": one.origin.reason,
            })).collect::<Vec<_>>(),
            "counters": self.counters.iter().map(counters_value).collect::<Vec<_>>(),
            "devices": self.memory.applied.devices.keys().collect::<Vec<_>>(),
            "links": links.collect::<Vec<_>>(),
            "rates": self.rates,
            "rule_sets": rules::switches(&self.memory.applied),
        })
    }
}

/// Returns a note if the policy chose receive windows by itself but the applied state has none.
pub fn without_windows(applied: &State, policy: &Policy) -> Option<&'static str> {
    let chosen = policy.link.automatic?.has_windows();
    let place = applied.hooks.get(&policy.link.device.value);
    let there = place.is_some_and(|place| place.windows.is_some());
    (chosen && !there).then_some(
        "note: there are no receive windows, so only the queue shapes arriving packets: the \
         kernel lacked them when the policy was applied, or an earlier version applied it; \
         `weirgate plan` shows which",
    )
}

/// Returns the path of the policy file.
fn path(entry: &Entry) -> Option<&str> {
    entry.sources.first().map(|source| source.path.as_str())
}

/// Returns a direction as text, with two lines for each of its classes.
fn direction_text(direction: &DirectionReport, counters: &[Object]) -> String {
    let mut text = format!(
        "{} on {}: shaped to {} of {}\n",
        direction.direction.stream(),
        direction.device,
        rate(direction.gate),
        rate(direction.line)
    );
    let names = direction.classes.iter();
    let width = names.map(|class| class.name.len()).max().unwrap_or(0);
    for class in &direction.classes {
        let _ = writeln!(text, "  {:width$}  {}", class.name, class_text(class));
        if let Some(counted) = counters_text(counters, &direction.device, class.id) {
            let _ = writeln!(text, "  {:width$}  {counted}", "");
        }
    }
    text
}

/// Returns the counters of a class as text, if the kernel has it.
fn counters_text(counters: &[Object], device: &str, handle: Handle) -> Option<String> {
    let handle = handle.to_string();
    let has = |one: &Object, name, value: &str| {
        one.labels.iter().any(|at| *at == (name, value.to_owned()))
    };
    let here = |one: &&Object| has(one, "device", device) && has(one, "handle", &handle);
    let class = counters.iter().find(here)?;
    let of = |number| {
        let mut numbers = class.numbers.iter();
        numbers
            .find(|(one, _)| *one == number)
            .map(|(_, value)| *value)
    };
    let count = |number| of(number).unwrap_or(0);
    let marks =
        of(Number::ClassMarks).map_or_else(String::new, |marks| format!(", {marks} marked"));
    Some(format!(
        "sent {} bytes in {} packets, {} dropped{marks}; {} bytes wait",
        count(Number::ClassSentBytes),
        count(Number::ClassSentPackets),
        count(Number::ClassDrops),
        count(Number::ClassBacklogBytes),
    ))
}

/// Returns the counters of a class as JSON, with the names of the metrics.
fn counters_value(class: &Object) -> Value {
    let labels = class.labels.iter();
    let labels = labels.map(|(name, text)| ((*name).to_owned(), json!(text)));
    let numbers = class.numbers.iter().filter_map(|(number, value)| {
        let metric = METRICS.get(*number as usize)?;
        Some((metric.name.to_owned(), json!(value)))
    });
    Value::Object(labels.chain(numbers).inserted())
}

fn class_text(class: &ClassReport) -> String {
    let part = if class.in_order { "" } else { "half " };
    let wait = class.within.as_ref().map_or_else(
        || "its wait has no bound".to_owned(),
        |bound| {
            let wait = check::ms(bound.wait);
            format!("waits {wait} at most within {part}its guarantee")
        },
    );
    format!(
        "{} guaranteed, {} at most; {wait}{}",
        rate(class.guaranteed.wire),
        rate(class.maximum.wire),
        if class.default { "; default" } else { "" }
    )
}

/// Returns a rate in bits per second as text of at most nine columns.
pub fn human(rate: f64) -> String {
    match rate {
        rate if rate >= 1e9 => format!("{:.2} Gbit", rate / 1e9),
        rate if rate >= 1e6 => format!("{:.2} Mbit", rate / 1e6),
        rate if rate >= 1e3 => format!("{:.1} kbit", rate / 1e3),
        rate => format!("{rate:.0} bit"),
    }
}

fn rate(rate: Rate) -> String {
    format!("{}/s", human(rate.as_bits_per_second() as f64))
}
