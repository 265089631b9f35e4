// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `engine` of the link: what shapes it; and `ack-filter`, what only cake does.

use crate::codes;
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
        ("auto", Some(Engine::Auto)),
        ("htb", Some(Engine::Htb)),
        ("cake", Some(Engine::Cake)),
        ("kit", None),
    ];
    let found = word(table, "engine", &words)?;
    if found.value.is_none() {
        table.problems().error(
            codes::ENGINE,
            found.span.clone(),
            "disciplines of the kit cannot carry a policy's classes yet",
            "write `engine = \"auto\"`, or load one by itself with `weirgate aqm load`",
        );
    }
    let (span, line) = (found.span, found.line);
    found.value.map(|value| Value { value, span, line })
}
