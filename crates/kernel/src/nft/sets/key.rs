// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a set is looked up by: nft's types, and values as the kernel holds them.

use crate::nft::control_group;
use weirgate_state::{IpVersion, Key};

/// nft's own numbers for types of set keys (`enum datatypes`, include/datatype.h
/// of nftables), so that `nft list` can print them.
pub(super) const TYPE_NFPROTO: u32 = 2;
pub(super) const TYPE_IPV4: u32 = 7;
pub(super) const TYPE_IPV6: u32 = 8;
pub(super) const TYPE_MAC: u32 = 9;
pub(super) const TYPE_INET_PROTOCOL: u32 = 12;
pub(super) const TYPE_MARK: u32 = 19;
pub(super) const TYPE_CLASSID: u32 = 23;
pub(super) const TYPE_ETHERTYPE: u32 = 10;
pub(super) const TYPE_INET_SERVICE: u32 = 13;
pub(super) const TYPE_TIME_DATE: u32 = 43;
pub(super) const TYPE_CGROUPV2: u32 = 46;

/// The nft type of a key.
pub(super) fn key_type(key: Key) -> u32 {
    match key {
        Key::Address(IpVersion::V4) => TYPE_IPV4,
        Key::Address(IpVersion::V6) => TYPE_IPV6,
        Key::Mac => TYPE_MAC,
        Key::Byte => TYPE_INET_PROTOCOL,
        Key::Short => TYPE_INET_SERVICE,
        Key::Long => TYPE_MARK,
        Key::ControlGroup => TYPE_CGROUPV2,
        Key::Moment => TYPE_TIME_DATE,
    }
}

pub(super) fn key_of(number: u32) -> Option<Key> {
    let all = [
        Key::Address(IpVersion::V4),
        Key::Address(IpVersion::V6),
        Key::Mac,
        Key::Byte,
        Key::Short,
        Key::Long,
        Key::ControlGroup,
        Key::Moment,
    ];
    all.into_iter().find(|key| key_type(*key) == number)
}

pub(super) fn key_bytes(key: Key, value: u128) -> Vec<u8> {
    match key {
        Key::ControlGroup => control_group::number(value),
        _ => value.to_be_bytes()[16 - key.bytes()..].to_vec(),
    }
}
