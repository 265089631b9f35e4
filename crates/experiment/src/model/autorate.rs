// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A control loop that changes rates as cake-autorate does, to compare `[track]` with.

use super::Command;
use crate::Node;
use std::collections::BTreeMap;
use weirgate_units::Rate;

/// The settings of the loop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Autorate {
    /// The node that answers the gateway's echo requests.
    pub ask: Node,
    /// The direction from the gateway, if its rate is changed.
    pub up: Option<AutorateSide>,
    /// The direction to the gateway, if its rate is changed.
    pub down: Option<AutorateSide>,
}

/// The rates of one direction and the command that sets them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AutorateSide {
    /// The lowest rate, in bits as the shaper counts them.
    pub least: Rate,
    /// The initial rate, to which it returns at low load.
    pub base: Rate,
    /// The highest rate.
    pub most: Rate,
    /// The command that sets a rate; `{kbit}` stands for the rate.
    pub command: Command,
}

impl Autorate {
    /// Returns the commands of the configured directions.
    pub fn commands(&self) -> impl Iterator<Item = &Command> {
        let sides = [&self.up, &self.down].into_iter().flatten();
        sides.map(|side| &side.command)
    }
}

impl AutorateSide {
    /// Returns the argument list that sets the rate in kbit/s.
    #[must_use]
    pub fn resolve(&self, kbit: u64) -> Vec<String> {
        let parameters = BTreeMap::from([("kbit".to_owned(), kbit.to_string())]);
        self.command.resolve(&parameters)
    }
}
