// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which rules hide others. The first match ends the search, so a rule is never reached if an
//! earlier one takes all of its packets.
//!
//! The comparison is exact element by element; a rule hidden only by several
//! earlier ones together is not found.

use crate::model::Rule;
use weirgate_units::Direction;

/// Whether every packet that `later` matches in a direction that it is for is
/// also matched by `earlier`.
pub(crate) fn covers(earlier: &Rule, later: &Rule) -> bool {
    let directions = Direction::BOTH
        .into_iter()
        .all(|one| !later.directions.contains(one) || earlier.directions.contains(one));
    let plain = earlier.never.is_none()
        && earlier.services.is_empty()
        && earlier.meter.is_none()
        && earlier.during.is_none();
    // What can be switched off hides nothing outside.
    let there = earlier.ruleset.is_none() || earlier.ruleset == later.ruleset;
    earlier.last && directions && plain && there && earlier.when.covers(&later.when)
}
