// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The section `[topology]`.

use super::registry::{Field, Integer, Own, Switch, Table, Within, Word, rate, time};
use super::scope::Scope;
use super::{codes, field, impairments};
use crate::{Buffer, DropEnd, Framing, Impairments, Line, LineSide, LineStep, Topology, Variation};
use std::str::FromStr;
use weirgate_document::Reader;
use weirgate_units::{Rate, Size, Span};

/// The largest number of hosts: each namespace costs memory in the guest, and time to create.
const MOST_HOSTS: i64 = 250;
const MOST_SERVERS: i64 = 64;
/// The largest number of rate changes. A drift consists of many small ones.
const MOST_STEPS: usize = 256;
const LATEST: Span = Span::from_secs(86_400);
const SLOWEST: Rate = Rate::kbit(1);
const FASTEST: Rate = Rate::kbit(100_000_000);

pub(super) const TOPOLOGY: Field<Own> =
    Field::new("topology", Own("table"), "The network of the experiment")
        .required("describe what is built in `[topology]`");

const KIND: Field<Word<()>> = Field::new(
    "kind",
    Word(&[("access-line", ())]),
    "The network: hosts - gateway - line - provider - servers",
)
.default("that");
const HOSTS: Field<Integer> =
    Field::new("hosts", Integer(1, MOST_HOSTS), "Hosts behind the gateway").default("1");
const SERVERS: Field<Integer> = Field::new(
    "servers",
    Integer(1, MOST_SERVERS),
    "Servers behind the provider",
)
.default("1");
const OWN_LINE: Field<Own> = Field::new("line", Own("table"), "The line, `[topology.line]`")
    .required("describe the line in `[topology.line]`");

pub(super) const TABLE: Table = Table::new(
    "[topology]",
    "The network of the experiment",
    &[&KIND, &HOSTS, &SERVERS, &OWN_LINE],
);

const FRAMING: Field<Word<Framing>> = Field::new(
    "framing",
    Word(&[
        ("none", Framing::None),
        ("atm", Framing::Atm),
        ("ptm", Framing::Ptm),
    ]),
    "How the line carries bytes: unchanged, in ATM cells of 48 in 53 bytes, or in 64/65 code words",
)
.default("`\"none\"`");
const OVERHEAD: Field<Integer> = Field::new(
    "overhead",
    Integer(-64, 256),
    "Bytes added to each IP packet before framing",
)
.default("0");
const MPU: Field<Integer> = Field::new(
    "mpu",
    Integer(0, 2048),
    "The smallest size in bytes after `overhead`, before framing",
)
.default("0");
const HALF_DUPLEX: Field<Switch> = Field::new(
    "half-duplex",
    Switch,
    "Whether only one direction transmits at a time, as on a radio channel. While both have \
     packets, they take turns of one packet. Not with `emulator = \"netem\"`",
)
.default("false");
const THEN: Field<Own> = Field::new(
    "then",
    Own("list of tables"),
    "Changes of the line's rates, at most 256, in order of time. A packet in transmission keeps \
     the rate at which it began. Not with `emulator = \"netem\"`",
);
const VARIES: Field<Word<Variation>> = Field::new(
    "varies",
    Word(&[
        ("lte", Variation::Lte),
        ("5g", Variation::FiveG),
        ("starlink", Variation::Starlink),
        ("cable", Variation::Cable),
    ]),
    "The rates change all the time as on a line of this kind, by a random model; `rate` is the \
     highest. A seed gives the same rates in every arm. Excludes `then`; not with `emulator = \
     \"netem\"`",
);
const UP: Field<Own> =
    Field::new("up", Own("table"), "The direction from the gateway").required(DIRECTION);
const DOWN: Field<Own> =
    Field::new("down", Own("table"), "The direction to the gateway").required(DIRECTION);
const DIRECTION: &str = "describe this direction: rate, delay, buffer";

pub(super) const LINE: Table = Table::new(
    "[topology.line]",
    "The line, with the buffer before each direction: the modem's upstream, the exchange's \
     downstream",
    &[
        &FRAMING,
        &OVERHEAD,
        &MPU,
        &HALF_DUPLEX,
        &THEN,
        &VARIES,
        &UP,
        &DOWN,
    ],
);

const AT: Field<Within<Span>> = Field::new(
    "at",
    time(Span::from_nanos(1), LATEST),
    "When the rates change",
)
.required("say when the rates change: `at = \"20s\"`");
const UP_RATE: Field<Within<Rate>> = Field::new(
    "up",
    rate(SLOWEST, FASTEST),
    "The upstream rate from then on; at least one of `up` and `down` is required",
);
const DOWN_RATE: Field<Within<Rate>> = Field::new(
    "down",
    rate(SLOWEST, FASTEST),
    "The downstream rate from then on",
);

pub(super) const STEP: Table = Table::new(
    "[[topology.line.then]]",
    "A change of the line's rates",
    &[&AT, &UP_RATE, &DOWN_RATE],
);

const RATE: Field<Within<Rate>> = Field::new(
    "rate",
    rate(SLOWEST, FASTEST),
    "The rate of the line, in bits on the wire",
)
.required("write the line rate, such as `rate = \"512kbit\"`");
const DELAY: Field<Within<Span>> = Field::new(
    "delay",
    time(Span::ZERO, Span::from_secs(10)),
    "The one-way delay, after transmission",
)
.default("0");
const BUFFER: Field<Own> = Field::new(
    "buffer",
    Own("text: IP bytes (2000 to 64 MB) or packets (1 to 50000)"),
    "The queue before the line: `\"200kB\"`, `\"100 packets\"`. The packet in transmission does \
     not count",
)
.required("write the queue before the line, such as `buffer = \"200kB\"` or `\"100 packets\"`");
const DROP: Field<Word<DropEnd>> = Field::new(
    "drop",
    Word(&[("tail", DropEnd::Tail), ("front", DropEnd::Front)]),
    "Which packet is dropped when the buffer is full: the arriving one or the oldest",
)
.default("`\"tail\"`");

pub(super) const SIDE: Table = Table::new(
    "[topology.line.up] and [topology.line.down]",
    "A direction of the line",
    &[
        &RATE,
        &DELAY,
        &BUFFER,
        &DROP,
        &impairments::LOSS,
        &impairments::JITTER,
        &impairments::REORDERED,
        &impairments::BURSTS,
    ],
);

pub(super) fn read(root: &mut Reader<'_, '_>) -> Option<Topology> {
    if !TOPOLOGY.is_there(root) {
        return None;
    }
    let mut table = root.table(TOPOLOGY.name)?;
    let kind = KIND.get(&mut table);
    let hosts = HOSTS.or(&mut table, 1);
    let servers = SERVERS.or(&mut table, 1);
    let line = if OWN_LINE.is_there(&mut table) {
        table
            .table(OWN_LINE.name)
            .and_then(|mut line| read_line(&mut line))
    } else {
        None
    };
    kind?;
    Some(Topology {
        hosts: hosts? as u16,
        servers: servers? as u16,
        line: line?,
    })
}

fn read_line(table: &mut Reader<'_, '_>) -> Option<Line> {
    let framing = FRAMING.get(table);
    let overhead = OVERHEAD.or(table, 0);
    let mpu = MPU.or(table, 0);
    let up = side(table, &UP);
    let down = side(table, &DOWN);
    let then = steps(table);
    let varies = variation(table, &then);
    let half_duplex = HALF_DUPLEX.get(table).is_some_and(|value| value.value);
    Some(Line {
        up: up?,
        down: down?,
        framing: framing?,
        overhead: overhead? as i32,
        mpu: mpu? as u32,
        then,
        varies,
        half_duplex,
    })
}

/// Reports features of the line that the kernel's netem does not have: rates that change, half
/// duplex, and impairments.
pub(super) fn is_possible_for_netem(root: &Reader<'_, '_>, scope: &Scope, topology: &Topology) {
    let Some(arm) = scope.netem.first() else {
        return;
    };
    let line = &topology.line;
    let plain = |side: &LineSide| side.impairments == Impairments::NONE;
    let (what, fields) = if !line.then.is_empty() || line.varies.is_some() {
        ("the line's rates change", "`then` or `varies`")
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

/// Reads the model by which the rates vary.
fn variation(line: &mut Reader<'_, '_>, then: &[LineStep]) -> Option<Variation> {
    if !VARIES.is_in(line) {
        return None;
    }
    if !then.is_empty() {
        let message = "`varies` draws the line's rates, and `then` states them";
        let problems = line.problems();
        problems.error(
            codes::LIMIT,
            field::head(line),
            message,
            "leave one of them out",
        );
    }
    VARIES.get(line)
}

/// Reads the changes of the line's rates, in order of time.
fn steps(line: &mut Reader<'_, '_>) -> Vec<LineStep> {
    let tables = line.tables(THEN.name);
    if tables.len() > MOST_STEPS {
        let message = format!("a line changes its rates at most {MOST_STEPS} times");
        let problems = line.problems();
        problems.error(codes::LIMIT, field::head(line), message, "leave some out");
        return Vec::new();
    }
    let mut found: Vec<LineStep> = Vec::new();
    for mut table in tables {
        let at = AT.get(&mut table);
        let mut rate = |of: Field<Within<Rate>>| of.is_in(&mut table).then(|| of.get(&mut table));
        let (up, down) = (rate(UP_RATE), rate(DOWN_RATE));
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
            later: None,
        });
    }
    found
}

fn side(line: &mut Reader<'_, '_>, of: &Field<Own>) -> Option<LineSide> {
    if !of.is_there(line) {
        return None;
    }
    let mut table = line.table(of.name)?;
    let rate = RATE.get(&mut table);
    let delay = DELAY.or(&mut table, Span::ZERO);
    let buffer = BUFFER
        .is_there(&mut table)
        .then(|| buffer(&mut table))
        .flatten();
    let drop = DROP.get(&mut table);
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
    let text = table.text(BUFFER.name)?;
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

/// Returns whether a queue holds at least a full packet, and fits into the guest's memory.
fn in_range(buffer: Buffer) -> bool {
    match buffer {
        Buffer::Bytes(size) => (2_000..=64_000_000).contains(&size.as_bytes()),
        Buffer::Packets(packets) => (1..=50_000).contains(&packets),
    }
}
