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
    /// The confirmed state is in force again.
    Mended {
        /// How many steps it took.
        steps: usize,
        /// The time until the next repair may begin, in milliseconds.
        pause: u64,
    },
    /// The circuits of a device were brought into force again.
    Circuits {
        /// The device.
        device: DeviceName,
        /// What was done.
        done: CircuitsDone,
    },
    /// The service took a change back, because nobody confirmed it in time or its process died, and
    /// its guard did not act.
    TakenBack {
        /// The number of its history entry.
        number: u64,
    },
    /// A file of the history was damaged; the value says what is used in its place.
    Damaged(Damage),
    /// Sets got other addresses, because DNS names have changed.
    Refreshed {
        /// How many sets.
        sets: usize,
    },
    /// Sets got other values, because kernel objects appeared, disappeared or were created again.
    Followed {
        /// The plural name of the kind of object.
        what: &'static str,
        /// How many sets.
        sets: usize,
    },
    /// Objects of one kind cannot be followed.
    NotFollowing {
        /// The plural name of the kind of object.
        what: &'static str,
        /// The reason.
        error: KeepError,
    },
    /// These rates of the line were estimated, and are in force.
    Rates(RatesNow),
    /// The rate of the line cannot be followed as the policy says.
    NotFollowed(KeepError),
    /// The number of high-priority sessions that are announced now.
    Announced(usize),
    /// Sessions cannot be announced.
    NotAnnounced(KeepError),
    /// Names that could not be looked up, with reasons; their addresses stay.
    NotFound(Vec<String>),
    /// A repair failed. It is retried at the next change, and after the pause.
    Failed {
        /// The reason.
        error: KeepError,
        /// Milliseconds until the next attempt.
        pause: u64,
    },
}
