// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compares decisions of the kernel's and the kit's disciplines about the same packets.
//!
//! Both get the same packets, times and random words. After a difference, all later decisions may
//! differ too, so an episode counts only up to its first difference.

mod cases;
mod event;
mod kernel;
mod kit;
mod traffic;

use crate::page::selected;
use anyhow::Result;
use cases::{Case, PAUSE, Why, cases};
use event::{ARRIVE, BEGIN, CE, Event, Outcome};
use kernel::{Kernel, Replaced};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use traffic::{Kind, episode};

/// How many episodes the kernel's program gets at once.
const BATCH: u64 = 100;

/// The permitted relative difference in drops between two implementations, as a part of the
/// kernel's.
const MOST_APART: f64 = 0.01;

/// The outcome of a case with one kind of traffic.
#[derive(Default)]
struct Tally {
    /// The decisions up to and including a first difference.
    decisions: u64,
    episodes: u64,
    different: u64,
    /// How many of them have their first difference after a pause that exceeds what the kit makes
    /// up for.
    paused: u64,
    /// All packets that were dropped or marked, also after a difference.
    acted: [u64; 2],
    /// The first difference.
    example: Option<String>,
}

/// The result of a comparison.
pub struct Compared {
    /// A table with a row for each case.
    pub table: String,
    /// Why disciplines differ.
    pub explained: String,
    /// Differences without an explanation in [`cases`].
    pub unexplained: Vec<String>,
}

/// Compares each discipline in each case. `decisions` is the number of decisions of each
/// discipline.
///
/// # Errors
///
/// Fails if a source cannot be compiled.
pub fn compare(source: &Path, decisions: u64, seed: u64, only: &[String]) -> Result<Compared> {
    let all = named(only)?;
    let kernel = Kernel::new(source)?;
    let mut table = format!(
        "Linux {}, seed {seed}.\n\n\
         | discipline | case | traffic | decisions | episodes | that differ | \
         dropped or marked by the kernel | by the kit |\n\
         |---|---|---|--:|--:|--:|--:|--:|\n",
        version(source)?
    );
    let mut unexplained = Vec::new();
    let mut paused = Vec::new();
    for case in &all {
        let same = |other: &&Case| other.discipline() == case.discipline();
        let share = (all.iter().filter(same).count() * Kind::ALL.len()) as u64;
        for (replaced, name) in ways(case) {
            let program = kernel.compile(case.discipline(), replaced)?;
            for kind in Kind::ALL {
                let tally = run(case, kind, &program, decisions.div_ceil(share), seed)?;
                let line = format!("{} | {name} | {}", case.discipline(), kind.name());
                let row = format!("| {line} | {}", tally.cells());
                eprintln!("{row}");
                table += &(row + "\n");
                if tally.paused > 0 && !replaced.is_empty() {
                    paused.push(format!("{line}: {} episodes: {PAUSE}", tally.paused));
                }
                if let Some(what) = tally.unexplained(case.why, replaced.is_empty()) {
                    unexplained.push(format!("{line}: {what}"));
                }
            }
        }
    }
    let mut explained = explained(&all);
    for line in paused {
        let _ = writeln!(explained, "\n- {line}.");
    }
    Ok(Compared {
        table,
        explained,
        unexplained,
    })
}

/// Returns the cases whose name or discipline is each of these.
fn named(only: &[String]) -> Result<Vec<Case>> {
    let mut all = cases()?;
    all.retain(|case| {
        let named = |name: &String| name == case.discipline() || name == case.name;
        only.iter().all(named)
    });
    selected(all, &only.join(" and "))
}

/// Returns the version of a kernel's source, such as `7.3.4`.
///
/// # Errors
///
/// Fails if it has no `Makefile`.
pub fn version(source: &Path) -> Result<String> {
    let text = fs::read_to_string(source.join("Makefile"))?;
    let part = |name: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(name)?.trim().strip_prefix("= "))
            .unwrap_or("0")
    };
    Ok(["VERSION", "PATCHLEVEL", "SUBLEVEL"].map(part).join("."))
}

/// Returns the variants of a case: the kernel's unchanged file, and the file with replacements.
fn ways(case: &Case) -> Vec<(&'static [Replaced], String)> {
    let mut ways: Vec<(&[Replaced], String)> = vec![(&[], case.name.to_owned())];
    if let Why::Lines(places) | Why::Method(places, _) = case.why {
        let count = places.len();
        if count > 0 {
            ways.push((places, format!("{}, {count} replaced", case.name)));
        }
    }
    ways
}

/// Returns why disciplines differ, once for each.
fn explained(cases: &[Case]) -> String {
    let mut out = String::new();
    let mut explained = Vec::new();
    for case in cases {
        if explained.contains(&case.discipline()) {
            continue;
        }
        explained.push(case.discipline());
        let (places, method) = match case.why {
            Why::Equal => (&[][..], None),
            Why::Lines(places) => (places, None),
            Why::Method(places, text) => (places, Some(text)),
        };
        for why in places.iter().map(|place| place.why).chain(method) {
            let _ = writeln!(out, "\n- `{}`: {why}.", case.discipline());
        }
    }
    out
}

fn run(case: &Case, kind: Kind, program: &Path, decisions: u64, seed: u64) -> Result<Tally> {
    let arguments = case.arguments();
    let mut tally = Tally::default();
    while tally.decisions < decisions {
        let numbers = tally.episodes..tally.episodes + BATCH;
        let events: Vec<Event> = numbers
            .flat_map(|number| episode(kind, seed, number, case.update_ns()))
            .collect();
        let kernel = kernel::decide(program, &arguments, &events)?;
        let kit = kit::decide(&case.settings, &case.link, &events);
        let mut first = 0;
        for end in 1..=events.len() {
            if end == events.len() || events[end].kind == BEGIN {
                let sides = [&kernel[first..end], &kit[first..end]];
                tally.count(&events[first..end], sides, case.longest_pause_ns());
                first = end;
            }
        }
    }
    Ok(tally)
}

impl Tally {
    /// Counts one episode; `longest_ns` is the longest pause for which the kit makes up.
    fn count(&mut self, events: &[Event], [kernel, kit]: [&[Outcome]; 2], longest_ns: u64) {
        let number = self.episodes;
        self.episodes += 1;
        for (side, outcomes) in [kernel, kit].into_iter().enumerate() {
            self.acted[side] += acted(events, outcomes);
        }
        let differs = kernel.iter().zip(kit).position(|(one, other)| one != other);
        let seen = differs.map_or(events.len(), |index| index + 1);
        self.decisions += events[..seen]
            .iter()
            .zip(kernel)
            // A free link with an empty queue requires no decision.
            .filter(|(event, outcome)| event.kind == ARRIVE || **outcome != Outcome::default())
            .count() as u64;
        let Some(index) = differs else { return };
        self.different += 1;
        let mut pairs = events[..=index].windows(2);
        if pairs.any(|pair| pair[1].now_ns - pair[0].now_ns > longest_ns) {
            self.paused += 1;
            return;
        }
        self.example.get_or_insert_with(|| {
            format!(
                "episode {number}, event {index}: {:?}\n  kernel {:?}\n  kit    {:?}",
                events[index], kernel[index], kit[index]
            )
        });
    }

    fn cells(&self) -> String {
        let [kernel, kit] = self.acted;
        format!(
            "{} | {} | {} | {kernel} | {kit} |",
            self.decisions, self.episodes, self.different
        )
    }

    /// Returns the differences that the case's explanation does not cover. `as_is` means that the
    /// kernel's file is unchanged.
    fn unexplained(&self, why: Why, as_is: bool) -> Option<String> {
        let [kernel, kit] = self.acted.map(|count| count as f64);
        match why {
            Why::Lines(places) | Why::Method(places, _) if as_is && !places.is_empty() => None,
            Why::Equal | Why::Lines(_) => self.example.clone(),
            Why::Method(..) if (kernel - kit).abs() <= MOST_APART * kernel => None,
            Why::Method(..) => Some(format!("{kernel} and {kit} dropped or marked")),
        }
    }
}

/// Returns how many packets were dropped, or marked without having arrived marked.
fn acted(events: &[Event], outcomes: &[Outcome]) -> u64 {
    let mut came = vec![0];
    let mut count = 0;
    for (event, outcome) in events.iter().zip(outcomes) {
        count += u64::from(outcome.dropped);
        if event.kind == ARRIVE {
            came.push(event.ecn);
        } else if outcome.marked == CE && came.get(outcome.id as usize) != Some(&CE) {
            count += 1;
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_no_case_is_an_error() {
        let of = |name: &str| named(&[name.to_owned()]).map(|all| all.len()).ok();
        assert!(of("pie") > Some(1));
        assert_eq!(of("pi"), None);
    }
}
