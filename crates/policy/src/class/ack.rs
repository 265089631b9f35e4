// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `[ack]`: a reservation for TCP acknowledgements without data.

use crate::amount::Amount;
use crate::class::{ceiling, zero};
use crate::codes;
use crate::field::{self, Cell, FieldKind, Row, Table, row, set};
use crate::model::Directions;
use crate::queue::{self, Queue};
use crate::read::implied;
use weirgate_document::{Kind, Reader, SourceSpan, Value};
use weirgate_units::{Rate, Share, Size};

/// The name of the class that `[ack]` creates.
pub(crate) const ACK: &str = "ack";

/// The rate to reserve for acknowledgements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AckRate {
    /// Computed by a formula from the rate of the opposite direction (Brouer 8.1, requirements
    /// A12).
    Formula,
    /// A configured rate in wire bits.
    Rate(Rate),
}

/// The reservation for pure ACKs. It consists of a class named `ack`, and a rule before all
/// others that puts pure ACKs into it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ack {
    /// The line number of the table, from 1.
    pub line: u32,
    /// The position of the table.
    pub span: SourceSpan,
    /// The reserved rate.
    pub reserve: Value<AckRate>,
    /// Data packets per ACK in tenths, used by the formula.
    pub factor_tenths: u32,
    /// IP bytes of an ACK, used by the formula.
    pub size: u32,
    /// Its priority, from 0 (highest) to 7.
    pub priority: u8,
    /// Its ceiling. A share is of the gate's rate.
    pub ceiling: Value<Amount>,
    /// The queue; `None` lets crate `compile` choose.
    pub queue: Option<Value<Queue>>,
    /// Wire bytes that it may send at once above the rate; `None` means one full packet.
    pub burst: Option<Value<Size>>,
    /// The directions.
    pub directions: Directions,
}

impl Ack {
    /// The default length of an ACK in IP bytes: IPv4 with timestamps.
    pub const SIZE: u32 = 52;
}

/// The table `[ack]`.
pub(crate) const TABLE: Table = Table {
    name: "ack",
    about: "A reservation for TCP acknowledgements without data",
    rows: &[&ROWS],
};

type AckRow = Row<Ack>;

const ROWS: &[AckRow] = &[
    AckRow::new(
        "reserve",
        FieldKind::BooleanOrRate,
        "The reserved rate; `true` calculates it from the rate of the opposite direction",
        |cell, ack| set(&mut ack.reserve, reserve(cell)),
    )
    .default("true"),
    AckRow::new(
        "factor",
        FieldKind::Number,
        "How many full data packets one acknowledgement covers",
        factor,
    )
    .default("1.5"),
    row!(Ack: "size": FieldKind::Integer(40, 120) => size, "The IP bytes of one acknowledgement")
        .default("52"),
    row!(Ack: "priority": FieldKind::Integer(0, 7) => priority,
        "The order in which classes get bandwidth that others leave unused, 0 first")
    .default("1"),
    AckRow::new(
        "ceiling",
        FieldKind::Amount,
        "The largest rate of acknowledgements",
        |cell, ack| set(&mut ack.ceiling, ceiling(cell)),
    )
    .default("\"100%\""),
    AckRow::new(
        "queue",
        FieldKind::TextOrTable("queue", "bfifo 10kB"),
        "The queue of its packets",
        |cell, ack| ack.queue = queue::read(cell),
    )
    .default("by the rate"),
    row!(Ack: "burst" => burst,
        "The burst that the class may send at once beyond its rate, in bytes on the wire")
    .default("one full packet"),
    row!(Ack: "direction" => directions, "The directions in which the class exists")
        .default("\"both\""),
];

/// Reads the table; returns `None` if it reserves nothing.
pub(crate) fn read(mut table: Reader<'_, '_>) -> Option<Ack> {
    let mut ack = Ack {
        line: table.line(),
        span: table.span(),
        reserve: implied(AckRate::Formula, &table),
        factor_tenths: 15,
        size: Ack::SIZE,
        priority: 1,
        ceiling: implied(Amount::Share(Share::WHOLE), &table),
        queue: None,
        burst: None,
        directions: Directions::Both,
    };
    field::read(&mut table, ROWS, &(), &mut ack);
    let off = table.kind("reserve") == Some(Kind::Boolean)
        && table.boolean("reserve").is_some_and(|flag| !flag.value);
    (!off).then_some(ack)
}

fn reserve(cell: &mut Cell<'_, '_, '_, ()>) -> Option<Value<AckRate>> {
    if cell.table.kind(cell.key) == Some(Kind::Boolean) {
        return cell.boolean().map(|flag| flag.map(|_| AckRate::Formula));
    }
    let rate: Value<Rate> = cell.parsed()?;
    zero(cell.table, &rate);
    Some(rate.map(AckRate::Rate))
}

fn factor(cell: &mut Cell<'_, '_, '_, ()>, ack: &mut Ack) {
    let Some(factor) = cell.number() else {
        return;
    };
    let tenths = (factor.value * 10.0).round();
    if !(10.0..=1000.0).contains(&tenths) {
        cell.error(
            codes::ACK_RATE,
            factor.span,
            "`factor` is the number of data packets per ACK: 1 to 100",
            "write 1.5, or leave it out",
        );
    }
    ack.factor_tenths = tenths.clamp(10.0, 1000.0) as u32;
}
