// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Commands, guards and `keep` run at the same time in random order, with processes that are
//! stopped, continued and killed. For any order, the kernel has exactly the state that the history
//! says is in force. Only a rollback undoes a confirmed state.
//!
//! `WEIRGATE_ROUNDS` is the number of orders, `WEIRGATE_SEED` selects them.

#![allow(clippy::print_stdout, reason = "which orders were tried")]

use crate::apply::safe::{Keeper, guards, within};
use crate::namespace::{Namespace, same};
use crate::program::{Ended, WEIRGATE, root};
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;
use weirgate_experiment::Random;

const POLICIES: [&str; 3] = ["upstream.toml", "both.toml", "changed.toml"];

/// Orders for each network namespace, whose history then has few entries.
const EACH: u64 = 10;

/// The latest event of a round, in milliseconds.
const LATEST: u64 = 1_400;

/// An event of a round.
#[derive(Debug, Clone, Copy)]
enum Event {
    /// A policy that waits a second for confirmation.
    ApplyUntil(&'static str),
    Apply(&'static str),
    Confirm,
    Rollback,
    /// A signal to all guards.
    Guards(&'static str),
    /// `keep` is killed and started again.
    Keep,
}

fn drawn(random: &mut Random) -> Event {
    let policy = POLICIES[(random.bits() % 3) as usize];
    match random.bits() % 10 {
        0..=2 => Event::ApplyUntil(policy),
        3 => Event::Apply(policy),
        4 => Event::Confirm,
        5 => Event::Rollback,
        6 => Event::Guards("-KILL"),
        7 => Event::Guards("-STOP"),
        8 => Event::Guards("-CONT"),
        _ => Event::Keep,
    }
}

fn signal(which: &str, namespace: &Namespace) {
    let all = guards(namespace);
    if !all.is_empty() {
        // A process that has already ended is no error.
        let _ = Command::new("kill")
            .arg(which)
            .args(all)
            .stderr(Stdio::null())
            .status();
    }
}

fn begun(namespace: &Namespace, words: &[&str]) -> Child {
    let mut command = namespace.command(WEIRGATE);
    for word in words {
        if POLICIES.contains(word) {
            command.arg(root().join("tests/cli").join(word));
        } else {
            command.arg(word);
        }
    }
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// Returns the contents of the history: the policy in force, and the result of each number.
fn history(namespace: &Namespace) -> (Option<(u64, String)>, BTreeMap<u64, String>) {
    let text = namespace.weirgate("history --json").out;
    let all: Vec<Value> = serde_json::from_str(&text).unwrap();
    let mut fates = BTreeMap::new();
    let mut in_force = None;
    for entry in &all {
        let number = entry["state"].as_u64().unwrap();
        let fate = entry["outcome"].as_str().unwrap().to_owned();
        if fate == "in force" {
            let source = entry["policy"].as_str().unwrap_or_default();
            let name = source.rsplit('/').next().unwrap_or_default();
            in_force = Some((number, name.to_owned()));
        }
        fates.insert(number, fate);
    }
    (in_force, fates)
}

/// The number after `state ` in a message of success.
fn number_in(message: &str) -> Option<u64> {
    let (_, after) = message.split_once("state ")?;
    after
        .split(|one: char| !one.is_ascii_digit())
        .next()?
        .parse()
        .ok()
}

struct Round<'a> {
    namespace: &'a Namespace,
    keeper: Option<Keeper>,
    /// States that a command reported as confirmed, unordered.
    confirmed: Vec<u64>,
    has_rollback: bool,
}

impl Round<'_> {
    fn ended(&mut self, event: Event, child: Child) {
        let ended = Ended::of(&child.wait_with_output().unwrap());
        // A command that changed nothing reports no number.
        if ended.status == 0 && matches!(event, Event::Apply(_) | Event::Confirm) {
            self.confirmed.extend(number_in(&ended.err));
        }
    }

    fn play(&mut self, random: &mut Random) -> Vec<(u64, Event)> {
        let count = 3 + random.bits() % 5;
        let mut events: Vec<(u64, Event)> = (0..count)
            .map(|_| (random.bits() % LATEST, drawn(random)))
            .collect();
        events.sort_by_key(|(at, _)| *at);
        let (mut now, mut running) = (0, Vec::new());
        for &(at, event) in &events {
            sleep(Duration::from_millis(at - now));
            now = at;
            let words: &[&str] = match event {
                Event::ApplyUntil(policy) => &["apply", "--confirm", "1s", policy],
                Event::Apply(policy) => &["apply", policy],
                Event::Confirm => &["confirm"],
                Event::Rollback => {
                    self.has_rollback = true;
                    &["rollback"]
                }
                Event::Guards(which) => {
                    signal(which, self.namespace);
                    continue;
                }
                Event::Keep => {
                    self.keeper = None;
                    self.keeper = Some(Keeper::new(self.namespace));
                    continue;
                }
            };
            running.push((event, begun(self.namespace, words)));
        }
        for (event, child) in running {
            self.ended(event, child);
        }
        signal("-CONT", self.namespace);
        events
    }
}

/// Plays `count` orders; returns the number of states confirmed in them.
fn rounds(seed: u64, count: u64) -> usize {
    let mut confirmed = 0;
    for group in 0..count.div_ceil(EACH) {
        let namespace = Namespace::new();
        let shown: BTreeMap<&str, String> = POLICIES
            .into_iter()
            .map(|policy| {
                namespace.weirgate(&format!("apply {policy}")).says(0, &[]);
                (policy, namespace.snapshot())
            })
            .collect();
        for number in group * EACH..count.min((group + 1) * EACH) {
            let mut random = Random::of_flow(seed, "race", number.try_into().unwrap());
            let mut round = Round {
                namespace: &namespace,
                keeper: random
                    .bits()
                    .is_multiple_of(2)
                    .then(|| Keeper::new(&namespace)),
                confirmed: Vec::new(),
                has_rollback: false,
            };
            let events = round.play(&mut random);
            within(Duration::from_secs(5), "end of the guards", || {
                guards(&namespace).is_empty()
            });
            round.keeper = None;
            // A change whose guard was killed waits until a command takes it back.
            namespace.weirgate("rollback --waiting").says(0, &[]);
            let (in_force, fates) = history(&namespace);
            let (last, policy) = in_force.unwrap_or_else(|| panic!("{events:?}: {fates:?}"));
            println!("{number}: {events:?}: state {last}, {policy}");
            same(&shown[policy.as_str()], &namespace.snapshot());
            for own in &round.confirmed {
                let fate = &fates[own];
                assert!(
                    matches!(fate.as_str(), "in force" | "was in force"),
                    "state {own}: {fate}: {events:?}"
                );
                assert!(
                    *own <= last || round.has_rollback,
                    "state {own} was confirmed: {events:?}"
                );
            }
            confirmed += round.confirmed.len();
        }
    }
    confirmed
}

fn stated(variable: &str, otherwise: u64) -> u64 {
    let stated = std::env::var(variable).ok();
    stated.map_or(otherwise, |text| text.parse().unwrap())
}

#[test]
fn no_order_of_processes_undoes_what_is_confirmed() {
    rounds(1, 3);
}

mod long {
    #[test]
    fn no_order_of_processes_undoes_what_is_confirmed() {
        let (seed, count) = (
            super::stated("WEIRGATE_SEED", 2),
            super::stated("WEIRGATE_ROUNDS", 100),
        );
        let confirmed = super::rounds(seed, count);
        println!("{confirmed} states were confirmed in {count} orders");
        assert!(confirmed > 0);
    }
}
