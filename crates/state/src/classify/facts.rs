// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The facts about a field: its name, its values, and where a packet has it.

use crate::classify::value::{Header, HeaderBytes, Key};

/// How the text form of a packet states a property of the sending socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SenderWord {
    /// The word before the value.
    pub word: &'static str,
    /// Whether the value is a path; otherwise it is a number. A match compares as many parts of the
    /// path as the field's [level](crate::Field::level) says.
    pub is_path: bool,
}

/// The facts of a field.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(super) struct Facts {
    /// Its name in nft.
    pub(super) name: &'static str,
    /// The key type of a set of its values.
    pub(super) key: Option<Key>,
    /// Whether nft has a type for it that differs from that of the key.
    pub(super) typed: bool,
    /// Whether its value is a text.
    pub(super) text: bool,
    /// Its greatest value.
    pub(super) greatest: u128,
    /// The header bytes that contain it.
    pub(super) header_bytes: Option<HeaderBytes>,
    /// The bits of those bytes that are its value.
    pub(super) bits: Option<u64>,
    /// Its name in messages; empty for a field that only describes the form of a packet.
    pub(super) words: &'static str,
    /// For a property of the sending socket: how the text form of a packet states it.
    pub(super) sender: Option<SenderWord>,
    /// Whether the kernel knows it at [`Hook::Output`](crate::Hook::Output) only.
    pub(super) at_output: bool,
    /// Whether some kernels do not know it.
    pub(super) optional: bool,
}

impl Facts {
    /// Describes a number that is in no set.
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

    /// Describes a field whose values are elements of sets with this key.
    pub(super) const fn listed(name: &'static str, key: Key) -> Self {
        Self {
            key: Some(key),
            ..Self::number(name, key.greatest())
        }
    }

    /// Describes a field of sets with this key that has its own type in nft.
    pub(super) const fn typed(name: &'static str, key: Key) -> Self {
        Self {
            typed: true,
            ..Self::listed(name, key)
        }
    }

    /// Sets a greatest value that differs from the key's.
    pub(super) const fn to(self, greatest: u128) -> Self {
        Self { greatest, ..self }
    }

    /// Sets its bytes in the IP header.
    pub(super) const fn ip(self, offset: usize, length: usize) -> Self {
        self.within(Header::Ip, offset, length)
    }

    /// Sets its bytes in the upper layer's header.
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

    /// Sets its bits within the bytes.
    pub(super) const fn bits(self, bits: u64) -> Self {
        let bits = Some(bits);
        Self { bits, ..self }
    }

    /// Sets its name in messages.
    pub(super) const fn called(self, words: &'static str) -> Self {
        Self { words, ..self }
    }

    /// Makes it a number that is a property of the sending socket.
    pub(super) const fn of_sender(self, word: &'static str) -> Self {
        let is_path = false;
        let sender = Some(SenderWord { word, is_path });
        Self { sender, ..self }
    }

    /// Makes it a path that is a property of the sending socket.
    pub(super) const fn of_sender_path(self, word: &'static str) -> Self {
        let is_path = true;
        let sender = Some(SenderWord { word, is_path });
        Self { sender, ..self }
    }

    /// Makes it known at output only.
    pub(super) const fn at_output(self) -> Self {
        Self {
            at_output: true,
            ..self
        }
    }

    /// Makes it unknown to some kernels.
    pub(super) const fn optional(self) -> Self {
        Self {
            optional: true,
            ..self
        }
    }
}
