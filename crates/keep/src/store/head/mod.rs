// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which state is in force, and the one change that may be pending: the
//! decisions of the protocol by which several processes change one kernel.
//!
//! The number of a change is its fencing number. It is larger than that of any
//! change before, and the head stores the largest. A process writes to the
//! kernel or to the store only under the lock, after it has read the head
//! there. A process that was late (stopped, slow, swapped out) thus finds that
//! its change is settled, or that a newer one was begun, and does nothing.
//!
//! What is decided here is a function of what is read under the lock and of the
//! time. `model` searches all orders in which processes can reach these
//! decisions.

#[cfg(test)]
mod model;

use crate::error::KeepError;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use weirgate_state::Routing;

/// How many entries are kept.
pub const MOST_ENTRIES: usize = 20;

/// What became of an entry.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Outcome {
    /// It was applied for good.
    Confirmed,
    /// Nobody confirmed it; what was before is back.
    Returned,
    /// It was taken back by `rollback` before it was confirmed.
    TakenBack,
    /// It could not be applied; what was before is back.
    Failed(String),
    /// What was before could not be restored.
    Lost(String),
}

/// A change that is under way or waits to be confirmed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Pending {
    /// Its entry, and its fencing number.
    pub number: u64,
    /// The run of the kernel that it was made in.
    pub boot: String,
    /// When the guard takes it back, in nanoseconds of `CLOCK_BOOTTIME`; `None` while it is being
    /// applied.
    pub deadline: Option<u64>,
    /// What routed over several links before it, where it changes that
    /// ([`weirgate_state::Routing::lines`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routing: Option<Vec<String>>,
}

impl Pending {
    /// What routed over several links before it, where it changes that.
    pub(crate) fn former_routing(&self) -> Result<Option<Routing>, KeepError> {
        let Some(lines) = &self.routing else {
            return Ok(None);
        };
        let read = Routing::of_lines(lines);
        let lost = || KeepError::Nothing("what routed before cannot be read".to_owned());
        read.ok_or_else(lost).map(Some)
    }

    /// What becomes of it when it is taken back because it is due.
    pub(crate) fn lapsed(&self) -> Outcome {
        match self.deadline {
            Some(_) => Outcome::Returned,
            None => Outcome::Failed("whoever made the change died before it was whole".to_owned()),
        }
    }
}

/// Which entry is what.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Head {
    /// The entry that is applied when the machine starts; `None` for nothing.
    pub confirmed: Option<u64>,
    /// The change in between, if there is one.
    pub pending: Option<Pending>,
    /// The number of the newest change that was begun, whatever became of it:
    /// the fencing number. 0 before the first, and in a head of a version that
    /// did not store it.
    #[serde(default)]
    pub generation: u64,
    /// What became of the entries that are kept.
    pub outcomes: BTreeMap<u64, Outcome>,
}

/// What a process that holds the lock finds pending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Nothing is pending.
    Settled,
    /// A change waits to be confirmed, so many nanoseconds more.
    Waiting(u64),
    /// A change has to be taken back: its time is over, or its maker died
    /// before it was whole (a maker that lives holds the lock).
    Due,
    /// The machine restarted since the change; the kernel has nothing of it.
    Restarted,
}

impl Head {
    /// The number of the next change, where this is the newest entry on disk.
    pub(crate) fn next(&self, newest: Option<u64>) -> u64 {
        self.generation.max(newest.unwrap_or(0)) + 1
    }

    /// Begins a change in this run of the kernel.
    pub(crate) fn begin(&mut self, number: u64, boot: &str) {
        self.generation = number;
        self.pending = Some(Pending {
            number,
            boot: boot.to_owned(),
            deadline: None,
            routing: None,
        });
    }

    /// What is to be done about the pending change, at this time
    /// (`CLOCK_BOOTTIME`, nanoseconds) in this run of the kernel.
    pub(crate) fn standing(&self, boot: &str, now: u64) -> Standing {
        match &self.pending {
            None => Standing::Settled,
            Some(pending) if pending.boot != boot => Standing::Restarted,
            Some(pending) => match pending.deadline.unwrap_or(0).saturating_sub(now) {
                0 => Standing::Due,
                left => Standing::Waiting(left),
            },
        }
    }

    /// Whether this change is the pending one.
    pub(crate) fn awaits(&self, number: u64) -> bool {
        let pending = self.pending.as_ref();
        pending.is_some_and(|pending| pending.number == number)
    }

    /// The head that the guard of a change goes on from when it takes the
    /// change back; `None` where it must do nothing, because the change is
    /// settled or a newer one was begun. `found` is what it read under the lock.
    ///
    /// A file that is gone reads as [`Head::default`], and a damaged one as `None`.
    /// Nobody can have begun a newer change then, since that needs the file. The
    /// guard does its duty, and goes on from the head that its change was `begun`
    /// with. If its change was confirmed before the file went, it has learnt so
    /// ([`Head::let_go`]).
    pub(crate) fn for_guard(found: Option<Self>, begun: &Self) -> Option<Self> {
        match found.filter(|head| head.generation > 0) {
            Some(head) => head.awaits(begun.generation).then_some(head),
            None => Some(begun.clone()),
        }
    }

    /// Whether the guard of a change may go that learns that its change is
    /// settled. It believes this unless the head says otherwise: where the file is
    /// gone, nothing else tells whether the change was confirmed.
    pub(crate) fn let_go(found: Option<&Self>, number: u64) -> bool {
        !found.is_some_and(|head| head.awaits(number))
    }

    /// Makes a change that waits for confirmation due; true if there is one.
    /// This is written before the kernel is touched: what is half taken back
    /// cannot be confirmed any more, even if who takes it back dies.
    pub(crate) fn recall(&mut self, boot: &str, now: u64) -> bool {
        let waits = matches!(self.standing(boot, now), Standing::Waiting(_));
        if let Some(pending) = self.pending.as_mut().filter(|_| waits) {
            pending.deadline = Some(0);
        }
        waits
    }

    /// Ends what is pending because it is due, or was lost at a restart.
    pub(crate) fn lapse(&mut self) {
        if let Some(pending) = self.pending.clone() {
            self.settle(pending.number, pending.lapsed());
        }
    }

    /// Ends what is pending, as this; an entry's number is kept in mind as
    /// long as the entry is.
    pub fn settle(&mut self, number: u64, outcome: Outcome) {
        if outcome == Outcome::Confirmed {
            self.confirmed = Some(number);
        }
        self.pending = None;
        self.outcomes.insert(number, outcome);
        while self.outcomes.len() > 2 * MOST_ENTRIES {
            self.outcomes.pop_first();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begun(number: u64) -> Head {
        let mut head = Head::default();
        head.begin(number, "");
        head
    }

    #[test]
    fn a_guard_acts_while_its_change_is_pending_or_nothing_is_known() {
        let own = begun(5);
        let mut confirmed = own.clone();
        confirmed.settle(5, Outcome::Confirmed);
        for (found, acts) in [
            (Some(own.clone()), true),
            // Gone, and damaged.
            (Some(Head::default()), true),
            (None, true),
            (Some(confirmed), false),
            (Some(begun(6)), false),
            // The folder was emptied, and another change was begun since.
            (Some(begun(1)), false),
        ] {
            let head = Head::for_guard(found.clone(), &own);
            assert_eq!(head.is_some(), acts, "{found:?}");
        }
    }

    #[test]
    fn a_guard_that_is_told_so_goes_unless_its_change_is_pending() {
        for (found, goes) in [
            (Some(begun(5)), false),
            (Some(begun(6)), true),
            (None, true),
        ] {
            assert_eq!(Head::let_go(found.as_ref(), 5), goes, "{found:?}");
        }
        assert!(Head::let_go(Some(&Head::default()), 5));
    }
}
