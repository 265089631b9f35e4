// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Kernel objects that rules name, that the kernel numbers itself, and that appear and disappear
//! while the rules are in force. Each kind has a file.

mod control_group;

pub(crate) use control_group::Groups;

use std::collections::BTreeSet;
use weirgate_state::{Key, State};

/// Returns the plural name of the kind of object, for messages.
pub(super) fn what() -> &'static str {
    Key::ControlGroup.followed().unwrap_or_default()
}

/// Explains, in one sentence each, why rules of a state that name such objects match nothing now.
pub fn absent(state: &State) -> Vec<String> {
    control_group::absent(state)
}

/// Returns the kernel's numbers of the objects that exist now at these paths.
pub(super) fn numbers(key: Key, paths: &[String]) -> BTreeSet<u128> {
    match key {
        Key::ControlGroup => control_group::numbers(paths),
        _ => BTreeSet::new(),
    }
}
