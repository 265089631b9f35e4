// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the service reports about its work.

use crate::circuits::CircuitsDone;
use crate::error::KeepError;
use crate::rate::RatesNow;
use crate::store::damage::Damage;
use weirgate_state::DeviceName;

/// What the service has done, for a log.
#[derive(Debug)]
pub enum Report {
    /// The confirmed state is in force, after so many steps.
    Mended {
        /// How many steps it took.
        steps: usize,
        /// The earliest time of the next repair, from now, in milliseconds.
        pause: u64,
    },
    /// The circuits of a device are in force again.
    Circuits {
        /// The device.
        device: DeviceName,
        /// What was done.
        done: CircuitsDone,
    },
    /// A change was taken back: nobody confirmed it in time or its maker died,
    /// and its guard did not act.
    TakenBack {
        /// Its entry.
        number: u64,
    },
    /// A file of the history was damaged; what serves in its place.
    Damaged(Damage),
    /// So many sets have other addresses of DNS names.
    Refreshed {
        /// How many.
        sets: usize,
    },
    /// So many sets have other values: some of what they are the numbers of came,
    /// went or was made again.
    Followed {
        /// Of what.
        what: &'static str,
        /// How many.
        sets: usize,
    },
    /// Something is not followed, and why.
    NotFollowing {
        /// What.
        what: &'static str,
        /// Why not.
        error: KeepError,
    },
    /// The line was found to have these rates, and they are in force.
    Rates(RatesNow),
    /// The line's rate is not followed as the policy says, and why.
    NotFollowed(KeepError),
    /// So many sessions of high priority are announced now.
    Announced(usize),
    /// Sessions cannot be announced, and why.
    NotAnnounced(KeepError),
    /// Names that could not be looked up, and why; their addresses stay.
    NotFound(Vec<String>),
    /// It could not be done; the next change is the next attempt, and another
    /// comes after the pause.
    Failed {
        /// Why not.
        error: KeepError,
        /// Milliseconds until the next attempt.
        pause: u64,
    },
}
