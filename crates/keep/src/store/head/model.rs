// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Searches, breadth first, every order in which writers, guards, the service and a reboot can
//! reach the decisions of [`Head`].
//!
//! A process makes one small step at a time, and any other process may make steps in between. So a
//! stopped or slow process is one that makes no step for a while. A crash ends a process between
//! two steps, and releases its lock.
//!
//! Asserted in every world: the confirmed state is never older than one that was confirmed before,
//! and what a command reported as done stays done. If the lock is free and nothing is pending, the
//! kernel holds exactly the confirmed state. From every world the service reaches that state once
//! the deadline of the pending change has passed.
//!
//! Not modelled: damaged or deleted files (tests of `history`), a lost lock file (the fencing test
//! of `tests/cli/apply/late.rs`), two guards of one change, `remove`, refills of sets, and
//! circuits. How long a step takes is not modelled either: the service's quarter of a second stands
//! for any time.
//!
//! Over 500 lines, because the steps of a process mean nothing without the world that they change.

use super::{Head, Outcome, Standing};
use proptest::prelude::*;
use std::collections::HashSet;

/// How long a change waits for confirmation, in ticks.
const WAIT: u64 = 2;

/// What the kernel holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kernel {
    /// The state of this entry; 0 for nothing of weirgate's.
    Whole(u64),
    /// Something between two states.
    Half,
    /// Something between nothing, after a reboot, and the confirmed state.
    Unmended,
}

/// The task of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Task {
    Apply,
    ApplyUntilConfirmed,
    Confirm,
    Rollback,
    Boot,
    Keep,
    /// Guards the change of the process with this index.
    Guard {
        maker: usize,
    },
}

/// The next step of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Next {
    Lock,
    Decide,
    /// From here on nobody can confirm the change.
    Recall,
    /// Restores the first half of the confirmed state.
    Restore,
    Restored,
    Settle,
    Begin,
    Change,
    Changed,
    Keep,
    /// Tells the guard that the change is complete.
    Tell,
    Confirm,
    Unlock,
    End,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Process {
    task: Task,
    next: Next,
    /// The change that it makes or guards.
    number: u64,
    /// What a guard knows: the kernel and the head before the change, and later the deadline.
    before: Kernel,
    begun: Head,
    until: Option<u64>,
    /// The change that it reports as done when it ends.
    done: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct World {
    head: Head,
    kernel: Kernel,
    boot: u8,
    now: u64,
    newest: u64,
    lock: Option<usize>,
    processes: Vec<Process>,
    crashes: u8,
    restarts: u8,
    /// The newest change that a command reported as in force.
    reported: u64,
    /// Whether guards read the head before they act.
    fenced: bool,
}

/// What can happen in a world.
#[derive(Debug, Clone, Copy)]
enum Event {
    Step(usize),
    Crash(usize),
    Tick,
    Restart,
}

impl World {
    fn new(tasks: &[Task], crashes: u8, restarts: u8) -> Self {
        let mut world = Self {
            head: Head::default(),
            kernel: Kernel::Whole(1),
            boot: 0,
            now: 1,
            newest: 1,
            lock: None,
            processes: Vec::new(),
            crashes,
            restarts,
            reported: 1,
            fenced: true,
        };
        // A first state is in force.
        world.head.generation = 1;
        world.head.confirmed = Some(1);
        for task in tasks.iter().chain([&Task::Keep]) {
            world.start(*task);
        }
        world
    }

    fn start(&mut self, task: Task) {
        self.processes.push(Process {
            task,
            next: Next::Lock,
            number: 0,
            before: self.kernel,
            begun: Head::default(),
            until: None,
            done: None,
        });
    }

    fn boot(&self) -> String {
        self.boot.to_string()
    }

    fn standing(&self) -> Standing {
        self.head.standing(&self.boot(), self.now)
    }

    fn wanted(&self) -> Kernel {
        Kernel::Whole(self.head.confirmed.unwrap_or(0))
    }

    fn events(&self) -> Vec<Event> {
        let mut events = Vec::new();
        for (index, process) in self.processes.iter().enumerate() {
            if process.next == Next::End {
                continue;
            }
            if self.may_step(index) {
                events.push(Event::Step(index));
            }
            if self.crashes > 0 {
                events.push(Event::Crash(index));
            }
        }
        // Advance the time only if that makes a difference.
        let pending = self.head.pending.as_ref();
        let deadline = pending.and_then(|pending| pending.deadline);
        if deadline.is_some_and(|deadline| self.now < deadline) {
            events.push(Event::Tick);
        }
        if self.restarts > 0 {
            events.push(Event::Restart);
        }
        events
    }

    fn may_step(&self, index: usize) -> bool {
        let process = &self.processes[index];
        if process.next != Next::Lock {
            return true;
        }
        if self.lock.is_some() {
            return false;
        }
        match process.task {
            Task::Guard { maker } => match process.until {
                Some(until) => self.now >= until,
                None => self.processes[maker].next == Next::End,
            },
            // The service sleeps while there is nothing to do.
            Task::Keep => match self.standing() {
                Standing::Settled => self.kernel != self.wanted(),
                Standing::Waiting(_) => false,
                Standing::Due | Standing::Restarted => true,
            },
            _ => true,
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Tick => self.now += 1,
            Event::Step(index) => self.step(index),
            Event::Crash(index) => {
                self.crashes -= 1;
                self.end(index);
            }
            Event::Restart => {
                self.restarts -= 1;
                self.boot += 1;
                self.now = 1;
                self.kernel = Kernel::Whole(0);
                for index in 0..self.processes.len() {
                    self.end(index);
                }
                self.start(Task::Boot);
                self.start(Task::Apply);
                self.start(Task::Keep);
            }
        }
        // Outcomes influence no decision; clearing them makes worlds equal.
        self.head.outcomes.clear();
    }

    fn end(&mut self, index: usize) {
        // Reset what it knew, so that worlds that differ only in that are equal.
        let ended = &mut self.processes[index];
        *ended = Process {
            task: ended.task,
            next: Next::End,
            number: 0,
            before: Kernel::Half,
            begun: Head::default(),
            until: None,
            done: None,
        };
        if self.lock == Some(index) {
            self.lock = None;
        }
    }

    fn set_head(&mut self, head: Head) {
        assert!(head.generation >= self.head.generation, "an older head");
        assert!(head.confirmed >= self.head.confirmed, "undone: {self:?}");
        self.head = head;
    }

    fn step(&mut self, index: usize) {
        let process = self.processes[index].clone();
        let next = match (process.task, process.next) {
            (_, Next::Lock) => {
                self.lock = Some(index);
                Next::Decide
            }
            (Task::Guard { .. }, Next::Decide) => {
                let found = Some(self.head.clone());
                match Head::for_guard(found, &process.begun) {
                    None if self.fenced => Next::Unlock,
                    _ => Next::Recall,
                }
            }
            (task, Next::Decide) => self.decide(task),
            (_, Next::Recall) => {
                let mut head = self.head.clone();
                head.recall(&self.boot(), self.now);
                self.set_head(head);
                Next::Restore
            }
            (_, Next::Restore) => {
                self.kernel = match self.standing() {
                    Standing::Due => Kernel::Half,
                    _ => Kernel::Unmended,
                };
                Next::Restored
            }
            (task, Next::Restored) => {
                self.kernel = match task {
                    Task::Guard { .. } => process.before,
                    _ => self.wanted(),
                };
                Next::Settle
            }
            (task, Next::Settle) => {
                let mut head = self.head.clone();
                if let (Task::Guard { .. }, false) = (task, self.fenced) {
                    head = process.begun;
                }
                if matches!(task, Task::Rollback) {
                    if let Some(pending) = head.pending.clone() {
                        head.settle(pending.number, Outcome::TakenBack);
                    }
                } else {
                    head.lapse();
                }
                self.set_head(head);
                match task {
                    Task::Apply | Task::ApplyUntilConfirmed => Next::Begin,
                    _ => Next::Unlock,
                }
            }
            (_, Next::Begin) => self.begin(index),
            (_, Next::Change) => {
                assert!(self.head.awaits(process.number), "{self:?}");
                self.kernel = Kernel::Half;
                Next::Changed
            }
            (_, Next::Changed) => {
                self.kernel = Kernel::Whole(process.number);
                Next::Keep
            }
            (task, Next::Keep) => {
                let mut head = self.head.clone();
                let until = self.now + WAIT;
                match (task, head.pending.as_mut()) {
                    (Task::ApplyUntilConfirmed, Some(pending)) => pending.deadline = Some(until),
                    _ => head.settle(process.number, Outcome::Confirmed),
                }
                self.set_head(head);
                Next::Tell
            }
            (task, Next::Tell) => {
                self.tell(index);
                if task == Task::Apply {
                    self.processes[index].done = Some(process.number);
                }
                Next::Unlock
            }
            (_, Next::Confirm) => {
                let mut head = self.head.clone();
                if let Some(pending) = head.pending.clone() {
                    head.settle(pending.number, Outcome::Confirmed);
                    self.processes[index].done = Some(pending.number);
                }
                self.set_head(head);
                Next::Unlock
            }
            (Task::Keep, Next::Unlock) => {
                self.lock = None;
                Next::Lock
            }
            (_, Next::Unlock) => {
                self.reported = self.reported.max(process.done.unwrap_or(0));
                self.end(index);
                Next::End
            }
            (_, Next::End) => Next::End,
        };
        self.processes[index].next = next;
    }

    /// Tells the guard of a process that the change is complete.
    fn tell(&mut self, index: usize) {
        let pending = self.head.pending.clone();
        let until = pending.and_then(|pending| pending.deadline);
        let guard = self.processes.iter().position(|other| {
            let its = matches!(other.task, Task::Guard { maker } if maker == index);
            its && other.next != Next::End
        });
        if let Some(guard) = guard {
            self.processes[guard].until = until;
            if until.is_none() {
                self.end(guard);
            }
        }
    }

    /// Returns the first step of a process under the lock; guards are handled elsewhere.
    fn decide(&self, task: Task) -> Next {
        match (self.standing(), task) {
            (Standing::Restarted, Task::Apply | Task::ApplyUntilConfirmed) => Next::Settle,
            (Standing::Due | Standing::Restarted, _)
            | (Standing::Settled, Task::Boot | Task::Keep) => Next::Restore,
            (Standing::Waiting(_), Task::Confirm) => Next::Confirm,
            (Standing::Waiting(_), Task::Rollback | Task::Boot) => Next::Recall,
            (Standing::Settled, Task::Apply | Task::ApplyUntilConfirmed) => Next::Begin,
            _ => Next::Unlock,
        }
    }

    /// Begins a change, with a guard. Each process begins at most one.
    fn begin(&mut self, index: usize) -> Next {
        let number = self.head.next(Some(self.newest));
        self.newest = number;
        let before = self.kernel;
        let mut head = self.head.clone();
        head.begin(number, &self.boot());
        self.set_head(head.clone());
        self.processes[index].number = number;
        self.processes.push(Process {
            task: Task::Guard { maker: index },
            next: Next::Lock,
            number,
            before,
            begun: head,
            until: None,
            done: None,
        });
        Next::Change
    }

    /// Returns what is wrong with this world.
    fn fault(&self) -> Option<&'static str> {
        if self.head.confirmed.unwrap_or(0) < self.reported {
            return Some("what was reported as done is undone");
        }
        if self.lock.is_some() {
            return None;
        }
        let unmended = matches!(self.kernel, Kernel::Whole(0) | Kernel::Unmended);
        let restarted = self.boot > 0 && unmended;
        match (self.standing(), &self.head.pending) {
            (Standing::Settled, _) if self.kernel != self.wanted() && !restarted => {
                Some("the kernel does not hold the confirmed state")
            }
            (Standing::Waiting(_), Some(pending))
                if self.kernel != Kernel::Whole(pending.number) =>
            {
                Some("the kernel does not hold what waits for confirmation")
            }
            _ => None,
        }
    }

    /// Checks that the service reaches the confirmed state once it had the time it needs.
    fn in_the_end(&self) -> Option<&'static str> {
        let mut world = self.clone();
        world.now += WAIT;
        if world.lock.is_none() {
            world.start(Task::Keep);
            let keep = world.processes.len() - 1;
            while world.may_step(keep) {
                world.happen(Event::Step(keep));
            }
            if world.kernel != world.wanted() || world.standing() != Standing::Settled {
                return Some("the service does not reach the confirmed state");
            }
        }
        None
    }
}

/// Returns how many worlds can be reached, or the first fault with its world.
fn search(first: World) -> Result<usize, String> {
    let mut seen = HashSet::from([first.clone()]);
    let mut worlds = vec![first];
    while !worlds.is_empty() {
        let mut reached = Vec::new();
        for world in worlds {
            if let Some(fault) = world.fault().or_else(|| world.in_the_end()) {
                return Err(format!("{fault}: {world:#?}"));
            }
            for event in world.events() {
                let mut after = world.clone();
                after.happen(event);
                if seen.insert(after.clone()) {
                    reached.push(after);
                }
            }
        }
        worlds = reached;
    }
    Ok(seen.len())
}

const TASKS: [Task; 4] = [
    Task::Apply,
    Task::ApplyUntilConfirmed,
    Task::Confirm,
    Task::Rollback,
];

#[test]
fn no_order_of_events_undoes_what_is_confirmed() {
    let mut all = 0;
    for third in TASKS {
        let tasks = [Task::ApplyUntilConfirmed, Task::Apply, third];
        let found = search(World::new(&tasks, 2, 1)).unwrap_or_else(|fault| panic!("{fault}"));
        println!("{third:?}: {found} worlds");
        all += found;
    }
    assert!(all > 10_000, "{all}");
}

/// Runs a confirmation beside two changes that wait for one. It confirms one of them, and never one
/// that is taken back.
#[test]
fn a_confirmation_beside_two_changes_confirms_one_of_them() {
    let tasks = [
        Task::ApplyUntilConfirmed,
        Task::ApplyUntilConfirmed,
        Task::Confirm,
    ];
    let found = search(World::new(&tasks, 2, 1)).unwrap_or_else(|fault| panic!("{fault}"));
    println!("{found} worlds");
    assert!(found > 10_000, "{found}");
}

/// Checks that the model detects a guard that acts before it reads the head.
#[test]
fn a_guard_that_does_not_read_the_head_is_found_out() {
    let mut world = World::new(&[Task::ApplyUntilConfirmed, Task::Apply], 0, 0);
    world.fenced = false;
    let found = std::panic::catch_unwind(|| search(world));
    assert!(!matches!(found, Ok(Ok(_))), "{found:?}");
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 10_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Runs more writers and more crashes than can be searched exhaustively.
    #[test]
    fn random_interleavings_are_exact(
        tasks in proptest::collection::vec(proptest::sample::select(&TASKS[..]), 3..8),
        choices in proptest::collection::vec(any::<u32>(), 20..200),
    ) {
        let mut world = World::new(&tasks, 4, 2);
        for choice in choices {
            let mut events = world.events();
            // Keep crashes and restarts rare, so that processes get far enough.
            if choice >> 16 & 7 != 0 {
                events.retain(|event| matches!(event, Event::Step(_) | Event::Tick));
            }
            let Some(event) = events.get(choice as usize % events.len().max(1)) else {
                continue;
            };
            world.happen(*event);
            prop_assert_eq!(world.fault().or_else(|| world.in_the_end()), None);
        }
    }
}
