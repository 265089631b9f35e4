// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `[[class]]`: a part of the link. What concerns several classes at once is
//! checked in `check`.

pub(crate) mod ack;
pub(crate) mod fair;
pub(crate) mod part;

use crate::amount::Amount;
use crate::class::fair::Fair;
use crate::codes;
use crate::field::{self, Cell, FieldKind, Row, Table, row, set};
use crate::model::Directions;
use crate::named::group::{USABLE, usable};
use crate::queue::{self, Queue};
use crate::read::implied;
use weirgate_document::{Reader, SourceSpan, Value};
use weirgate_units::{Rate, Share, Size, Span};

/// The priority of a class that states none.
const MIDDLE: u8 = 4;

/// The shortest and longest `delay`.
const DELAYS: (Span, Span) = (Span::from_micros(100), Span::from_secs(1));

/// What a class is guaranteed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guarantee {
    /// A part of what reservations by rate leave of the gate.
    Share(Share),
    /// A rate in wire bits.
    Rate(Rate),
}

/// A class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Class {
    /// The line of its table, from 1.
    pub line: u32,
    /// Where its table begins.
    pub span: SourceSpan,
    /// Its name.
    pub name: Value<String>,
    /// What it is guaranteed.
    pub guarantee: Value<Guarantee>,
    /// Its greatest rate, of the gate's.
    pub ceiling: Value<Amount>,
    /// Its priority: 0 first, 7 last.
    pub priority: u8,
    /// Its queue; `None` leaves the choice to crate `compile`.
    pub queue: Option<Value<Queue>>,
    /// Between whom it is shared; `None` leaves it to the link.
    pub fair: Option<Value<Fair>>,
    /// Wire bytes that may be sent at once beyond the guaranteed rate; `None`
    /// leaves the choice to [`Policy::share_out`].
    pub burst: Option<Value<Size>>,
    /// The class of ITU-T Y.1541, 0 to 5, whose delay it should have.
    pub objective: Option<Value<u8>>,
    /// How long one packet of another class may be in its way upstream.
    pub delay: Option<Value<Span>>,
    /// Its directions.
    pub directions: Directions,
    /// Takes what no rule matches; where it says so.
    pub default: Option<SourceSpan>,
}

/// The table.
pub(crate) const TABLE: Table = Table {
    name: "class",
    about: "A part of the link",
    rows: &[&ROWS],
};

type ClassRow = Row<Class>;

const ROWS: &[ClassRow] = &[
    ClassRow::new(
        "name",
        FieldKind::Text("interactive"),
        "Small letters, digits, `-` and `_`, a letter first",
        |cell, class| {
            if let Some(name) = cell.text() {
                check_name(cell.table, &name);
                class.name = name;
            }
        },
    )
    .needed("name the class, such as `name = \"bulk\"`"),
    ClassRow::new(
        "share",
        FieldKind::Share,
        "The guaranteed part of what reservations by rate leave",
        |cell, class| {
            if let Some(share) = share(cell) {
                class.guarantee = share.map(Guarantee::Share);
            }
        },
    ),
    ClassRow::new(
        "rate",
        FieldKind::Rate,
        "The guaranteed rate",
        |cell, class| {
            if let Some(rate) = cell.parsed() {
                zero(cell.table, &rate);
                class.guarantee = rate.map(Guarantee::Rate);
            }
        },
    ),
    ClassRow::new(
        "ceiling",
        FieldKind::Amount,
        "The most that the class gets, even on an idle link",
        |cell, class| set(&mut class.ceiling, ceiling(cell)),
    )
    .default("\"100%\""),
    row!(Class: "priority": FieldKind::Integer(0, 7) => priority,
        "Who gets what other classes leave: 0 first")
    .default("4"),
    ClassRow::new(
        "queue",
        FieldKind::TextOrTable("queue", "fq_codel"),
        "The queue of its packets",
        |cell, class| class.queue = queue::read(cell),
    )
    .default("by the class's rate"),
    row!(Class: "burst" => burst, "What the class may send at once beyond its guaranteed rate")
        .default("by the class's rate"),
    row!(Class: "objective": FieldKind::Integer(0, 5) => objective,
        "The ITU-T Y.1541 class whose delay objective this class should meet"),
    row!(Class: "fair" => fair, "Who shares the class").default("that of the link"),
    row!(Class: "delay" => delay in DELAYS or codes::DELAY,
        "The longest that one packet of another class may block the upstream"),
    ClassRow::new(
        "default",
        FieldKind::Boolean,
        "Whether the class takes packets that no rule matches",
        |cell, class| class.default = cell.flagged(),
    )
    .default("false"),
    row!(Class: "direction" => directions, "The directions in which the class exists")
        .default("\"both\""),
];

/// Reads one class.
pub(crate) fn read(mut table: Reader<'_, '_>) -> Class {
    let mut class = Class {
        line: table.line(),
        span: table.span(),
        name: implied(String::new(), &table),
        guarantee: implied(Guarantee::Share(Share::default()), &table),
        ceiling: implied(Amount::Share(Share::WHOLE), &table),
        priority: MIDDLE,
        queue: None,
        fair: None,
        burst: None,
        objective: None,
        delay: None,
        directions: Directions::Both,
        default: None,
    };
    field::read(&mut table, ROWS, &(), &mut class);
    // A misspelt `default` is one error, not two.
    if table.meant("default") {
        class.default = Some(table.span());
    }
    let guaranteed = match (table.has("share"), table.has("rate")) {
        (true, true) => Err((
            class.guarantee.span.clone(),
            "a class has a share or a rate, not both",
            "keep one of them",
        )),
        (false, false) if !table.meant("share") => Err((
            table.span(),
            "this class is guaranteed nothing",
            "write `share = \"20%\"`, or a rate such as `rate = \"64kbit\"`",
        )),
        _ => Ok(()),
    };
    if let Err((span, message, hint)) = guaranteed {
        table
            .problems()
            .error(codes::GUARANTEE, span, message, hint);
    }
    class
}

fn check_name(table: &Reader<'_, '_>, name: &Value<String>) {
    if !usable(&name.value) {
        let named = name.value.escape_debug();
        let wrong = format!("`{named}` cannot be the name of a class");
        let problems = table.problems();
        problems.error(codes::CLASS_NAME, name.span.clone(), wrong, USABLE);
    }
}

fn share(cell: &mut Cell<'_, '_, '_, ()>) -> Option<Value<Share>> {
    let share: Value<Share> = cell.parsed()?;
    if share.value == Share::default() {
        cell.error(
            codes::SHARE_ZERO,
            share.span.clone(),
            "a class with a share of 0 could starve",
            "write at least `1%`",
        );
    }
    Some(share)
}

/// Reports a rate of 0.
pub(crate) fn zero(table: &Reader<'_, '_>, rate: &Value<Rate>) {
    if rate.value == Rate::default() {
        table.problems().error(
            codes::ZERO_RATE,
            rate.span.clone(),
            "a rate of 0 lets nothing pass",
            "write a rate such as `512kbit`",
        );
    }
}

/// `ceiling` of a class or of `[ack]`.
fn ceiling(cell: &mut Cell<'_, '_, '_, ()>) -> Option<Value<Amount>> {
    let ceiling: Value<Amount> = cell.parsed()?;
    let nothing = [
        Amount::Share(Share::default()),
        Amount::Rate(Rate::default()),
    ];
    let message = match ceiling.value {
        Amount::Share(share) if share > Share::WHOLE => "a ceiling cannot be above the whole link",
        amount if nothing.contains(&amount) => "a ceiling of 0 lets nothing pass",
        _ => return Some(ceiling),
    };
    let hint = "write a part of the link such as `80%`, or leave it out for `100%`";
    cell.error(codes::CEILING, ceiling.span, message, hint);
    None
}
