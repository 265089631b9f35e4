// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `[[class]]`: a part of the link. Module `check` has the checks that involve several classes.

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

/// The default priority.
const MIDDLE: u8 = 4;

/// The shortest and longest `delay`.
const DELAYS: (Span, Span) = (Span::from_micros(100), Span::from_secs(1));

/// The guarantee of a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guarantee {
    /// A share of what the gate has left after reservations by rate.
    Share(Share),
    /// A rate in wire bits.
    Rate(Rate),
}

/// A class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Class {
    /// The line number of its table, from 1.
    pub line: u32,
    /// The position of its table.
    pub span: SourceSpan,
    /// Its name.
    pub name: Value<String>,
    /// Its guarantee.
    pub guarantee: Value<Guarantee>,
    /// Its ceiling. A share is of the gate's rate.
    pub ceiling: Value<Amount>,
    /// Its priority, from 0 (highest) to 7.
    pub priority: u8,
    /// Its queue; `None` lets crate `compile` choose.
    pub queue: Option<Value<Queue>>,
    /// Between whom it is shared; `None` uses `fair` of the link.
    pub fair: Option<Value<Fair>>,
    /// Wire bytes that it may send at once above the guaranteed rate; `None` lets
    /// [`Policy::share_out`] choose.
    pub burst: Option<Value<Size>>,
    /// The ITU-T Y.1541 class, 0 to 5, whose delay objective it should meet.
    pub objective: Option<Value<u8>>,
    /// The longest time that one packet of another class may block the upstream.
    pub delay: Option<Value<Span>>,
    /// Its directions.
    pub directions: Directions,
    /// The position of `default = true`: it takes packets that no rule matches.
    pub default: Option<SourceSpan>,
}

/// The table `[[class]]`.
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
        "The guaranteed share of the bandwidth that reservations by rate leave",
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
        "The largest rate of the class, even on an idle link",
        |cell, class| set(&mut class.ceiling, ceiling(cell)),
    )
    .default("\"100%\""),
    row!(Class: "priority": FieldKind::Integer(0, 7) => priority,
        "The order in which classes get bandwidth that others leave unused, 0 first")
    .default("4"),
    ClassRow::new(
        "queue",
        FieldKind::TextOrTable("queue", "fq_codel"),
        "The queue of its packets",
        |cell, class| class.queue = queue::read(cell),
    )
    .default("by the class's rate"),
    row!(Class: "burst" => burst,
        "The burst that the class may send at once beyond its guaranteed rate, in bytes on the \
         wire")
    .default("by the class's rate"),
    row!(Class: "objective": FieldKind::Integer(0, 5) => objective,
        "The ITU-T Y.1541 class whose delay objective this class should meet"),
    row!(Class: "fair" => fair,
        "Between whom the class is shared: flows, hosts and then their flows, or hosts only")
    .default("that of the link"),
    row!(Class: "delay" => delay in DELAYS or codes::DELAY,
        "The longest time that a packet of another class may occupy the upstream; TCP's MSS is \
         lowered for it"),
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
    // If `default` is misspelt, report only the misspelling.
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

/// Reads `ceiling` of a class or of `[ack]`.
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
