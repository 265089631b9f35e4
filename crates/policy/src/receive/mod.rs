// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `[receive]`: how senders beyond the line are limited from the receiving side. TCP is limited
//! by receive windows, and datagram streams by states or a token bucket (Shah 1999, chapter 5).

use crate::amount::Amount;
use crate::codes;
use crate::condition::mark::Mark;
use crate::condition::number::number;
use crate::field::{self, Cell, FieldKind, Row, Table, Word, row, words};
use crate::read::{implied, in_two, word};
use weirgate_document::{Kind, Reader, SourceSpan, Value};
use weirgate_units::{Rate, Size, Span};

/// The table `[receive]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receive {
    /// The line number of the table, from 1.
    pub line: u32,
    /// The position of the table.
    pub span: SourceSpan,
    /// TCP payload rate shared by connections whose class has no rate in `class`.
    pub rate: Option<Value<Amount>>,
    /// Classes with their own rates. The connections of each class share its rate.
    pub classes: Vec<(Value<String>, Amount)>,
    /// Classes whose connections are not limited.
    pub protect: Vec<Value<String>>,
    /// The mark of packets in either direction whose connections and streams are not limited.
    pub protect_mark: Option<Value<Mark>>,
    /// Between whom a rate is shared.
    pub share: Option<Value<Sharing>>,
    /// How windows are chosen.
    pub algorithm: Option<Value<Algorithm>>,
    /// A fixed window for every connection.
    pub window: Option<Value<Size>>,
    /// The MSS announced to senders outside: the option of RFC 9293 section 3.7.1.
    pub mss: Option<Value<Asked>>,
    /// With [`Asked::Share`]: the round-trip time assumed for hosts without a measured one, like
    /// `kInitialRtt` of RFC 9002 section 6.2.2.
    pub initial_rtt: Option<Value<Span>>,
    /// The most that a connection can save up or overdraw, as a time at the rate.
    pub horizon: Option<Value<Span>>,
    /// The longest time that an acknowledgement is delayed.
    pub max_ack_delay: Option<Value<Span>>,
    /// The receive window before any data has arrived: what a sender may send at once.
    pub initial_window: Option<Value<Size>>,
    /// The largest receive window of any connection.
    pub max_window: Option<Value<Size>>,
    /// Whether windows also limit L4S senders.
    pub l4s: bool,
    /// How rates are measured.
    pub measured: Meters,
    /// The limit of datagram streams.
    pub udp: Option<ReceiveUdp>,
    /// What to do while a program announces a session of high priority.
    pub announced: Option<Announced>,
}

/// `[receive.announced]`: how room is made while a session of high priority is announced.
/// Connections of protected classes, or with the protecting mark, are not affected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Announced {
    /// The position of the table.
    pub span: SourceSpan,
    /// The MSS that new connections announce.
    pub mss: Option<Value<u16>>,
    /// Whether older connections that have received more than 100 kB are reset.
    pub reset: bool,
}

/// The table `[receive.udp]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceiveUdp {
    /// The line number of the table, from 1.
    pub line: u32,
    /// The largest rate of each stream, in IP bits.
    pub rate: Value<Amount>,
    /// Whether a token bucket limits the streams, and not states.
    pub bucket: bool,
    /// The burst of the token bucket.
    pub burst: Option<Value<Size>>,
    /// How long packets of a stream above the rate are dropped.
    pub drop: Option<Value<Span>>,
    /// How long its packets then pass before its rate is measured again.
    pub warn: Option<Value<Span>>,
    /// The bits of a packet's mark that request that it is rejected.
    pub mark: Option<Value<u32>>,
    /// How rates are measured.
    pub measured: Meters,
}

/// How a rate is measured (Shah 1999, section 5.1).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Meters {
    /// The duration of one chunk of the measurement.
    pub chunk: Option<Value<Span>>,
    /// The number of chunks that are averaged.
    pub chunks: Option<u32>,
    /// The silence after which the measured rate is forgotten.
    pub age: Option<Value<Span>>,
}

/// The MSS announced to senders beyond the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// A number of bytes.
    Bytes(u16),
    /// The number of bytes that the connection may receive in a round trip.
    Share,
}

/// Between whom a rate is shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// Between connections, regardless of the host.
    Connections,
    /// Between inside hosts, and for each host between its connections.
    Hosts,
}

/// How receive windows are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Algorithm {
    /// The right edge of the window advances at the rate.
    #[default]
    Ours,
    /// Shah's algorithm 1.
    Shah1,
    /// Shah's algorithm 2.
    Shah2,
}

/// The smallest MSS that is announced (TCP_MIN_MSS, net/tcp.h).
pub(crate) const LEAST_ASKED: u32 = 88;

/// Bounds of windows that can limit a connection. With the largest scale, 14, a window has 30
/// bits (RFC 7323 section 2.3).
const WINDOWS: (Size, Size) = (Size::bytes(1), Size::bytes(1 << 30));

/// Bounds of windows before the peer has announced its scale: 16 bits.
const UNSCALED: (Size, Size) = (Size::bytes(1), Size::bytes(65_535));

/// Bounds of times, and of the duration of a chunk.
const TIMES: (Span, Span) = (Span::from_millis(1), Span::from_secs(3600));
const CHUNKS: (Span, Span) = (Span::from_millis(1), Span::from_secs(10));

/// The default mark bit that requests rejection. It is next to the bits for payloads.
pub const REFUSE_MARK: u32 = 0x0800_0000;

words!(Sharing: "connections" => Self::Connections, "hosts" => Self::Hosts);

words!(Algorithm: "ours" => Self::Ours, "shah-1" => Self::Shah1, "shah-2" => Self::Shah2);

/// The methods that limit datagram streams to a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    States,
    Bucket,
}

words!(Mode: "states" => Self::States, "bucket" => Self::Bucket);

/// The table `[receive]`.
pub(crate) const TABLE: Table = Table {
    name: "receive",
    about: "How the receiving side limits remote senders to a rate",
    rows: &[&ROWS, &METERS],
};

/// The table `[receive.udp]`.
pub(crate) const UDP: Table = Table {
    name: "udp",
    about: "How streams of datagrams are limited to a rate",
    rows: &[&UDP_ROWS, &METERS],
};

/// The table `[receive.announced]`.
pub(crate) const ANNOUNCED: Table = Table {
    name: "announced",
    about: "How TCP is reduced while a session of high priority is announced",
    rows: &[&ANNOUNCED_ROWS],
};

type ReceiveRow = Row<Receive>;
type MeterRow = Row<Meters>;
type UdpRow = Row<ReceiveUdp>;

const ROWS: &[ReceiveRow] = &[
    row!(Receive: "rate" => rate,
        "TCP payload rate shared by connections whose class has no rate in `class`"),
    ReceiveRow::new(
        "class",
        FieldKind::Map,
        "Classes with rates of their own; the connections of each share its rate",
        |cell, receive| receive.classes = classes(cell),
    ),
    row!(Receive: "protect": FieldKind::List("interactive") => protect,
        "Classes whose connections are not limited"),
    row!(Receive: "protect-mark": FieldKind::Text("0x100/0xf00") => protect_mark,
        "Connections with a packet of this mark, in either direction, are not limited"),
    row!(Receive: "share" => share,
        "Whether a rate is shared by connections or by hosts; by default as `fair` of the link"),
    row!(Receive: "algorithm" => algorithm, "How receive windows are chosen").default("\"ours\""),
    row!(Receive: "window" => window in WINDOWS or codes::RECEIVE,
        "A fixed receive window"),
    ReceiveRow::new(
        "mss",
        FieldKind::Setting("auto"),
        "The MSS announced to senders outside, in bytes; `auto`: by what a connection may send",
        |cell, receive| receive.mss = asked(cell),
    )
    .formerly(&["segment"]),
    row!(Receive: "initial-rtt" => initial_rtt in TIMES or codes::RECEIVE,
        "With `mss = \"auto\"`: the round trip assumed for hosts without a measured one")
    .formerly(&["round-trip"]),
    row!(Receive: "horizon" => horizon in TIMES or codes::RECEIVE,
        "The most that a connection can save or overdraw, as a time at its rate"),
    row!(Receive: "max-ack-delay" => max_ack_delay in TIMES or codes::RECEIVE,
        "The longest time that an acknowledgement is held back")
    .formerly(&["hold"]),
    row!(Receive: "initial-window" => initial_window in UNSCALED or codes::RECEIVE,
        "The receive window before any data: what a sender may send at once")
    .formerly(&["initial"]),
    row!(Receive: "max-window" => max_window in WINDOWS or codes::RECEIVE,
        "The largest receive window of any connection")
    .formerly(&["limit"]),
    row!(Receive: "l4s" => l4s,
        "Whether windows also limit L4S senders, which use ECT(1)")
    .default("false"),
    ReceiveRow::new(
        "udp",
        FieldKind::Table("udp"),
        "How streams of datagrams are limited",
        |cell, receive| receive.udp = cell.table().and_then(read_udp),
    ),
    ReceiveRow::new(
        "announced",
        FieldKind::Table("announced"),
        "How TCP is reduced while a session of high priority is announced",
        |cell, receive| receive.announced = cell.table().map(read_announced),
    ),
];

const METERS: &[MeterRow] = &[
    row!(Meters: "chunk" => chunk in CHUNKS or codes::RECEIVE,
        "The length of one interval of the rate measurement"),
    row!(Meters: "chunks": FieldKind::Integer(1, 64) => chunks,
        "The number of intervals over which the rate is averaged"),
    row!(Meters: "age" => age in TIMES or codes::RECEIVE,
        "The silence after which the measured rate is forgotten"),
];

const UDP_ROWS: &[UdpRow] = &[
    row!(ReceiveUdp: "rate" => rate, "The most that each stream may have, in IP bits")
        .needed("state what each stream may have, such as `rate = \"2mbit\"`"),
    UdpRow::new(
        "mode",
        Mode::KIND,
        "How a stream is limited: by a token bucket, or by states that drop, wait and at last \
         reject it",
        |cell, udp| {
            udp.bucket = cell
                .word::<Mode>()
                .is_some_and(|mode| mode.value == Mode::Bucket);
        },
    )
    .default("\"states\""),
    row!(ReceiveUdp: "burst" => burst, "The size of the token bucket, in IP bytes"),
    row!(ReceiveUdp: "drop-time" => drop in TIMES or codes::RECEIVE,
        "How long packets of a stream above the rate are dropped"),
    row!(ReceiveUdp: "warn-time" => warn in TIMES or codes::RECEIVE,
        "How long its packets are then delivered before its rate is judged again"),
    UdpRow::new(
        "mark",
        FieldKind::Text("0x08000000"),
        "The bits of a packet's mark that request its rejection",
        |cell, udp| udp.mark = cell.understood(codes::MARK, bits),
    )
    .default("\"0x08000000\""),
];

const ANNOUNCED_ROWS: &[Row<Announced>] = &[
    row!(Announced: "mss": FieldKind::Integer(88, 9000) => mss,
        "The MSS that new connections announce, in bytes")
    .formerly(&["segment"]),
    row!(Announced: "reset" => reset,
        "Whether older connections that received more than 100 kB are reset")
    .default("false"),
];

/// Reads the table.
pub(crate) fn read(mut table: Reader<'_, '_>) -> Receive {
    let mut receive = Receive::new(table.line(), table.span());
    field::read(&mut table, ROWS, &(), &mut receive);
    field::read(&mut table, METERS, &(), &mut receive.measured);
    receive
}

/// Reads `[receive.class]`: the rates of classes.
fn classes(cell: &mut Cell<'_, '_, '_, ()>) -> Vec<(Value<String>, Amount)> {
    let Some(mut table) = cell.table() else {
        return Vec::new();
    };
    let mut classes = Vec::new();
    for name in table.keys() {
        let Some(text) = table.entry_text(&name) else {
            continue;
        };
        match text.value.parse::<Amount>() {
            Ok(amount) => classes.push((name, amount)),
            Err(error) => {
                let (wrong, right) = in_two(&error);
                cell.error(codes::RECEIVE, text.span, wrong, right);
            }
        }
    }
    classes
}

/// Reads `mss`: a number of bytes or a word. The lower bound is the kernel's (TCP_MIN_MSS,
/// net/tcp.h).
fn asked(cell: &mut Cell<'_, '_, '_, ()>) -> Option<Value<Asked>> {
    if cell.table.kind(cell.key) == Some(Kind::Text) {
        return word(cell.table, cell.key, &[("auto", Asked::Share)]);
    }
    let bytes = cell.table.integer(cell.key, LEAST_ASKED.into()..=9000)?;
    Some(bytes.map(|bytes| Asked::Bytes(bytes as u16)))
}

fn read_announced(mut table: Reader<'_, '_>) -> Announced {
    let mut announced = Announced {
        span: table.span(),
        mss: None,
        reset: false,
    };
    field::read(&mut table, ANNOUNCED_ROWS, &(), &mut announced);
    announced
}

fn read_udp(mut table: Reader<'_, '_>) -> Option<ReceiveUdp> {
    let unread = implied(Amount::Rate(Rate::default()), &table);
    let mut udp = ReceiveUdp {
        line: table.line(),
        rate: unread.clone(),
        bucket: false,
        burst: None,
        drop: None,
        warn: None,
        mark: None,
        measured: Meters::default(),
    };
    field::read(&mut table, UDP_ROWS, &(), &mut udp);
    field::read(&mut table, METERS, &(), &mut udp.measured);
    let bucket = udp.bucket;
    let span = |value: &Option<Value<Span>>| value.as_ref().map(|value| value.span.clone());
    let (others, other): (&[_], _) = if bucket {
        (
            &[
                ("drop-time", span(&udp.drop)),
                ("warn-time", span(&udp.warn)),
                ("mark", udp.mark.as_ref().map(|mark| mark.span.clone())),
            ],
            "states",
        )
    } else {
        let burst = udp.burst.as_ref().map(|burst| burst.span.clone());
        (&[("burst", burst)], "bucket")
    };
    for (key, span) in others {
        if let Some(span) = span {
            table.problems().error(
                codes::RECEIVE,
                span.clone(),
                format!("`{key}` belongs to `mode = \"{other}\"`"),
                "leave it out, or choose the other mode",
            );
        }
    }
    (udp.rate != unread).then_some(udp)
}

/// Reads `mark` of `[receive.udp]`.
fn bits(text: &str) -> Result<u32, (String, String)> {
    match number(text)? {
        0 => Err((
            "a mark of 0 has no bits".to_owned(),
            "write a bit, such as `0x08000000`".to_owned(),
        )),
        mark => Ok(mark),
    }
}

impl Receive {
    /// Returns a table without settings.
    pub(crate) fn new(line: u32, span: SourceSpan) -> Self {
        Self {
            line,
            span,
            rate: None,
            classes: Vec::new(),
            protect: Vec::new(),
            protect_mark: None,
            share: None,
            algorithm: None,
            window: None,
            mss: None,
            initial_rtt: None,
            horizon: None,
            max_ack_delay: None,
            initial_window: None,
            max_window: None,
            l4s: false,
            measured: Meters::default(),
            udp: None,
            announced: None,
        }
    }

    /// Returns whether weirgate sets receive windows.
    #[must_use]
    pub const fn chooses(&self) -> bool {
        self.holds() || self.announced.is_some()
    }

    /// Returns the fields, as written, that apply only to the algorithm `ours`.
    pub(crate) fn of_ours(&self) -> Vec<(&'static str, &SourceSpan)> {
        let fields = [
            self.horizon.as_ref().map(|one| ("horizon", &one.span)),
            self.max_ack_delay
                .as_ref()
                .map(|one| ("max-ack-delay", &one.span)),
            self.initial_window
                .as_ref()
                .map(|one| ("initial-window", &one.span)),
        ];
        fields.into_iter().flatten().collect()
    }

    /// Returns whether windows limit senders even without an announced session.
    #[must_use]
    pub const fn holds(&self) -> bool {
        self.keeps_to_rates()
            || self.window.is_some()
            || self.initial_window.is_some()
            || self.max_window.is_some()
    }

    /// Returns whether windows limit senders to rates.
    #[must_use]
    pub const fn keeps_to_rates(&self) -> bool {
        self.rate.is_some() || !self.classes.is_empty()
    }
}
