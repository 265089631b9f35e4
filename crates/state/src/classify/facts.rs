// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the row of a field says: its name, its values, where a packet has it.

use crate::classify::value::{Header, HeaderBytes, Key};

/// What is said of a field.
pub(super) struct Facts {
    /// How nft calls it.
    pub(super) name: &'static str,
    /// What a set of its values holds.
    pub(super) key: Option<Key>,
    /// Whether nft has a type of its own for it, and not that of the key.
    pub(super) typed: bool,
    /// Whether its value is a text.
    pub(super) text: bool,
    /// The greatest value that it can have.
    pub(super) greatest: u128,
    /// Where a packet has it.
    pub(super) place: Option<HeaderBytes>,
    /// The bits of those bytes that are its value.
    pub(super) bits: Option<u64>,
    /// What people call it; empty for what holds by the form of a packet.
    pub(super) words: &'static str,
    /// For what the socket has that sends a packet: how the packet's text calls
    /// it.
    pub(super) sender: Option<&'static str>,
}

impl Facts {
    /// A number that stands in no set.
    pub(super) const fn number(name: &'static str, greatest: u128) -> Self {
        Self {
            name,
            key: None,
            typed: false,
            text: false,
            greatest,
            place: None,
            bits: None,
            words: "",
            sender: None,
        }
    }

    pub(super) const fn text(name: &'static str) -> Self {
        Self {
            text: true,
            ..Self::number(name, u32::MAX as u128)
        }
    }

    /// What sets of this key hold.
    pub(super) const fn listed(name: &'static str, key: Key) -> Self {
        Self {
            key: Some(key),
            ..Self::number(name, key.greatest())
        }
    }

    /// The same, of a type of its own.
    pub(super) const fn typed(name: &'static str, key: Key) -> Self {
        Self {
            typed: true,
            ..Self::listed(name, key)
        }
    }

    /// The same, with a greatest value that is not the key's.
    pub(super) const fn to(self, greatest: u128) -> Self {
        Self { greatest, ..self }
    }

    /// The same, in these bytes of the IP header.
    pub(super) const fn ip(self, offset: usize, length: usize) -> Self {
        self.within(Header::Ip, offset, length)
    }

    /// The same, in these bytes of the upper layer's header.
    pub(super) const fn upper(self, offset: usize, length: usize) -> Self {
        self.within(Header::Upper, offset, length)
    }

    const fn within(self, header: Header, offset: usize, length: usize) -> Self {
        let place = Some(HeaderBytes {
            header,
            offset,
            length,
        });
        Self { place, ..self }
    }

    /// The same, in these bits of the bytes.
    pub(super) const fn bits(self, bits: u64) -> Self {
        let bits = Some(bits);
        Self { bits, ..self }
    }

    /// The same with a name for people.
    pub(super) const fn called(self, words: &'static str) -> Self {
        Self { words, ..self }
    }

    /// The same, of the socket that sends a packet.
    pub(super) const fn of_sender(self, word: &'static str) -> Self {
        let sender = Some(word);
        Self { sender, ..self }
    }
}
