// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `moves` of the link: how a connection changes its class.

use crate::read::word;
use weirgate_document::{Reader, Value};

/// How a connection changes its class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Moves {
    /// With its next packet, which may overtake those that wait in the old class.
    #[default]
    AtOnce,
    /// When all of its data in the old class has been acknowledged; its sender is
    /// stopped for that long.
    InOrder,
}

/// Reads `moves`.
pub(crate) fn read(table: &mut Reader<'_, '_>) -> Option<Value<Moves>> {
    let words = [("at-once", Moves::AtOnce), ("in-order", Moves::InOrder)];
    word(table, "moves", &words)
}
