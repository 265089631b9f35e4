// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The fields of a traffic entry of kind `quic`.

use super::registry::{Field, Integer, Switch, Table, Within, Word, size};
use crate::{Amount, QuicCongestion, QuicSettings};
use weirgate_document::Reader;
use weirgate_units::Size;

/// The largest number of streams: quinn-proto's limit for streams that the peer opens.
const MOST_STREAMS: i64 = 100;

const AMOUNT: Field<Within<Size>> = Field::new(
    "bytes",
    size(Size::bytes(1), Size::bytes(1 << 30)),
    "How much is sent",
)
.default("until the run ends");
const STREAMS: Field<Integer> = Field::new(
    "streams",
    Integer(1, MOST_STREAMS),
    "The number of streams that carry it in parallel",
)
.default("1");
const CONGESTION: Field<Word<QuicCongestion>> = Field::new(
    "congestion",
    Word(&QuicCongestion::WORDS),
    "The congestion control",
)
.default("`\"cubic\"`");
const ECN: Field<Switch> = Field::new(
    "ecn",
    Switch,
    "Whether packets are sent as ECT(0) and the sender responds to CE marks",
)
.default("false");
const SPIN: Field<Switch> = Field::new(
    "spin",
    Switch,
    "Whether the spin bit may be used; quinn-proto uses it in seven of eight connections, chosen \
     at random",
)
.default("true");

pub(super) const TABLE: Table = Table::new(
    "[[traffic]] of kind quic",
    "One QUIC connection (version 1, [quinn-proto](https://docs.rs/quinn-proto)) that sends \
            as much as its congestion control lets it",
    &[&AMOUNT, &STREAMS, &CONGESTION, &ECN, &SPIN],
);

pub(super) fn settings(table: &mut Reader<'_, '_>) -> Option<QuicSettings> {
    let amount = if AMOUNT.is_in(table) {
        AMOUNT.get(table).map(|size| Some(Amount::Bytes(size)))
    } else {
        Some(None)
    };
    let streams = STREAMS.or(table, 1);
    let congestion = CONGESTION.get(table);
    let ecn = switch(table, &ECN, false);
    let spin = switch(table, &SPIN, true);
    Some(QuicSettings {
        amount: amount?,
        streams: streams? as u16,
        congestion: congestion?,
        ecn: ecn?,
        spin: spin?,
    })
}

fn switch(table: &mut Reader<'_, '_>, of: &Field<Switch>, absent: bool) -> Option<bool> {
    if of.is_in(table) {
        of.get(table).map(|value| value.value)
    } else {
        Some(absent)
    }
}
