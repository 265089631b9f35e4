// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which state is in force, and the one change that may be pending: the decisions of the protocol
//! by which several processes change one kernel.
//!
//! The number of a change is its fencing number. It is larger than that of any earlier change, and
//! the head stores the largest. A process writes to the kernel or to the store only under the lock,
//! after it has read the head under that lock. So a process that was delayed (stopped, slow,
//! swapped out) finds that its change is settled, or that a newer one was begun, and does nothing.
//!
//! Each decision is a function of the time and of what was read under the lock. `model` searches
//! all orders in which processes can reach these decisions.

#[cfg(test)]
mod model;

use crate::error::KeepError;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use weirgate_state::Routing;

/// How many entries the history keeps.
pub const MOST_ENTRIES: usize = 20;

/// The outcome of an entry.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Outcome {
    /// It was confirmed, or needed no confirmation.
    Confirmed,
    /// Nobody confirmed it in time; the former state was restored.
    Returned,
    /// `rollback` took it back before it was confirmed.
    TakenBack,
    /// It could not be applied; the former state was restored.
    Failed(String),
    /// The former state could not be restored.
    Lost(String),
}

/// A change that is being made or waits for confirmation.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Pending {
    /// The number of its entry, which is its fencing number.
    pub number: u64,
    /// The boot in which it was made.
    pub boot: String,
    /// The deadline after which the guard takes it back, in nanoseconds of `CLOCK_BOOTTIME`; `None`
    /// while it is being applied.
    pub deadline: Option<u64>,
    /// The former routing over several links, if the change replaces it
    /// ([`weirgate_state::Routing::lines`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routing: Option<Vec<String>>,
}

impl Pending {
    /// Returns the former routing over several links, if the change replaces it.
    pub(crate) fn former_routing(&self) -> Result<Option<Routing>, KeepError> {
        let Some(lines) = &self.routing else {
            return Ok(None);
        };
        let read = Routing::of_lines(lines);
        let lost = || KeepError::Nothing("what routed before cannot be read".to_owned());
        read.ok_or_else(lost).map(Some)
    }

    /// Returns its outcome if it is taken back because it is due.
    pub(crate) fn lapsed(&self) -> Outcome {
        match self.deadline {
            Some(_) => Outcome::Returned,
            None => Outcome::Failed("whoever made the change died before it was whole".to_owned()),
        }
    }
}

/// Which entry is confirmed, and which is pending.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Head {
    /// The entry that is applied at boot; `None` for nothing.
    pub confirmed: Option<u64>,
    /// The pending change, if there is one.
    pub pending: Option<Pending>,
    /// The fencing number: the number of the newest change that was begun, whatever its outcome. It
    /// is 0 before the first change, and in a head of a version that did not store it.
    #[serde(default)]
    pub generation: u64,
    /// The outcomes of the entries that the history keeps.
    pub outcomes: BTreeMap<u64, Outcome>,
}

/// The state of the pending change, for a process that holds the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Nothing is pending.
    Settled,
    /// A change waits for confirmation, for this many nanoseconds more.
    Waiting(u64),
    /// A change has to be taken back. Its deadline has passed, or its author died before it was
    /// complete; a living author holds the lock.
    Due,
    /// The machine has rebooted since the change, so the kernel has nothing of it.
    Restarted,
}

impl Head {
    /// Returns the number of the next change; `newest` is the newest entry on disk.
    pub(crate) fn next(&self, newest: Option<u64>) -> u64 {
        self.generation.max(newest.unwrap_or(0)) + 1
    }

    /// Begins a change in this boot.
    pub(crate) fn begin(&mut self, number: u64, boot: &str) {
        self.generation = number;
        self.pending = Some(Pending {
            number,
            boot: boot.to_owned(),
            deadline: None,
            routing: None,
        });
    }

    /// Returns what has to be done about the pending change, at this time (`CLOCK_BOOTTIME`,
    /// nanoseconds) in this boot.
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

    /// Returns whether this change is the pending one.
    pub(crate) fn awaits(&self, number: u64) -> bool {
        let pending = self.pending.as_ref();
        pending.is_some_and(|pending| pending.number == number)
    }

    /// Returns the head from which a guard continues when it takes its change back. Returns `None`
    /// if the guard must do nothing, because the change is settled or a newer one was begun.
    /// `found` is what it read under the lock.
    ///
    /// A missing file reads as [`Head::default`], and a damaged one as `None`. In both cases nobody
    /// can have begun a newer change, since that needs the file. So the guard acts, and continues
    /// from the head with which its change was `begun`. If the change was confirmed before the file
    /// was lost, the guard was told so ([`Head::let_go`]).
    pub(crate) fn for_guard(found: Option<Self>, begun: &Self) -> Option<Self> {
        match found.filter(|head| head.generation > 0) {
            Some(head) => head.awaits(begun.generation).then_some(head),
            None => Some(begun.clone()),
        }
    }

    /// Returns whether a guard may exit that was told that its change is settled. It believes the
    /// message unless the head contradicts it: if the file is gone, only the message says whether
    /// the change was confirmed.
    pub(crate) fn let_go(found: Option<&Self>, number: u64) -> bool {
        !found.is_some_and(|head| head.awaits(number))
    }

    /// Sets the deadline of a change that waits for confirmation to now. Returns whether there is
    /// one. This is written before the kernel is touched: a change that is half taken back can no
    /// longer be confirmed, even if the process that takes it back dies.
    pub(crate) fn recall(&mut self, boot: &str, now: u64) -> bool {
        let waits = matches!(self.standing(boot, now), Standing::Waiting(_));
        if let Some(pending) = self.pending.as_mut().filter(|_| waits) {
            pending.deadline = Some(0);
        }
        waits
    }

    /// Settles the pending change, because it is due or was lost in a reboot.
    pub(crate) fn lapse(&mut self) {
        if let Some(pending) = self.pending.clone() {
            self.settle(pending.number, pending.lapsed());
        }
    }

    /// Settles the pending change with this outcome. Outcomes are kept as long as their entries.
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
            // The file is missing, and then damaged.
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
