// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The section `[topology]`.

use super::scope::Scope;
use super::{codes, field, impairments};
use crate::{Buffer, DropEnd, Framing, Impairments, Line, LineSide, LineStep, Topology};
use std::str::FromStr;
use weirgate_document::Reader;
use weirgate_units::{Rate, Size, Span};

/// Namespaces cost memory in the guest, and time to make.
const MOST_HOSTS: i64 = 250;
const MOST_SERVERS: i64 = 64;
/// Steps of a line's rates; a drift is many small ones.
const MOST_STEPS: usize = 256;
const LATEST: Span = Span::from_secs(86_400);
const SLOWEST: Rate = Rate::kbit(1);
const FASTEST: Rate = Rate::kbit(100_000_000);

pub(super) fn read(root: &mut Reader<'_, '_>) -> Option<Topology> {
    let mut table = if root.has("topology") {
        root.table("topology")?
    } else {
        root.missing("topology", "describe what is built in `[topology]`")?
    };
    let kind = field::word(&mut table, "kind", &[("access-line", ())]);
    let hosts = count(&mut table, "hosts", MOST_HOSTS);
    let servers = count(&mut table, "servers", MOST_SERVERS);
    let line = if table.has("line") {
        table
            .table("line")
            .and_then(|mut line| read_line(&mut line))
    } else {
        table.missing("line", "describe the line in `[topology.line]`")
    };
    kind?;
    Some(Topology {
        hosts: hosts?,
        servers: servers?,
        line: line?,
    })
}

fn count(table: &mut Reader<'_, '_>, key: &'static str, most: i64) -> Option<u16> {
    if !table.has(key) {
        return Some(1);
    }
    table.integer(key, 1..=most).map(|count| count.value as u16)
}

fn read_line(table: &mut Reader<'_, '_>) -> Option<Line> {
    let words = [
        ("none", Framing::None),
        ("atm", Framing::Atm),
        ("ptm", Framing::Ptm),
    ];
    let framing = field::word(table, "framing", &words);
    let overhead = optional(table, "overhead", -64..=256, 0);
    let mpu = optional(table, "mpu", 0..=2048, 0);
    let up = side(table, "up");
    let down = side(table, "down");
    let then = steps(table);
    let half_duplex = table
        .boolean("half-duplex")
        .is_some_and(|value| value.value);
    Some(Line {
        up: up?,
        down: down?,
        framing: framing?,
        overhead: overhead? as i32,
        mpu: mpu? as u32,
        then,
        half_duplex,
    })
}

/// The kernel's netem is a line of constant rates, whose packets arrive as they are
/// transmitted.
pub(super) fn is_possible_for_netem(root: &Reader<'_, '_>, scope: &Scope, topology: &Topology) {
    let Some(arm) = scope.netem.first() else {
        return;
    };
    let line = &topology.line;
    let plain = |side: &LineSide| side.impairments == Impairments::NONE;
    let (what, fields) = if !line.then.is_empty() {
        ("the line's rates change", "`then`")
    } else if line.half_duplex {
        ("the line is half duplex", "`half-duplex`")
    } else if !plain(&line.up) || !plain(&line.down) {
        (
            "the line impairs packets",
            "`loss`, `jitter`, `reordering` and `bursts`",
        )
    } else {
        return;
    };
    let message = format!("{what}, and in the arm `{arm}` that cannot be");
    let hint =
        format!("its line is the kernel's netem: leave out {fields} of the line, or the arm");
    let problems = root.problems();
    problems.error(codes::ARM, field::head(root), message, hint);
}

/// The steps of the line's rates, in order of time.
fn steps(line: &mut Reader<'_, '_>) -> Vec<LineStep> {
    let tables = line.tables("then");
    if tables.len() > MOST_STEPS {
        let message = format!("a line changes its rates at most {MOST_STEPS} times");
        let problems = line.problems();
        problems.error(codes::LIMIT, field::head(line), message, "leave some out");
        return Vec::new();
    }
    let mut found: Vec<LineStep> = Vec::new();
    for mut table in tables {
        let at = if table.has("at") {
            field::span(&mut table, "at", Span::from_nanos(1), LATEST)
        } else {
            table.missing("at", "say when the rates change: `at = \"20s\"`")
        };
        let mut rate = |key| {
            table
                .has(key)
                .then(|| field::rate(&mut table, key, SLOWEST, FASTEST))
        };
        let (up, down) = (rate("up"), rate("down"));
        if up.is_none() && down.is_none() {
            let hint = "write `up`, `down` or both";
            let message = "this changes neither rate";
            let problems = table.problems();
            problems.error(codes::LIMIT, field::head(&table), message, hint);
            continue;
        }
        let Some(at) = at else { continue };
        if let Some(before) = found.last().filter(|before| before.at >= at) {
            let message = format!("the step at {at} is written after the one at {}", before.at);
            let hint = "write steps in order of time, each later than the one before";
            let problems = table.problems();
            problems.error(codes::TIME, field::head(&table), message, hint);
            continue;
        }
        found.push(LineStep {
            at,
            up: up.flatten(),
            down: down.flatten(),
        });
    }
    found
}

fn optional(
    table: &mut Reader<'_, '_>,
    key: &'static str,
    range: std::ops::RangeInclusive<i64>,
    absent: i64,
) -> Option<i64> {
    if !table.has(key) {
        return Some(absent);
    }
    table.integer(key, range).map(|value| value.value)
}

fn side(line: &mut Reader<'_, '_>, key: &'static str) -> Option<LineSide> {
    let mut table = if line.has(key) {
        line.table(key)?
    } else {
        line.missing(key, "describe this direction: rate, delay, buffer")?
    };
    let rate = if table.has("rate") {
        field::rate(&mut table, "rate", SLOWEST, FASTEST)
    } else {
        table.missing("rate", "write the line rate, such as `rate = \"512kbit\"`")
    };
    let delay = if table.has("delay") {
        field::span(&mut table, "delay", Span::ZERO, Span::from_secs(10))
    } else {
        Some(Span::ZERO)
    };
    let buffer = if table.has("buffer") {
        buffer(&mut table)
    } else {
        table.missing(
            "buffer",
            "write the queue before the line, such as `buffer = \"200kB\"` or `\"100 packets\"`",
        )
    };
    let ends = [("tail", DropEnd::Tail), ("front", DropEnd::Front)];
    let drop = field::word(&mut table, "drop", &ends);
    let impairments = impairments::read(&mut table);
    Some(LineSide {
        rate: rate?,
        delay: delay?,
        buffer: buffer?,
        drop: drop?,
        impairments: impairments?,
    })
}

fn buffer(table: &mut Reader<'_, '_>) -> Option<Buffer> {
    let text = table.text("buffer")?;
    let packets = text
        .value
        .strip_suffix("packets")
        .or_else(|| text.value.strip_suffix("packet"));
    let parsed = match packets {
        Some(number) => number
            .trim()
            .parse::<u32>()
            .map(Buffer::Packets)
            .map_err(|_| format!("`{}` is not a number of packets", text.value)),
        None => Size::from_str(&text.value)
            .map(Buffer::Bytes)
            .map_err(|error| error.problem),
    };
    let limits = "write bytes such as `200kB` (at least 2000), or `100 packets` (at least 1)";
    let (span, problems) = (text.span.clone(), table.problems());
    match parsed {
        Err(problem) => problems.error(codes::LIMIT, span, problem, limits),
        Ok(buffer) if in_range(buffer) => return Some(buffer),
        Ok(_) => problems.error(codes::LIMIT, span, "`buffer` is out of range", limits),
    }
    None
}

/// A queue must hold a full packet, and not more than a guest's memory can.
fn in_range(buffer: Buffer) -> bool {
    match buffer {
        Buffer::Bytes(size) => (2_000..=64_000_000).contains(&size.as_bytes()),
        Buffer::Packets(packets) => (1..=50_000).contains(&packets),
    }
}
