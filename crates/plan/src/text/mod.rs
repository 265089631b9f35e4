// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How steps and states read: as commands of ip, tc, ethtool and nft, and in
//! words where no command exists.

pub(crate) mod command;
pub(crate) mod conditioner;
pub(crate) mod nft;
pub(crate) mod order;
pub(crate) mod receive_window;
pub(crate) mod script;
mod step;
pub(crate) mod virtual_queue;
