// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The fields of a traffic entry of kind `quic`.

use super::field;
use crate::{Amount, QuicCongestion, QuicSettings};
use weirgate_document::Reader;
use weirgate_units::Size;

/// The most streams of a connection: what quinn-proto lets its peer open.
const MOST_STREAMS: i64 = 100;

pub(super) fn settings(table: &mut Reader<'_, '_>) -> Option<QuicSettings> {
    let amount = if table.has("bytes") {
        let (least, most) = (Size::bytes(1), Size::bytes(1 << 30));
        field::size(table, "bytes", least, most).map(|size| Some(Amount::Bytes(size)))
    } else {
        Some(None)
    };
    let streams = if table.has("streams") {
        table.integer("streams", 1..=MOST_STREAMS).map(|n| n.value)
    } else {
        Some(1)
    };
    let congestion = field::word(table, "congestion", &QuicCongestion::WORDS);
    let ecn = switch(table, "ecn", false);
    let spin = switch(table, "spin", true);
    Some(QuicSettings {
        amount: amount?,
        streams: streams? as u16,
        congestion: congestion?,
        ecn: ecn?,
        spin: spin?,
    })
}

fn switch(table: &mut Reader<'_, '_>, key: &'static str, absent: bool) -> Option<bool> {
    if table.has(key) {
        table.boolean(key).map(|value| value.value)
    } else {
        Some(absent)
    }
}
