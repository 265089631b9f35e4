// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `[track]`: the range of rates within which a changing line is followed.

use crate::codes;
use crate::field::{self, FieldKind, Row, Table, row};
use std::net::IpAddr;
use weirgate_document::{Reader, SourceSpan, Value};
use weirgate_units::{Direction, Dscp, Rate, Span};

/// The table `[track]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Track {
    /// The line number of the table, from 1.
    pub line: u32,
    /// The position of the table.
    pub span: SourceSpan,
    /// Hosts that answer ICMP echo requests; empty if only passing traffic is measured.
    pub reflectors: Vec<Value<IpAddr>>,
    /// Whether round-trip times of passing traffic are measured. This is the default without
    /// reflectors: nobody is probed unless the policy names hosts.
    pub passive: bool,
    /// The floor and the ceiling upstream, as written.
    pub up: (Option<Value<Rate>>, Option<Value<Rate>>),
    /// The floor and the ceiling downstream, as written.
    pub down: (Option<Value<Rate>>, Option<Value<Rate>>),
    /// The time between two probes.
    pub interval: Option<Value<Span>>,
    /// The queueing delay that counts as too long.
    pub delay_threshold: Option<Value<Span>>,
    /// The DSCP of probes.
    pub dscp: Option<Value<Dscp>>,
}

/// The range of rates within which a direction is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// The lowest rate.
    pub floor: Rate,
    /// The initial rate.
    pub base: Rate,
    /// The highest rate.
    pub ceiling: Rate,
}

impl Track {
    pub(crate) const fn written(
        &self,
        direction: Direction,
    ) -> &(Option<Value<Rate>>, Option<Value<Rate>>) {
        match direction {
            Direction::Up => &self.up,
            Direction::Down => &self.down,
        }
    }

    /// Returns the time between two probes, by default 100 ms.
    #[must_use]
    pub fn interval(&self) -> Span {
        let written = self.interval.as_ref().map(|value| value.value);
        written.unwrap_or(Span::from_millis(100))
    }

    /// Returns the queueing delay that counts as too long, by default 8 ms.
    #[must_use]
    pub fn delay_threshold(&self) -> Span {
        let written = self.delay_threshold.as_ref().map(|value| value.value);
        written.unwrap_or(Span::from_millis(8))
    }

    /// Returns the DSCP of probes, by default 46 (EF).
    #[must_use]
    pub fn dscp(&self) -> u8 {
        self.dscp.as_ref().map_or(46, |value| value.value.value())
    }
}

/// The table `[track]`.
pub(crate) const TABLE: Table = Table {
    name: "track",
    about: "How shaping follows a line whose rate changes",
    rows: &[&ROWS],
};

type TrackRow = Row<Track>;

const ROWS: &[TrackRow] = &[
    TrackRow::new(
        "reflectors",
        FieldKind::List("192.0.2.1"),
        "Hosts beyond the line that answer ICMP echo requests; no other host is probed",
        |cell, track| track.reflectors = cell.list(codes::TRACK, address),
    ),
    row!(Track: "passive" => passive, "Whether round trips of the traffic itself are measured")
        .default("true without `reflectors`"),
    row!(Track: "up-floor" => up.0,
        "The lowest upstream rate, and the rate while nothing can be measured"),
    row!(Track: "up-ceiling" => up.1, "The highest upstream rate").default("`up` of the link"),
    row!(Track: "down-floor" => down.0,
        "The lowest downstream rate, and the rate while nothing can be measured"),
    row!(Track: "down-ceiling" => down.1, "The highest downstream rate")
        .default("`down` of the link"),
    row!(Track: "interval" => interval in INTERVALS or codes::TRACK,
        "The time between two probes; each goes to one of the reflectors")
    .default("\"100ms\""),
    row!(Track: "delay-threshold" => delay_threshold in DELAYS or codes::TRACK,
        "The queueing delay from which the rate is lowered, without two full packets of each \
         direction in use")
    .default("\"8ms\"")
    .formerly(&["delay"]),
    row!(Track: "dscp": FieldKind::Text("EF") => dscp,
        "The code point of probes, so that a rule can match them")
    .default("\"EF\""),
];

/// The shortest and the longest time between probes.
const INTERVALS: (Span, Span) = (Span::from_millis(20), Span::from_secs(5));

/// The smallest and the largest `delay-threshold`.
const DELAYS: (Span, Span) = (Span::from_millis(1), Span::from_secs(1));

fn address(text: &str) -> Result<IpAddr, (String, String)> {
    text.parse().map_err(|_| {
        let right = "write an address such as `\"192.0.2.1\"`; names are not looked up here";
        (format!("`{text}` is not an address"), right.to_owned())
    })
}

/// Reads the table.
pub(crate) fn read(mut table: Reader<'_, '_>) -> Track {
    let mut track = Track {
        line: table.line(),
        span: table.span(),
        reflectors: Vec::new(),
        passive: false,
        up: (None, None),
        down: (None, None),
        interval: None,
        delay_threshold: None,
        dscp: None,
    };
    field::read(&mut table, ROWS, &(), &mut track);
    let probes = table.has("reflectors");
    if !table.has("passive") {
        track.passive = !probes;
    } else if !track.passive && !probes {
        let hint = "name hosts to probe, such as the provider's router: `reflectors = \
                    [\"192.0.2.1\"]`, or leave `passive` out";
        table.missing::<()>("reflectors", hint);
    }
    track
}
