// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The texts of steps and states: commands of ip, tc, ethtool and nft, and words where no command
//! exists.

pub(crate) mod command;
pub(crate) mod nft;
pub(crate) mod script;
mod step;
