// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Objects of rules that the kernel numbers itself and that appear and disappear while the rules
//! are in force. Each kind has a file.

mod control_group;

pub(crate) use control_group::Groups;

use std::collections::BTreeSet;
use weirgate_state::{Key, State};

/// What is followed, in words.
pub(super) fn what() -> &'static str {
    Key::ControlGroup.followed().unwrap_or_default()
}

/// Why rules of a state match nothing now that ask for it, one sentence each.
pub fn absent(state: &State) -> Vec<String> {
    control_group::absent(state)
}

/// The kernel's numbers of what is there now of these paths.
pub(super) fn numbers(key: Key, paths: &[String]) -> BTreeSet<u128> {
    match key {
        Key::ControlGroup => control_group::numbers(paths),
        _ => BTreeSet::new(),
    }
}
