// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The nft(8) text of fields in PPPoE sessions: bytes relative to the network header (`@nh`, in
//! bits). To nft these are plain numbers, which it does not look up in sets of addresses or ports.
//! So the elements of a set are written into the rule.

use crate::classify::field::Field;
use crate::classify::frame::Frame;
use crate::classify::value::IpVersion;
use crate::classify::{Content, Table, Values};
use weirgate_units::Handle;

/// Returns the bytes of a field; `None` if the kernel locates it.
pub(crate) fn bytes_text(frame: Frame, field: Field) -> Option<String> {
    let location = frame.location(field)?;
    let bytes = at(location);
    Some(match field.bits() {
        Some(mask) => format!("{bytes} & {mask:#x}"),
        None => bytes,
    })
}

fn at((offset, length): (usize, usize)) -> String {
    format!("@nh,{},{}", offset * 8, length * 8)
}

/// Returns the key that identifies a segment without payload: IP length, header length if it
/// varies, and TCP's data offset. Returns `None` if the kernel locates these fields.
pub(crate) fn empty_text(frame: Frame) -> Option<String> {
    let Frame::Session(version) = frame else {
        return None;
    };
    let (ip, header) = frame.fixed()?;
    let length = at(frame.location(Field::Length(version))?);
    let offset = (ip + header + 12) * 8;
    Some(match version {
        IpVersion::V4 => format!("{length} . @nh,{},4 . @nh,{offset},4", ip * 8 + 4),
        IpVersion::V6 => format!("{length} . @nh,{offset},4"),
    })
}

/// Returns the text of a test of a field in a session; `None` if the kernel locates the field.
/// `merges` says that nft would merge two negated tests.
pub(crate) fn session_text(
    (frame, merges): (Frame, bool),
    field: Field,
    negated: bool,
    values: &Values,
    table: &Table,
) -> Option<String> {
    let (_, length) = frame.location(field)?;
    let name = bytes_text(frame, field)?;
    let ranges: Vec<(u128, u128)> = match values {
        Values::Range(from, to) => vec![(field.raw(*from), field.raw(*to))],
        Values::Text(_) => Vec::new(),
        Values::Set(set) => match table.set(set).map(|set| &set.content) {
            Some(Content::Fixed(elements)) => elements.clone(),
            Some(Content::Refreshed(now)) => now.found.iter().map(|one| (*one, *one)).collect(),
            _ => Vec::new(),
        },
    };
    // nft accepts no empty list, so write the full range and invert the test.
    let (negated, ranges) = match ranges.as_slice() {
        [] => (!negated, vec![(0, u128::MAX >> (128 - length * 8))]),
        _ => (negated, ranges),
    };
    let sign = match negated {
        true => "!= ",
        false if name.contains('&') => "== ",
        false => "",
    };
    Some(match ranges.as_slice() {
        [(from, to)] if negated && merges => format!("{name} {sign}{from:#x}-{to:#x}"),
        [(from, to)] => format!("{name} {sign}{}", range(*from, *to)),
        many => {
            let list: Vec<String> = many.iter().map(|(from, to)| range(*from, *to)).collect();
            format!("{name} {sign}{{ {} }}", list.join(", "))
        }
    })
}

/// Returns the text of a map lookup of a field in a session, with the elements in the rule.
pub(crate) fn map_text(frame: Frame, field: Field, map: &str, table: &Table) -> Option<String> {
    let name = bytes_text(frame, field)?;
    let Some(Content::Classes(elements)) = table.set(map).map(|set| &set.content) else {
        return None;
    };
    let each =
        |(from, to, class): &(u128, u128, Handle)| format!("{} : {class}", range(*from, *to));
    let list: Vec<String> = elements.iter().map(each).collect();
    Some(format!("{name} map {{ {} }}", list.join(", ")))
}

fn range(from: u128, to: u128) -> String {
    if from == to {
        format!("{from:#x}")
    } else {
        format!("{from:#x}-{to:#x}")
    }
}
