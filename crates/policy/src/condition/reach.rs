// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds rules that hide others. The first match ends the search, so a rule is never reached if
//! an earlier one matches all of its packets.
//!
//! The comparison is exact for each element. A rule that only several earlier rules together
//! hide is not found.

use crate::model::Rule;
use weirgate_units::Direction;

/// Returns whether `earlier` matches every packet that `later` matches, in all directions of
/// `later`.
pub(crate) fn covers(earlier: &Rule, later: &Rule) -> bool {
    let directions = Direction::BOTH
        .into_iter()
        .all(|one| !later.directions.contains(one) || earlier.directions.contains(one));
    let plain = earlier.never.is_none()
        && earlier.services.is_empty()
        && earlier.meter.is_none()
        && earlier.during.is_none();
    // A rule of a rule set can be switched off, so it hides only rules of the same set.
    let there = earlier.ruleset.is_none() || earlier.ruleset == later.ruleset;
    earlier.last && directions && plain && there && earlier.when.covers(&later.when)
}
