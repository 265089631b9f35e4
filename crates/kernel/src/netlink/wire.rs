// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads netlink messages without a panic, whatever the bytes are.

use nlink::netlink::AttrIter;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use weirgate_units::Inserted as _;

/// Attributes by type; the last one of a type counts.
pub(crate) struct Attrs<'a>(BTreeMap<u16, &'a [u8]>);

impl<'a> Attrs<'a> {
    /// Returns the attributes of a message or nest.
    pub(crate) fn of(bytes: &'a [u8]) -> Self {
        Self(AttrIter::new(bytes).inserted())
    }

    /// Returns the attributes after a fixed header of `length` bytes.
    pub(crate) fn after(bytes: &'a [u8], length: usize) -> Self {
        Self::of(bytes.get(length..).unwrap_or_default())
    }

    pub(crate) fn bytes(&self, kind: u16) -> Option<&'a [u8]> {
        self.0.get(&kind).copied()
    }

    pub(crate) fn nest(&self, kind: u16) -> Attrs<'a> {
        Self::of(self.bytes(kind).unwrap_or_default())
    }

    /// Returns every attribute as a nest, in the order of types.
    pub(crate) fn nests(&self) -> impl Iterator<Item = Attrs<'a>> {
        self.0.values().map(|bytes| Attrs::of(bytes))
    }

    pub(crate) fn has(&self, kind: u16) -> bool {
        self.0.contains_key(&kind)
    }

    pub(crate) fn u32(&self, kind: u16) -> Option<u32> {
        u32_at(self.bytes(kind)?, 0)
    }

    pub(crate) fn u32_be(&self, kind: u16) -> Option<u32> {
        self.u32(kind).map(u32::from_be)
    }

    pub(crate) fn u64(&self, kind: u16) -> Option<u64> {
        u64_at(self.bytes(kind)?, 0)
    }

    /// Returns a text up to its NUL.
    pub(crate) fn text(&self, kind: u16) -> Option<String> {
        let bytes = self.bytes(kind)?;
        let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
        Some(String::from_utf8_lossy(&bytes[..end]).into_owned())
    }
}

fn array<const N: usize>(bytes: &[u8], offset: usize) -> Option<[u8; N]> {
    bytes.get(offset..)?.get(..N)?.try_into().ok()
}

pub(crate) fn u8_at(bytes: &[u8], offset: usize) -> Option<u8> {
    bytes.get(offset).copied()
}

pub(crate) fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    array(bytes, offset).map(u16::from_ne_bytes)
}

pub(crate) fn i16_at(bytes: &[u8], offset: usize) -> Option<i16> {
    array(bytes, offset).map(i16::from_ne_bytes)
}

pub(crate) fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    array(bytes, offset).map(u32::from_ne_bytes)
}

pub(crate) fn i32_at(bytes: &[u8], offset: usize) -> Option<i32> {
    array(bytes, offset).map(i32::from_ne_bytes)
}

pub(crate) fn u64_at(bytes: &[u8], offset: usize) -> Option<u64> {
    array(bytes, offset).map(u64::from_ne_bytes)
}

/// Reads an address of either IP version.
pub(crate) fn address(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => Some(Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?).into()),
        16 => Some(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?).into()),
        _ => None,
    }
}
