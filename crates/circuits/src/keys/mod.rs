// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What tells whose a packet is.

mod address;
mod mac;
mod session;
mod vlan;

pub use address::Prefix;
pub use mac::Mac;
pub use session::Session;
use std::fmt;
pub use vlan::Vlan;

/// What tells whose a packet is. The order is that in which a packet is looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// The subscriber's address, or the prefix that it is in.
    Address(Prefix),
    /// The session of PPPoE that the packet is in.
    Session(Session),
    /// The tags of the frame.
    Vlan(Vlan),
    /// The subscriber's MAC: who a frame goes to, or with `--up` who sends it.
    Mac(Mac),
}

/// A kind of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyKind {
    /// Addresses and prefixes of either version of IP.
    Address,
    /// Sessions of PPPoE.
    Session,
    /// VLANs.
    Vlan,
    /// MACs.
    Mac,
}

impl KeyKind {
    /// All of them, in the order in which a packet is looked up.
    pub const ALL: [Self; 4] = [Self::Address, Self::Session, Self::Vlan, Self::Mac];

    /// What many of them are called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Address => "addresses",
            Self::Session => "PPPoE sessions",
            Self::Vlan => "VLANs",
            Self::Mac => "MACs",
        }
    }

    /// Reads one; says what is wrong and what would be right.
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

    /// Reads several, as a field of a file has them.
    ///
    /// # Errors
    ///
    /// Says of every one what is wrong and what would be right.
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

/// The keys of a field.
pub(crate) fn parts(text: &str) -> impl Iterator<Item = &str> {
    let divides = |byte: u8| matches!(byte, b',' | b';' | b' ' | b'\t');
    let mut rest = text;
    // What divides is ASCII, so that no character is cut.
    std::iter::from_fn(move || {
        let start = rest.bytes().position(|byte| !divides(byte))?;
        let own = rest.get(start..)?;
        let end = own.bytes().position(divides).unwrap_or(own.len());
        rest = own.get(end..)?;
        own.get(..end)
    })
}

impl Key {
    /// Its kind.
    pub fn kind(&self) -> KeyKind {
        match self {
            Self::Address(_) => KeyKind::Address,
            Self::Session(_) => KeyKind::Session,
            Self::Vlan(_) => KeyKind::Vlan,
            Self::Mac(_) => KeyKind::Mac,
        }
    }

    /// The prefix of more than one address that it is.
    pub fn prefix(&self) -> Option<&Prefix> {
        match self {
            Self::Address(prefix) if !prefix.is_host() => Some(prefix),
            _ => None,
        }
    }

    /// Whether it is a prefix of which the other is a part, or the same.
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
