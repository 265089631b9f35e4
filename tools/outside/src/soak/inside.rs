// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs the soak in the guest: a router with the dormitory's policy between two namespaces. Every
//! command runs in turn, with occasional faults, and everything is checked after each.

use super::commands::{ended, said, started, weirgate};
use super::files::POLICIES;
use super::judge::{Expected, shown, wrong};
use super::look::{Counts, Memory, Process};
use super::network;
use super::promises::bounds;
use super::steps::STEPS;
use super::traffic::{Servers, Waited};
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::fs;
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

/// The interval between commands.
const ROUND: Duration = Duration::from_mins(1);

/// The time in which the kernel frees programs and maps after the services have ended.
const FREED: Duration = Duration::from_secs(10);

/// `keep` and `watch` are ended in one of this many turns, so that they live for hours otherwise.
const SPARED: usize = 4;

/// The names of the last step of a turn, and of the end of the run.
pub const REMOVE: &str = "remove";
pub const END: &str = "the end";

/// The result of a round.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Round {
    /// The step's name.
    pub step: String,
    /// The virtual time of the look, in seconds since the begin.
    pub at: f64,
    /// Deviations from the expected state.
    pub faults: Vec<String>,
    pub counts: Counts,
    pub memory: Memory,
    /// The services, and processes that the step itself started.
    pub processes: Vec<Process>,
    /// What the packets of each class had to wait; nothing if no policy was in force.
    pub waited: Vec<Waited>,
}

/// The state of a run.
pub struct Soak {
    pub keep: Child,
    pub watch: Child,
    /// The policy in force.
    pub now: Expected,
    /// The number of the round, and the seed.
    pub number: u64,
    /// Processes that a step started, as they were at the same point of it.
    pub seen: Vec<Process>,
}

/// Runs for `seconds`, and prints a line of JSON for each round. `seed` changes the times at which
/// processes are killed.
pub fn run(seed: u64, seconds: u64) -> Result<()> {
    network::prepare()?;
    let bare = shown()?;
    let servers = Servers::begin()?;
    let bounds = [bounds(POLICIES[0])?, bounds(POLICIES[1])?];
    let before = Counts::now()?;
    let mut soak = Soak {
        keep: started(&["keep"])?,
        watch: started(&["watch"])?,
        now: Expected::Nothing,
        number: seed,
        seen: Vec::new(),
    };
    let mut removed: Option<Counts> = None;
    let begin = Instant::now();
    for (number, step) in (0..).zip(STEPS.iter().cycle()) {
        let at = begin.elapsed();
        if at.as_secs() >= seconds {
            break;
        }
        if step.ends_service && !(number / STEPS.len()).is_multiple_of(SPARED) {
            continue;
        }
        soak.number += 1;
        let mut faults = Vec::new();
        match (step.run)(&mut soak) {
            Ok(now) => soak.now = now,
            Err(error) => faults.push(format!("{error:#}")),
        }
        let waited = match soak.now {
            Expected::Nothing => Vec::new(),
            Expected::Policy(policy) => servers.waited(&bounds[policy])?,
        };
        faults.extend(wrong(soak.now, &bare)?);
        let counts = Counts::now()?;
        if step.name == REMOVE {
            // The services have the same programs and maps after each turn.
            faults.extend(counts.left_over(removed.get_or_insert_with(|| counts.clone())));
        }
        let mut processes = soak.services()?;
        processes.append(&mut soak.seen);
        print(&Round {
            step: step.name.to_owned(),
            at: begin.elapsed().as_secs_f64(),
            faults,
            counts,
            memory: Memory::now()?,
            processes,
            waited,
        })?;
        // This clock is not the one that the test sets.
        thread::sleep((at + ROUND).saturating_sub(begin.elapsed()));
    }
    print(&soak.ended(&before, begin)?)
}

fn print(round: &Round) -> Result<()> {
    println!("{}", serde_json::to_string(round)?);
    Ok(())
}

impl Soak {
    /// Measures `keep`, `watch`, and the process of `watch` that answers browsers.
    fn services(&self) -> Result<Vec<Process>> {
        let (keep, watch) = (self.keep.id(), self.watch.id());
        // Any of its threads may have started it.
        let threads = format!("/proc/{watch}/task");
        let threads = fs::read_dir(&threads).context(threads)?.flatten();
        let lists = threads.map(|thread| fs::read_to_string(thread.path().join("children")));
        let lists: Vec<String> = lists.flatten().collect();
        let web = lists.iter().find_map(|list| list.split_whitespace().next());
        let none = || {
            let said = fs::read_to_string(said("watch")).unwrap_or_default();
            format!("watch has no process for browsers: {said}")
        };
        let web = web.with_context(none)?.parse()?;
        [("keep", keep), ("watch", watch), ("web", web)]
            .map(|(name, number)| Process::of(name, number))
            .into_iter()
            .collect()
    }

    /// Returns the policy that is not in force.
    pub fn other(&self) -> usize {
        usize::from(self.now == Expected::Policy(0))
    }

    /// Removes everything and ends the services: nothing may be left that was not there before
    /// they began.
    fn ended(self, before: &Counts, begin: Instant) -> Result<Round> {
        let mut faults = Vec::new();
        if self.now != Expected::Nothing {
            weirgate(&["remove"], &[0])?;
        }
        for (service, name) in [(self.watch, "watch"), (self.keep, "keep")] {
            if let Err(error) = ended(service, name) {
                faults.push(format!("{error:#}"));
            }
        }
        thread::sleep(FREED);
        let counts = Counts::now()?;
        faults.extend(counts.left_over(before));
        Ok(Round {
            step: END.to_owned(),
            at: begin.elapsed().as_secs_f64(),
            faults,
            counts,
            memory: Memory::now()?,
            processes: Vec::new(),
            waited: Vec::new(),
        })
    }
}
