// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kinds of traffic and their fields.

use super::common::{PACKET, SHORTEST_INTERVAL, SPAN_HINT, STAMP, packet};
use crate::parse::field::LONGEST;
use crate::parse::registry::{Field, Integer, Own, Table, Text, Within, Word, size, time};
use crate::parse::{codes, quic};
use crate::{Amount, TcpSettings, TrafficKind};
use weirgate_document::Reader;
use weirgate_units::{Size, Span};

pub(super) const KIND: Field<Word<KindWord>> = Field::new(
    "kind",
    Word(&[
        ("tcp", KindWord::Tcp),
        ("quic", KindWord::Quic),
        ("udp", KindWord::Udp),
        ("requests", KindWord::Requests),
        ("short-flows", KindWord::ShortFlows),
        ("syns", KindWord::Syns),
        ("voice", KindWord::Voice),
    ]),
    "What is sent",
)
.required("write tcp, quic, udp, requests, short-flows, syns or voice");
const LARGEST_SIZE: Size = Size::bytes(10_000_000_000);
const LARGEST_BUFFER: Size = Size::bytes(1 << 30);
const SIZE_HINT: &str = "write a size, such as `\"5000\"`";

const AMOUNT: Field<Within<Size>> = Field::new(
    "bytes",
    size(Size::bytes(1), LARGEST_BUFFER),
    "How much is sent; only for kind `tcp`",
)
.default("until the run ends");
const WINDOW: Field<Within<Size>> = Field::new(
    "window",
    size(Size::bytes(1_000), LARGEST_BUFFER),
    "The largest window that the receiver offers",
);
const SEND_BUFFER: Field<Within<Size>> = Field::new(
    "send-buffer",
    size(Size::bytes(4_096), LARGEST_BUFFER),
    "The buffer of the sender's socket, for large windows",
)
.default("the kernel's");
const RECEIVE_BUFFER: Field<Within<Size>> = Field::new(
    "receive-buffer",
    size(Size::bytes(4_096), LARGEST_BUFFER),
    "The buffer of the receiver's socket, for large windows",
)
.default("the kernel's");
const CONGESTION: Field<Text> = Field::new(
    "congestion",
    Text,
    "The congestion control: `cubic`, `reno`, `bbr` and so on, or [`prague`](../prague.md), which \
     the lab brings",
)
.default("the kernel's");

pub(crate) const OF_TCP: Table = Table::new(
    "[[traffic]] of TCP",
    "Kind `tcp`: one connection that sends as much as TCP lets it. Kinds `requests` and \
     `short-flows` have these fields too, except `bytes`",
    &[&AMOUNT, &WINDOW, &SEND_BUFFER, &RECEIVE_BUFFER, &CONGESTION],
);

const INTERVAL: Field<Within<Span>> = Field::new(
    "interval",
    time(SHORTEST_INTERVAL, LONGEST),
    "The time between two of them",
)
.required(SPAN_HINT);
const SLOW_INTERVAL: Field<Within<Span>> = Field::new(
    "interval",
    time(Span::from_millis(1), LONGEST),
    "The time between two of them",
)
.required(SPAN_HINT);
const PACKETS: Field<Integer> = Field::new(
    "packets",
    Integer(1, u32::MAX as i64),
    "The most that are sent",
)
.default("no limit");

pub(crate) const OF_UDP: Table = Table::new(
    "[[traffic]] of kind udp",
    "Datagrams at a fixed rate",
    &[&INTERVAL, &PACKET, &PACKETS],
);

const REQUEST: Field<Within<Size>> = Field::new(
    "request",
    size(Size::bytes(1), LARGEST_SIZE),
    "The size of a request",
)
.required(SIZE_HINT);
const RESPONSE: Field<Within<Size>> = Field::new(
    "response",
    size(Size::bytes(1), LARGEST_SIZE),
    "The size of a response",
)
.required(SIZE_HINT);
const THINK: Field<Within<Span>> = Field::new(
    "think",
    time(Span::ZERO, LONGEST),
    "The time from a response to the next request",
)
.default("0");

pub(crate) const OF_REQUESTS: Table = Table::new(
    "[[traffic]] of kind requests",
    "A request and its response over one connection, again and again",
    &[&REQUEST, &RESPONSE, &THINK],
);

const MEAN_GAP: Field<Within<Span>> = Field::new(
    "mean-gap",
    time(Span::from_millis(1), LONGEST),
    "The mean time between starts",
)
.required(SPAN_HINT);
const MEAN_LENGTH: Field<Within<Size>> = Field::new(
    "mean-length",
    size(Size::bytes(1), LARGEST_SIZE),
    "The mean length of a flow",
)
.required(SIZE_HINT);
const SHAPE: Field<Own> = Field::new(
    "shape",
    Own("number above 1, at most 10"),
    "The shape of the Pareto distribution of lengths",
)
.required("write the Pareto shape, such as `shape = 1.4`");
const DRAIN: Field<Within<Span>> = Field::new(
    "drain",
    time(Span::ZERO, LONGEST),
    "The time before the end of a run in which no flow starts, so that all can end",
)
.default("0");
const SIZES: Field<Own> = Field::new(
    "sizes",
    Own("list of ascending sizes"),
    "Bounds that divide flows by size, for the metrics `connect`, `response`, `slowdown`, \
     `started` and `unfinished`. With a name of `mice`, `mice:2000` are flows of at most 2000 \
     bytes (and more than the previous bound), `mice:more` those above all bounds",
);

pub(crate) const OF_SHORT_FLOWS: Table = Table::new(
    "[[traffic]] of kind short-flows",
    "TCP flows that start at random (Poisson), with random lengths (Pareto)",
    &[&MEAN_GAP, &MEAN_LENGTH, &SHAPE, &DRAIN, &SIZES],
);

pub(crate) const OF_SYNS: Table = Table::new(
    "[[traffic]] of kind syns",
    "SYNs to a port that accepts nothing, as to hosts that do not exist: none is answered or \
     retransmitted",
    &[&SLOW_INTERVAL],
);

pub(crate) const OF_VOICE: Table = Table::new(
    "[[traffic]] of kind voice",
    "One datagram in each direction in each interval",
    &[&SLOW_INTERVAL, &PACKET],
);

#[derive(Clone, Copy)]
pub(super) enum KindWord {
    Tcp,
    Quic,
    Udp,
    Requests,
    ShortFlows,
    Syns,
    Voice,
}

pub(super) fn kind(table: &mut Reader<'_, '_>, ipv6: bool) -> Option<TrafficKind> {
    match KIND.get(table)? {
        KindWord::Tcp => tcp(table, true).map(TrafficKind::Tcp),
        KindWord::Quic => quic::settings(table).map(TrafficKind::Quic),
        KindWord::Udp => {
            let interval = INTERVAL.get(table);
            let packet = required_packet(table, ipv6);
            let packets = if PACKETS.is_in(table) {
                PACKETS.get(table).map(|packets| Some(packets as u64))
            } else {
                Some(None)
            };
            Some(TrafficKind::Udp {
                interval: interval?,
                packet: packet?,
                packets: packets?,
            })
        }
        KindWord::Requests => {
            let request = REQUEST.get(table);
            let response = RESPONSE.get(table);
            let think = THINK.or(table, Span::ZERO);
            let tcp = tcp(table, false);
            Some(TrafficKind::Requests {
                request: request?,
                response: response?,
                think: think?,
                tcp: tcp?,
            })
        }
        KindWord::ShortFlows => {
            let mean_gap = MEAN_GAP.get(table);
            let mean_length = MEAN_LENGTH.get(table);
            let shape = shape(table);
            let drain = DRAIN.or(table, Span::ZERO);
            let sizes = sizes(table);
            let tcp = tcp(table, false);
            Some(TrafficKind::ShortFlows {
                mean_gap: mean_gap?,
                mean_length: mean_length?,
                shape: shape?,
                drain: drain?,
                sizes,
                tcp: tcp?,
            })
        }
        KindWord::Syns => {
            let interval = SLOW_INTERVAL.get(table);
            Some(TrafficKind::Syns {
                interval: interval?,
            })
        }
        KindWord::Voice => {
            let interval = SLOW_INTERVAL.get(table);
            let packet = required_packet(table, ipv6);
            Some(TrafficKind::Voice {
                interval: interval?,
                packet: packet?,
            })
        }
    }
}

/// Reads the packet length of a datagram.
fn required_packet(table: &mut Reader<'_, '_>, ipv6: bool) -> Option<u16> {
    let there = PACKET.is_there(table);
    there.then(|| packet(table, ipv6, 8 + STAMP)).flatten()
}

/// Reads a Pareto shape. A distribution with a shape of at most 1 has no mean.
fn shape(table: &mut Reader<'_, '_>) -> Option<f64> {
    if !SHAPE.is_there(table) {
        return None;
    }
    let shape = table.number(SHAPE.name)?;
    if shape.value > 1.0 && shape.value <= 10.0 {
        return Some(shape.value);
    }
    let message = "a Pareto distribution of this shape has no usable mean";
    let hint = "write a number above 1, at most 10";
    table
        .problems()
        .error(codes::LIMIT, shape.span, message, hint);
    None
}

/// Reads the bounds that divide flows by size. They must be strictly ascending.
fn sizes(table: &mut Reader<'_, '_>) -> Vec<Size> {
    let mut found: Vec<Size> = Vec::new();
    for size in table.parsed_list::<Size>(SIZES.name).unwrap_or_default() {
        if found.last().is_none_or(|last| *last < size.value) && size.value > Size::bytes(0) {
            found.push(size.value);
            continue;
        }
        let message = format!("`{}` is no further bound of sizes", size.value);
        let hint = "write sizes above 0, each larger than the one before";
        let problems = table.problems();
        problems.error(codes::LIMIT, size.span, message, hint);
    }
    found
}

fn tcp(table: &mut Reader<'_, '_>, bulk: bool) -> Option<TcpSettings> {
    let mut settings = TcpSettings::default();
    let mut complete = true;
    let mut size = |table: &mut Reader<'_, '_>, of: &Field<Within<Size>>| {
        if !of.is_in(table) {
            return None;
        }
        let size = of.get(table);
        complete &= size.is_some();
        size
    };
    if bulk {
        settings.amount = size(table, &AMOUNT).map(Amount::Bytes);
    }
    settings.window = size(table, &WINDOW);
    settings.send_buffer = size(table, &SEND_BUFFER);
    settings.receive_buffer = size(table, &RECEIVE_BUFFER);
    if let Some(congestion) = CONGESTION.get(table) {
        let plain = congestion
            .value
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
        // The kernel's TCP_CA_NAME_MAX (include/net/tcp.h) is 16 with the terminating zero.
        if plain && !congestion.value.is_empty() && congestion.value.len() < 16 {
            settings.congestion = Some(congestion.value);
        } else {
            let message = format!("`{}` cannot name a congestion control", congestion.value);
            let hint = "write the kernel's name, such as `cubic`, `reno`, `bbr`, or `prague`";
            table
                .problems()
                .error(codes::WORD, congestion.span, message, hint);
            complete = false;
        }
    }
    complete.then_some(settings)
}
