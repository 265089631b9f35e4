// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Keys, which identify the circuit of a packet.

mod address;
mod mac;
mod session;
mod vlan;

pub use address::Prefix;
pub use mac::Mac;
pub use session::Session;
use std::fmt;
pub use vlan::Vlan;

/// A property of packets that identifies their circuit. The variants are in the order of lookup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// The subscriber's IP address, or a prefix that contains it.
    Address(Prefix),
    /// The PPPoE session that carries the packet.
    Session(Session),
    /// The VLAN tags of the frame.
    Vlan(Vlan),
    /// The subscriber's MAC address: the frame's destination, or its source with `--up`.
    Mac(Mac),
}

/// The kinds of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyKind {
    /// IPv4 and IPv6 addresses and prefixes.
    Address,
    /// PPPoE sessions.
    Session,
    /// VLANs.
    Vlan,
    /// MAC addresses.
    Mac,
}

impl KeyKind {
    /// All kinds, in the order of lookup.
    pub const ALL: [Self; 4] = [Self::Address, Self::Session, Self::Vlan, Self::Mac];

    /// Returns the plural noun of the kind, for messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Address => "addresses",
            Self::Session => "PPPoE sessions",
            Self::Vlan => "VLANs",
            Self::Mac => "MACs",
        }
    }

    /// Parses a key. An error is the message and a hint for the correction.
    pub(crate) fn read(self, text: &str) -> Result<Key, (String, String)> {
        match self {
            Self::Address => {
                let version = if text.contains(':') { 6 } else { 4 };
                Prefix::read(text, version).map(Key::Address)
            }
            Self::Session => Session::read(text).map(Key::Session),
            Self::Vlan => Vlan::read(text).map(Key::Vlan),
            Self::Mac => Mac::read(text).map(Key::Mac),
        }
    }

    /// Parses the keys of a field.
    ///
    /// # Errors
    ///
    /// Lists the problem of every malformed key, each with a hint.
    pub fn read_all(self, text: &str) -> Result<Vec<Key>, String> {
        let (mut keys, mut wrong) = (Vec::new(), Vec::new());
        for part in parts(text) {
            match self.read(part) {
                Ok(key) => keys.push(key),
                Err((message, hint)) => wrong.push(format!("{message}; {hint}")),
            }
        }
        if wrong.is_empty() {
            Ok(keys)
        } else {
            Err(wrong.join("\n"))
        }
    }
}

/// Splits a field into the texts of its keys.
pub(crate) fn parts(text: &str) -> impl Iterator<Item = &str> {
    let divides = |byte: u8| matches!(byte, b',' | b';' | b' ' | b'\t');
    let mut rest = text;
    // All separators are ASCII, so slicing never splits a character.
    std::iter::from_fn(move || {
        let start = rest.bytes().position(|byte| !divides(byte))?;
        let own = rest.get(start..)?;
        let end = own.bytes().position(divides).unwrap_or(own.len());
        rest = own.get(end..)?;
        own.get(..end)
    })
}

impl Key {
    /// Returns the kind of the key.
    pub fn kind(&self) -> KeyKind {
        match self {
            Self::Address(_) => KeyKind::Address,
            Self::Session(_) => KeyKind::Session,
            Self::Vlan(_) => KeyKind::Vlan,
            Self::Mac(_) => KeyKind::Mac,
        }
    }

    /// Returns the prefix, if the key is one that covers more than one address.
    pub fn prefix(&self) -> Option<&Prefix> {
        match self {
            Self::Address(prefix) if !prefix.is_host() => Some(prefix),
            _ => None,
        }
    }

    /// Returns whether the key is a prefix that contains or equals the other key.
    pub fn contains(&self, other: &Self) -> bool {
        match (self.prefix(), other) {
            (Some(prefix), Self::Address(other)) => prefix.contains(other),
            _ => false,
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(own) => own.fmt(f),
            Self::Session(own) => own.fmt(f),
            Self::Vlan(own) => own.fmt(f),
            Self::Mac(own) => own.fmt(f),
        }
    }
}

/// A number in digits alone, without a sign: of a tag or a session.
fn decimal(text: &str) -> Option<u16> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    is_plain.then(|| text.parse().ok()).flatten()
}
