// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Traffic sources for the model, and evaluation of its output.

use crate::htb::{Left, Machine};
use weirgate_compile::{Bound, CheckReport, ClassReport, FullQueue, check_report, compile};
use weirgate_policy::{Direction, Policy, parse};
use weirgate_state::{Capabilities, Qdisc, State};

pub const MS: u64 = 1_000_000;
pub const SECOND: u64 = 1_000 * MS;

/// A policy with its report and its compiled state.
pub struct Site {
    pub policy: Policy,
    pub report: CheckReport,
    pub state: State,
}

impl Site {
    pub fn new(source: &str) -> Self {
        let (policy, problems) = parse(source);
        let policy = policy.unwrap_or_else(|| panic!("{problems:#?}\n{source}"));
        let (state, problems) = compile(&policy, &Capabilities::all());
        let state = state.unwrap_or_else(|| panic!("{problems:#?}\n{source}"));
        let report = check_report(&policy);
        Self {
            policy,
            report,
            state,
        }
    }

    /// Returns a policy for the upstream of the line of ADSL-6.2: name, share, priority, burst.
    pub fn adsl(classes: &[(&str, &str, u8, u64)]) -> Self {
        let mut source = "version = 1\n[link]\ndevice = \"wan\"\nlan = \"lan\"\nup = \"512kbit\"\n\
                          layer = \"adsl:bridged-vc-fcs\"\nmargin = \"1kbit\"\n"
            .to_owned();
        for (at, (name, share, priority, burst)) in classes.iter().enumerate() {
            use std::fmt::Write;
            let default = at + 1 == classes.len();
            writeln!(
                source,
                "[[class]]\nname = \"{name}\"\nshare = \"{share}\"\npriority = {priority}\n\
                 burst = {burst}\nqueue = \"bfifo 28125\"\ndefault = {default}"
            )
            .expect("a string");
        }
        Self::new(&source)
    }

    pub fn root(&self) -> &Qdisc {
        let device = &self.policy.link.device.value;
        self.state.devices[device]
            .root
            .as_ref()
            .expect("a root qdisc")
    }

    pub fn machine(&self) -> Machine {
        Machine::new(self.root())
    }

    /// Returns the classes in the machine's order.
    pub fn classes(&self) -> &[ClassReport] {
        assert_eq!(self.report.directions[0].direction, Direction::Up);
        &self.report.directions[0].classes
    }

    pub fn lone(&self, class: usize) -> u64 {
        bound(self.classes()[class].lone.as_ref())
    }

    pub fn within(&self, class: usize) -> u64 {
        bound(self.classes()[class].within.as_ref())
    }

    pub fn full(&self, class: usize) -> u64 {
        match &self.classes()[class].full {
            FullQueue::Bound(bound) => bound.wait.as_nanos(),
            FullQueue::NoHardBound { reason } => panic!("{reason}"),
        }
    }
}

/// Returns the longest wait of a class's packets that arrived from `since` on.
pub fn longest(left: &[Left], class: usize, since: u64) -> u64 {
    let of_class = left.iter().filter(|left| left.packet.class == class);
    let waits = of_class
        .filter(|left| left.packet.arrived >= since)
        .map(|left| left.at - left.packet.arrived);
    waits.max().unwrap_or(0)
}

/// Fills a class's queue with packets of one size.
pub fn fill(machine: &mut Machine, class: usize, bytes: u32) {
    while machine.arrive(class, bytes).is_some() {}
}

/// Runs until `until`, keeping the queues of `classes` full.
pub fn saturate(machine: &mut Machine, classes: &[(usize, u32)], until: u64) -> Vec<Left> {
    let mut left = Vec::new();
    while machine.now < until {
        for (class, bytes) in classes {
            fill(machine, *class, *bytes);
        }
        // A tenth of a small packet's time, so that no queue runs empty in between.
        let step = (machine.now + MS / 5).min(until);
        left.extend(machine.run(step));
    }
    left
}

/// Returns a bound that the tree always has.
fn bound(bound: Option<&Bound>) -> u64 {
    bound.expect("a bound").wait.as_nanos()
}
