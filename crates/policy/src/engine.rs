// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `engine` of the link: what shapes it; and `ack-filter`, what only cake does.

use crate::read::word;
use weirgate_document::{Reader, Value};
use weirgate_state::CakeAckFilter;

/// What shapes a direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Engine {
    /// What crate `compile` chooses.
    #[default]
    Auto,
    /// The gated tree of HTB classes.
    Htb,
    /// cake with its own shaper.
    Cake,
    /// The kit's shaper with classes.
    Kit,
}

/// Reads `ack-filter`; nothing where it is off.
pub(crate) fn read_ack_filter(table: &mut Reader<'_, '_>) -> Option<Value<CakeAckFilter>> {
    let words = [
        ("off", CakeAckFilter::No),
        ("on", CakeAckFilter::Filter),
        ("aggressive", CakeAckFilter::Aggressive),
    ];
    word(table, "ack-filter", &words).filter(|found| found.value != CakeAckFilter::No)
}

/// Reads `engine`.
pub(crate) fn read(table: &mut Reader<'_, '_>) -> Option<Value<Engine>> {
    let words = [
        ("auto", Engine::Auto),
        ("htb", Engine::Htb),
        ("cake", Engine::Cake),
        ("kit", Engine::Kit),
    ];
    word(table, "engine", &words)
}
