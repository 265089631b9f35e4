// SPDX-License-Identifier: Apache-2.0 OR MIT
//! MAC addresses of subscribers' devices.

use std::fmt;

/// A MAC address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mac([u8; 6]);

impl Mac {
    /// Makes the address of one device; returns `None` for a group address and for zeros.
    pub fn new(bytes: [u8; 6]) -> Option<Self> {
        (bytes[0] & 1 == 0 && bytes != [0; 6]).then_some(Self(bytes))
    }

    /// Returns the six bytes.
    pub fn bytes(self) -> [u8; 6] {
        self.0
    }

    /// Parses six bytes in hexadecimal, with or without colons, hyphens or dots. An error is the
    /// message and a hint for the correction.
    pub(crate) fn read(text: &str) -> Result<Self, (String, String)> {
        let example = || "write one such as `02:00:5e:10:00:01`".to_owned();
        let bytes =
            bytes(text).ok_or_else(|| (format!("`{text}` is no MAC address"), example()))?;
        Self::new(bytes).ok_or_else(|| {
            let message = format!("`{text}` is no MAC address of one device");
            (message, example())
        })
    }
}

/// Parses twelve hexadecimal digits, optionally split into equal groups.
fn bytes(text: &str) -> Option<[u8; 6]> {
    let (divides, length) = match text.len() {
        17 if text.contains('-') => ('-', 2),
        17 => (':', 2),
        14 => ('.', 4),
        _ => (' ', 12),
    };
    let is_part =
        |part: &str| part.len() == length && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    let digits = text.replace(divides, "");
    if digits.len() != 12 || !text.split(divides).all(is_part) {
        return None;
    }
    let [_, _, bytes @ ..] = u64::from_str_radix(&digits, 16).ok()?.to_be_bytes();
    Some(bytes)
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, byte) in self.0.iter().enumerate() {
            let divides = if number > 0 { ":" } else { "" };
            write!(f, "{divides}{byte:02x}")?;
        }
        Ok(())
    }
}
