// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What rules look at in sessions of PPPoE, as nft(8) would take it: bytes
//! behind the network header (`@nh`, in bits). To nft they are plain numbers,
//! which it looks up in no set of addresses or ports, so the elements of sets
//! are written where they are asked for.

use crate::classify::field::Field;
use crate::classify::frame::Frame;
use crate::classify::value::IpVersion;
use crate::classify::{Content, Table, Values};
use weirgate_units::Handle;

/// The bytes of a field; `None` where the kernel finds it.
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

/// What tells a segment without payload: IP length, header length where it
/// varies, TCP's data offset; `None` where the kernel finds them.
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

/// A test of a field in a session; `None` where the kernel finds the field.
/// `merges` says that nft would make one of two negated tests.
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
    // nft takes no empty list: what is in none is not in the list of all.
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

/// What a map has for a field in a session, written where it is asked for.
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
