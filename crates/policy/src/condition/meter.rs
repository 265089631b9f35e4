// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Limits on rates and numbers of connections as conditions.

use crate::codes;
use crate::field::{self, FieldKind, Row, Table, Word, row, words};
use crate::read::{choose, one_of};
use weirgate_document::{Reader, Value};
use weirgate_units::Size;

/// The default number of keys of a meter: an inside network of a /20.
const SIZE: u32 = 4096;
/// The largest number of keys of a meter: 262144, or about 50 MB of kernel memory.
const MOST_KEYS: i64 = 262_144;

/// A condition that counts packets, bytes or connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meter {
    /// What is counted.
    pub count: Count,
    /// The key by which packets are distinguished.
    pub per: Per,
    /// Whether it matches what exceeds the limit, or what is within it.
    pub over: bool,
    /// The largest number of keys; packets of further keys do not match.
    pub size: u32,
}

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Count {
    /// Packets.
    Packets {
        /// The number of packets in a period.
        rate: u64,
        /// The period: 1, 60 or 3600 seconds.
        per: u32,
        /// The number of packets that may come at once.
        burst: u32,
    },
    /// Bytes of IP packets.
    Bytes {
        /// The number of bytes per second.
        rate: u64,
        /// The bytes that may come at once above the rate.
        burst: u32,
    },
    /// Open connections.
    Connections(u32),
}

/// The key by which packets are distinguished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Per {
    /// The inside host.
    Local,
    /// The outside host.
    Remote,
    /// The connection.
    Connection,
    /// No key: all packets are counted together.
    All,
}

words!(Per:
    "local" => Self::Local,
    "remote" => Self::Remote,
    "connection" => Self::Connection,
    "all" => Self::All,
);

impl Meter {
    /// Returns the seconds after which a key without packets is removed: the time in which an
    /// empty bucket fills up, and at least 10 s. `None` for connections, whose keys are removed
    /// when they end.
    #[must_use]
    pub fn timeout(&self) -> Option<u32> {
        let seconds = match self.count {
            Count::Packets { rate, per, burst } => {
                (u64::from(burst) * u64::from(per)).div_ceil(rate.max(1))
            }
            Count::Bytes { rate, burst } => u64::from(burst).div_ceil(rate.max(1)),
            Count::Connections(_) => return None,
        };
        Some(u32::try_from(seconds).unwrap_or(u32::MAX).clamp(10, 86_400))
    }
}

/// The table `[rule.rate]`.
pub(crate) const RATE: Table = Table {
    name: "rate",
    about: "A rate as a condition",
    rows: &[&RATE_ROWS],
};

/// The table `[rule.connections]`.
pub(crate) const CONNECTIONS: Table = Table {
    name: "connections",
    about: "A number of connections as a condition",
    rows: &[&CONNECTIONS_ROWS],
};

/// The fields as written.
#[derive(Default)]
struct Written {
    over: Option<Vec<Value<String>>>,
    within: Option<Vec<Value<String>>>,
    per: Option<Value<String>>,
    burst: Option<u32>,
    size: Option<u32>,
}

const RATE_ROWS: &[Row<Written>] = &[
    row!(Written: "over": FieldKind::List("20/s") => over, "Matches packets beyond the rate"),
    row!(Written: "within": FieldKind::List("20/s") => within, "Matches packets within the limit"),
    row!(Written: "per": FieldKind::Word(&["local", "remote", "connection", "all"]) => per,
        "What has a limit of its own: each host, each connection or all together")
    .default("\"local\""),
    row!(Written: "burst": FieldKind::Integer(1, u32::MAX as i64) => burst,
        "The burst that still counts as within the rate")
    .default("5 packets, or no bytes"),
    row!(Written: "size": FieldKind::Integer(1, MOST_KEYS) => size,
        "How many hosts or connections are remembered")
    .default("4096"),
];

const CONNECTIONS_ROWS: &[Row<Written>] = &[
    row!(Written: "over": FieldKind::List("200") => over, "Matches connections beyond the number"),
    row!(Written: "within": FieldKind::List("200") => within, "Matches packets within the limit"),
    row!(Written: "per": FieldKind::Word(&["local", "remote", "all"]) => per,
        "What has a limit of its own: each host, each connection or all together")
    .default("\"local\""),
    row!(Written: "size": FieldKind::Integer(1, MOST_KEYS) => size,
        "How many hosts are remembered")
    .default("4096"),
];

/// Reads `rate`, or `connections`.
pub(crate) fn read(mut table: Reader<'_, '_>, connections: bool) -> Option<Value<Meter>> {
    let (span, line) = (table.span(), table.line());
    let mut written = Written::default();
    let rows = if connections {
        CONNECTIONS_ROWS
    } else {
        RATE_ROWS
    };
    field::read(&mut table, rows, &(), &mut written);
    let Written {
        over,
        within,
        per,
        burst,
        size,
    } = written;
    let (amounts, is_over) = match (over, within) {
        (Some(amounts), None) => (amounts, true),
        (None, Some(amounts)) => (amounts, false),
        _ => {
            table.problems().error(
                codes::METER,
                span,
                "this condition needs one of `over` and `within`",
                "write `over` for packets beyond the amount, or `within` for the others",
            );
            return None;
        }
    };
    let [amount] = amounts.as_slice() else {
        table.problems().error(
            codes::METER,
            span,
            "this condition takes one amount",
            "write one, such as `over = \"20/s\"`",
        );
        return None;
    };
    let found = if connections {
        count(&amount.value)
    } else {
        rate(&amount.value, burst)
    };
    let count = match found {
        Ok(count) => count,
        Err((wrong, right)) => {
            let span = amount.span.clone();
            table.problems().error(codes::METER, span, wrong, right);
            return None;
        }
    };
    let per = match per {
        None => Per::Local,
        Some(word) => match one_of(&word.value, Per::WORDS) {
            Some(Per::Connection) if connections => {
                table.problems().error(
                    codes::METER,
                    word.span,
                    "each connection counts as one",
                    "write `per = \"local\"`, `\"remote\"` or `\"all\"`",
                );
                return None;
            }
            Some(per) => per,
            None => {
                let wrong = format!("`per` cannot be `{}`", word.value);
                let right = choose(&word.value, Per::WORDS);
                table
                    .problems()
                    .error(codes::METER, word.span, wrong, right);
                return None;
            }
        },
    };
    let value = Meter {
        count,
        per,
        over: is_over,
        size: size.unwrap_or(SIZE),
    };
    Some(Value { value, span, line })
}

fn count(text: &str) -> Result<Count, (String, String)> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse::<u32>().ok().filter(|_| plain);
    match number {
        Some(number) if number > 0 => Ok(Count::Connections(number)),
        _ => Err((
            format!("`{text}` is not a number of connections"),
            "write a whole number above 0, such as `over = 100`".to_owned(),
        )),
    }
}

/// Parses `4/s`, `100/min` or `200kB/s`.
fn rate(text: &str, burst: Option<u32>) -> Result<Count, (String, String)> {
    let wrong = || {
        (
            format!("`{text}` is not a rate to count"),
            "write packets such as `4/s` or `100/min`, or bytes such as `200kB/s`".to_owned(),
        )
    };
    let (amount, unit) = text.split_once('/').ok_or_else(wrong)?;
    let per = match unit.trim() {
        "s" | "second" => 1,
        "min" | "minute" => 60,
        "h" | "hour" => 3600,
        _ => return Err(wrong()),
    };
    let amount = amount.trim();
    if amount.is_empty() || !amount.is_ascii() {
        return Err(wrong());
    }
    if amount.bytes().all(|byte| byte.is_ascii_digit()) {
        let rate: u64 = amount.parse().map_err(|_| wrong())?;
        // The kernel computes the time for a packet in whole nanoseconds.
        if rate == 0 || rate > 1_000_000_000 {
            return Err(wrong());
        }
        let burst = burst.unwrap_or(5);
        return Ok(Count::Packets { rate, per, burst });
    }
    let size: Size = amount.parse().map_err(|_| wrong())?;
    let rate = size.as_bytes();
    if per != 1 || rate == 0 || rate > 100_000_000_000 {
        return Err(wrong());
    }
    let burst = burst.unwrap_or(0);
    Ok(Count::Bytes { rate, burst })
}
