// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A loop that changes rates as cake-autorate does: a rival of `[track]`.

use super::{Command, Node};
use std::collections::BTreeMap;
use weirgate_units::Rate;

/// The settings of the loop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Autorate {
    /// Who answers the gateway's echoes.
    pub ask: Node,
    /// The direction from the gateway, where its rate is changed.
    pub up: Option<AutorateSide>,
    /// The direction to the gateway.
    pub down: Option<AutorateSide>,
}

/// One direction of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AutorateSide {
    /// Never below, in bits as the shaper counts them.
    pub least: Rate,
    /// Where it begins, and returns to at low load.
    pub base: Rate,
    /// Never above.
    pub most: Rate,
    /// The command that sets a rate; `{kbit}` stands for the rate.
    pub command: Command,
}

impl Autorate {
    /// The commands of the directions that it has.
    pub fn commands(&self) -> impl Iterator<Item = &Command> {
        let sides = [&self.up, &self.down].into_iter().flatten();
        sides.map(|side| &side.command)
    }
}

impl AutorateSide {
    /// The argument list that puts a rate in force, in kbit/s.
    #[must_use]
    pub fn resolve(&self, kbit: u64) -> Vec<String> {
        let parameters = BTreeMap::from([("kbit".to_owned(), kbit.to_string())]);
        self.command.resolve(&parameters)
    }
}
