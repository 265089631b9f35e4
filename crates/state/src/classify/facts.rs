// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the row of a field says: its name, its values, where a packet has it.

use crate::classify::value::{Header, HeaderBytes, Key};

/// How a packet's text gives what its sender's socket has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SenderWord {
    /// The word before the value.
    pub word: &'static str,
    /// Whether the value is a path, of which a match compares as many parts as
    /// the field's [level](crate::Field::level) says; otherwise it is a number.
    pub is_path: bool,
}

/// The facts of a field.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
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
    pub(super) header_bytes: Option<HeaderBytes>,
    /// The bits of those bytes that are its value.
    pub(super) bits: Option<u64>,
    /// What people call it; empty for what holds by the form of a packet.
    pub(super) words: &'static str,
    /// For what the socket has that sends a packet: how the packet's text gives
    /// it.
    pub(super) sender: Option<SenderWord>,
    /// Whether the kernel knows it at [`Hook::Output`](crate::Hook::Output) only.
    pub(super) at_output: bool,
    /// Whether there are kernels that do not know it.
    pub(super) optional: bool,
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
            header_bytes: None,
            bits: None,
            words: "",
            sender: None,
            at_output: false,
            optional: false,
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
        let header_bytes = Some(HeaderBytes {
            header,
            offset,
            length,
        });
        Self {
            header_bytes,
            ..self
        }
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

    /// The same, a number of the socket that sends a packet.
    pub(super) const fn of_sender(self, word: &'static str) -> Self {
        let is_path = false;
        let sender = Some(SenderWord { word, is_path });
        Self { sender, ..self }
    }

    /// The same, a path of the socket that sends a packet.
    pub(super) const fn of_sender_path(self, word: &'static str) -> Self {
        let is_path = true;
        let sender = Some(SenderWord { word, is_path });
        Self { sender, ..self }
    }

    /// The same, known at output only.
    pub(super) const fn at_output(self) -> Self {
        Self {
            at_output: true,
            ..self
        }
    }

    /// The same, not known to every kernel.
    pub(super) const fn optional(self) -> Self {
        Self {
            optional: true,
            ..self
        }
    }
}
