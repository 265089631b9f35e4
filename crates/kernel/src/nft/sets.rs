// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The constant sets that rules look things up in.
//!
//! A TCP segment carries nothing if its IP length is the sum of both header
//! lengths. nf_tables cannot add, so every combination that is possible is in
//! a set: 11 x 11 for IPv4, 11 for IPv6 without extension headers. An IPv6
//! packet with extension headers is taken for one with payload.

use super::{NEWSET, NEWSETELEM, family, message};
use nlink::netlink::MessageBuilder;
use std::collections::BTreeSet;
use weirgate_state::PROTOCOLS_WITH_PORTS;

const NFTA_SET_TABLE: u16 = 1;
const NFTA_SET_NAME: u16 = 2;
const NFTA_SET_FLAGS: u16 = 3;
const NFTA_SET_KEY_TYPE: u16 = 4;
const NFTA_SET_KEY_LEN: u16 = 5;
const NFTA_SET_DESC: u16 = 9;
const NFTA_SET_DESC_SIZE: u16 = 1;
const NFTA_SET_ID: u16 = 10;
const NFTA_SET_ELEM_LIST_TABLE: u16 = 1;
const NFTA_SET_ELEM_LIST_SET: u16 = 2;
pub(crate) const NFTA_SET_ELEM_LIST_ELEMENTS: u16 = 3;
const NFTA_SET_ELEM_LIST_SET_ID: u16 = 4;
pub(crate) const NFTA_SET_ELEM_KEY: u16 = 1;
const NFTA_LIST_ELEM: u16 = 1;
pub(crate) const NFTA_DATA_VALUE: u16 = 1;
const NFT_SET_CONSTANT: u32 = 2;
const NLM_F_CREATE: u16 = 0x400;

/// nft's own numbers for types of set keys, so that `nft list` can print them.
const TYPE_INET_PROTOCOL: u32 = 12;
const TYPE_INET_SERVICE: u32 = 13;

/// One of the sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ConstantSet {
    /// `ip length . version-and-header-length . data-offset`, each as the two
    /// bytes where it stands, other bits cleared.
    TcpEmptyV4,
    /// `payload length . data-offset` alike.
    TcpEmptyV6,
    /// Protocols whose header begins with two ports.
    PortProtocols,
}

impl ConstantSet {
    pub(crate) const ALL: [Self; 3] = [Self::TcpEmptyV4, Self::TcpEmptyV6, Self::PortProtocols];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::TcpEmptyV4 => "tcp_empty_v4",
            Self::TcpEmptyV6 => "tcp_empty_v6",
            Self::PortProtocols => "port_protocols",
        }
    }

    fn key_type(self) -> u32 {
        let join = |count| (0..count).fold(0, |all, _| (all << 6) | TYPE_INET_SERVICE);
        match self {
            Self::TcpEmptyV4 => join(3),
            Self::TcpEmptyV6 => join(2),
            Self::PortProtocols => TYPE_INET_PROTOCOL,
        }
    }

    fn key_length(self) -> u32 {
        match self {
            Self::TcpEmptyV4 => 12,
            Self::TcpEmptyV6 => 8,
            Self::PortProtocols => 1,
        }
    }

    /// Its elements as the kernel holds them: each part in network order,
    /// padded to four bytes.
    pub(crate) fn elements(self) -> BTreeSet<Vec<u8>> {
        let part = |value: u16| {
            let bytes = value.to_be_bytes();
            [bytes[0], bytes[1], 0, 0]
        };
        // Header lengths in 32-bit words: RFC 791 section 3.1, RFC 9293
        // section 3.1.
        let words = 5_u16..=15;
        match self {
            Self::TcpEmptyV4 => words
                .clone()
                .flat_map(|ip| words.clone().map(move |tcp| (ip, tcp)))
                .map(|(ip, tcp)| [part((ip + tcp) * 4), part(ip << 8), part(tcp << 12)].concat())
                .collect(),
            Self::TcpEmptyV6 => words
                .map(|tcp| [part(tcp * 4), part(tcp << 12)].concat())
                .collect(),
            Self::PortProtocols => PROTOCOLS_WITH_PORTS
                .iter()
                .map(|number| vec![*number])
                .collect(),
        }
    }

    /// The messages that make it in a transaction; `id` is its number there.
    pub(crate) fn create(self, netdev: bool, table: &str, id: u32) -> [MessageBuilder; 2] {
        let elements = self.elements();
        let mut set = message(NEWSET, NLM_F_CREATE, family(netdev));
        set.append_attr_str(NFTA_SET_TABLE, table);
        set.append_attr_str(NFTA_SET_NAME, self.name());
        set.append_attr_u32_be(NFTA_SET_FLAGS, NFT_SET_CONSTANT);
        set.append_attr_u32_be(NFTA_SET_KEY_TYPE, self.key_type());
        set.append_attr_u32_be(NFTA_SET_KEY_LEN, self.key_length());
        let desc = set.nest_start(NFTA_SET_DESC);
        set.append_attr_u32_be(NFTA_SET_DESC_SIZE, elements.len() as u32);
        set.nest_end(desc);
        set.append_attr_u32_be(NFTA_SET_ID, id);
        let mut list = message(NEWSETELEM, NLM_F_CREATE, family(netdev));
        list.append_attr_str(NFTA_SET_ELEM_LIST_TABLE, table);
        list.append_attr_str(NFTA_SET_ELEM_LIST_SET, self.name());
        list.append_attr_u32_be(NFTA_SET_ELEM_LIST_SET_ID, id);
        let nest = list.nest_start(NFTA_SET_ELEM_LIST_ELEMENTS);
        for element in elements {
            let item = list.nest_start(NFTA_LIST_ELEM);
            let key = list.nest_start(NFTA_SET_ELEM_KEY);
            list.append_attr(NFTA_DATA_VALUE, &element);
            list.nest_end(key);
            list.nest_end(item);
        }
        list.nest_end(nest);
        [set, list]
    }

    /// Asks for its elements.
    pub(crate) fn list(self, netdev: bool, table: &str) -> MessageBuilder {
        let mut message = message(super::GETSETELEM, 0, family(netdev));
        message.append_attr_str(NFTA_SET_ELEM_LIST_TABLE, table);
        message.append_attr_str(NFTA_SET_ELEM_LIST_SET, self.name());
        message
    }
}
