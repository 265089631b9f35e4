// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `engine` of the link: what shapes it; `ack-filter`, what only cake does; and
//! `timer-slack`, what only the tree does.

use crate::codes;
use crate::read::word;
use weirgate_document::{Reader, Value};
use weirgate_state::CakeAckFilter;
use weirgate_units::Span;

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

/// The least and the most that a timer may be late: HTB's clock has ticks of 64
/// ns, and what is let out at once stands in the modem.
const SLACK: (Span, Span) = (Span::from_nanos(64), Span::from_millis(10));

/// Reads `timer-slack`.
pub(crate) fn read_timer_slack(table: &mut Reader<'_, '_>) -> Option<Value<Span>> {
    let slack = table.parsed::<Span>("timer-slack")?;
    if slack.value < SLACK.0 || slack.value > SLACK.1 {
        table.problems().error(
            codes::SLACK,
            slack.span.clone(),
            format!("a timer cannot be allowed to be {} late", slack.value),
            "write from `64ns` to `10ms`, such as `500us`",
        );
        return None;
    }
    Some(slack)
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
