// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Attributes as bytes, with the flags of their types, to convert a listing to a request.

use crate::netlink::wire;
use nlink::netlink::attr::NLA_TYPE_MASK;

/// Returns attributes in order, without flags in their types.
pub(super) fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    flagged(bytes).map(|(kind, payload)| (kind & NLA_TYPE_MASK, payload))
}

/// Returns attributes in order, with flags in their types, such as that of nests.
fn flagged(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let length = usize::from(wire::u16_at(rest, 0)?);
        let kind = wire::u16_at(rest, 2)?;
        let payload = rest.get(4..length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, payload))
    })
}

/// Appends an attribute.
pub(super) fn put(out: &mut Vec<u8>, kind: u16, payload: &[u8]) {
    let length = u16::try_from(payload.len() + 4).unwrap_or(u16::MAX);
    out.extend(length.to_ne_bytes());
    out.extend(kind.to_ne_bytes());
    out.extend(payload);
    out.resize(out.len().next_multiple_of(4), 0);
}

/// Returns the same attributes with changed contents.
pub(super) fn changed(bytes: &[u8], change: impl Fn(u16, &mut [u8])) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    for (kind, payload) in flagged(bytes) {
        let mut payload = payload.to_vec();
        change(kind & NLA_TYPE_MASK, &mut payload);
        put(&mut out, kind, &payload);
    }
    out
}

/// Returns the same attributes except for these.
pub(super) fn without(bytes: &[u8], left_out: &[u16]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    for (kind, payload) in flagged(bytes) {
        if !left_out.contains(&(kind & NLA_TYPE_MASK)) {
            put(&mut out, kind, payload);
        }
    }
    out
}
