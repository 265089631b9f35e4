// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `delay` of a class: how long another's packet may hold the link before one
//! of its own.

use crate::codes;
use weirgate_document::{Reader, Value};
use weirgate_units::Span;

/// The shortest and longest that may be asked for.
const RANGE: (Span, Span) = (Span::from_micros(100), Span::from_secs(1));

/// Reads `delay` of a class.
pub(crate) fn read(table: &mut Reader<'_, '_>) -> Option<Value<Span>> {
    let delay = table.parsed::<Span>("delay")?;
    if delay.value < RANGE.0 || delay.value > RANGE.1 {
        table.problems().error(
            codes::DELAY,
            delay.span.clone(),
            format!("a packet's delay of {} cannot be asked for", delay.value),
            "write from `100us` to `1s`, such as `15ms`",
        );
        return None;
    }
    Some(delay)
}
