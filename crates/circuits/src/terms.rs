// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The terms of a plan at a given time, also for a circuit that has used up its quota.

use crate::model::{Circuit, List, Pair, Plan, SUSPENDED, Terms, Times};
use std::collections::BTreeMap;
use std::ops::Range;
use weirgate_units::{Direction, Inserted as _, Rate};

/// Seconds in a day.
const DAY: u64 = 86_400;

/// The inputs that decide which terms apply: the time, the direction, and the used quotas.
pub struct TermsContext<'m> {
    /// Unix time in seconds.
    pub at: u64,
    /// The direction in which the device sends.
    pub direction: Direction,
    /// Returns the bytes that a circuit has used in this direction since the month began.
    pub used: &'m dyn Fn(&str) -> u64,
}

impl Plan {
    /// Returns the terms at a Unix time in seconds.
    pub fn at(&self, at: u64) -> Terms {
        self.now(at).map_or(self.terms, |times| times.terms)
    }

    /// Returns the special hours of the plan that include this time, if any.
    pub fn now(&self, at: u64) -> Option<&Times> {
        self.times.iter().find(|times| times.schedule.holds(at))
    }

    /// Returns whether the plan has a quota in a direction.
    pub fn has_quota(&self, direction: Direction) -> bool {
        self.quota.most.of(direction).as_bytes() > 0
    }

    /// Returns the terms for the circuit `id`, which depend on how much of the quota it has
    /// used.
    fn of(&self, plans: &BTreeMap<&str, &Self>, context: &TermsContext<'_>, id: &str) -> Terms {
        let own = self.at(context.at);
        let quota = self.quota.most.of(context.direction).as_bytes();
        if quota == 0 || (context.used)(id) < quota {
            return own;
        }
        let beyond = self.quota.beyond.as_deref();
        let beyond = beyond.and_then(|name| plans.get(name));
        let other = beyond.map_or_else(Terms::suspended, |plan| plan.at(context.at));
        own.but(&other, context.direction)
    }
}

impl Terms {
    /// Returns the terms of a suspended circuit.
    fn suspended() -> Self {
        Self {
            most: Pair {
                down: SUSPENDED,
                up: SUSPENDED,
            },
            ..Self::default()
        }
    }

    /// Returns these terms with the rates and burst of one direction taken from `other`.
    fn but(mut self, other: &Self, direction: Direction) -> Self {
        match direction {
            Direction::Down => {
                self.least.down = other.least.down;
                self.most.down = other.most.down;
                self.burst.down = other.burst.down;
            }
            Direction::Up => {
                self.least.up = other.least.up;
                self.most.up = other.most.up;
                self.burst.up = other.burst.up;
            }
        }
        self
    }
}

impl Circuit {
    /// Applies the terms of the circuit's plan in a context. A circuit without a plan is
    /// unchanged.
    pub fn follow(&mut self, plans: &[Plan], context: &TermsContext<'_>) {
        self.take(&by_name(plans), context);
    }

    fn take(&mut self, plans: &BTreeMap<&str, &Plan>, context: &TermsContext<'_>) {
        let name = self.plan.as_deref();
        let Some(plan) = name.and_then(|name| plans.get(name)) else {
            return;
        };
        let terms = plan.of(plans, context, &self.id);
        self.has(&terms);
    }

    /// Replaces the rates that come from the plan, and the burst.
    pub(crate) fn has(&mut self, terms: &Terms) {
        let own: [&mut Rate; 4] = [
            &mut self.least.down,
            &mut self.least.up,
            &mut self.most.down,
            &mut self.most.up,
        ];
        let Terms { least, most, burst } = *terms;
        let of_plan = [least.down, least.up, most.down, most.up];
        for ((own, rate), is) in own.into_iter().zip(of_plan).zip(self.of_plan) {
            if is {
                *own = rate;
            }
        }
        self.burst = burst;
    }
}

fn by_name(plans: &[Plan]) -> BTreeMap<&str, &Plan> {
    plans.iter().map(|plan| (&*plan.name, plan)).inserted()
}

/// Returns the period around `at` during which all terms stay the same. It ends when a plan's
/// hours change or, with quotas, at the end of the month. It begins at `at`, because a clock
/// that is set back can reach other hours.
pub fn holds(plans: &[Plan], at: u64) -> Range<u64> {
    let times = plans.iter().flat_map(|plan| &plan.times);
    let hours = times.map(|times| times.schedule.changes(at));
    let metered = plans.iter().any(|plan| plan.quota.most != Pair::default());
    let month = metered.then(|| Month::of(at).end());
    match hours.chain(month).min() {
        Some(next) => at..next,
        None => 0..u64::MAX,
    }
}

/// A calendar month in UTC, counted from January 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Month(pub u32);

impl Month {
    /// Returns the month of a Unix time in seconds.
    pub fn of(at: u64) -> Self {
        let days = (at / DAY) as u32;
        // Start low: no month has more than 31 days, so at least this many have passed.
        let mut own = Self(days / 31);
        while own.first_day_of_next() <= days {
            own.0 += 1;
        }
        own
    }

    /// Returns the Unix time at which the next month begins.
    pub fn end(self) -> u64 {
        u64::from(self.first_day_of_next()) * DAY
    }

    /// Returns the days from the start of 1970 to the start of the next month, with leap days.
    fn first_day_of_next(self) -> u32 {
        let (years, month) = ((self.0 + 1) / 12, (self.0 + 1) % 12);
        let year = 1970 + years;
        let leaps = |year: u32| year / 4 - year / 100 + year / 400;
        let is_leap = leaps(year) > leaps(year - 1);
        let before = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
        let leap_day = u32::from(is_leap && month > 1);
        years * 365 + leaps(year - 1) - leaps(1969) + before[month as usize] + leap_day
    }
}

impl List {
    /// Applies the terms of its plan in a context to every circuit.
    pub fn follow(&mut self, context: &TermsContext<'_>) {
        let plans = by_name(&self.plans);
        for circuit in &mut self.circuits {
            circuit.take(&plans, context);
        }
    }
}
