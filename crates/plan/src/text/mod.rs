// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How steps and states read: as commands of ip, tc, ethtool and nft, and in
//! words where no command exists.

pub(crate) mod command;
pub(crate) mod nft;
pub(crate) mod script;
mod step;
