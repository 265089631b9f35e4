// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Text from another machine.

use std::fmt::{self, Write as _};

/// The most bytes that are displayed.
const MOST_SHOWN: usize = 4096;

/// Text from another machine, which may contain anything. It can only be displayed in a form that
/// is safe for a terminal. Characters that are not printable are escaped, lines after the first are
/// indented, so that they cannot look like ours, and a long text is cut.
///
/// ```
/// use weirgate_units::PeerText;
///
/// let reply = PeerText::new("\x1b]0;owned\x07 refused\nweirgate: all is well");
/// assert_eq!(
///     reply.to_string(),
///     "\\u{1b}]0;owned\\u{7} refused\n    weirgate: all is well"
/// );
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PeerText(String);

impl PeerText {
    /// Wraps the text unchanged.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns its lines.
    pub fn lines(&self) -> impl Iterator<Item = Self> {
        self.0.lines().map(Self::new)
    }

    /// Returns whether it contains a text.
    #[must_use]
    pub fn contains(&self, text: &str) -> bool {
        self.0.contains(text)
    }

    /// Parses it with `read`.
    ///
    /// # Errors
    /// Fails with the reason, as text of the peer, because the reason may contain parts of it.
    pub fn read<T, E: fmt::Display>(
        &self,
        read: impl FnOnce(&str) -> Result<T, E>,
    ) -> Result<T, Self> {
        read(&self.0).map_err(|error| Self(format!("{error}: {}", self.0)))
    }

    /// Returns whether it consists of white space only.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        self.0.trim().is_empty()
    }
}

impl fmt::Display for PeerText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0.trim_end();
        let shown = &text[..text.floor_char_boundary(MOST_SHOWN)];
        for (number, line) in shown.lines().enumerate() {
            if number > 0 {
                f.write_str("\n    ")?;
            }
            for one in line.chars() {
                match one {
                    '\'' | '"' | '\\' | '\t' => f.write_char(one)?,
                    _ => write!(f, "{}", one.escape_debug())?,
                }
            }
        }
        match text.len() - shown.len() {
            0 => Ok(()),
            more => write!(f, " ... and {more} bytes more"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        PeerText::new(text).to_string()
    }

    #[test]
    fn what_a_terminal_would_obey_is_escaped() {
        // Colours, C1's CSI, carriage return, bell, delete, right-to-left override.
        let text = "\u{1b}[2J\u{9b}31m\ra\u{7}\u{7f}\u{202e}b\u{2028}c";
        let expected = r"\u{1b}[2J\u{9b}31m\ra\u{7}\u{7f}\u{202e}b\u{2028}c";
        assert_eq!(shown(text), expected);
        for code in (0..=0x9f).filter_map(char::from_u32) {
            let text = shown(&format!("a{code}b"));
            let plain = |one: char| !one.is_control() || one == '\t' || one == '\n';
            assert!(text.chars().all(plain), "{code:?}: {text:?}");
        }
    }

    #[test]
    fn what_people_write_stays() {
        let text = "line 3:\t\"größer\" als 'C:\\x' → 日本\r\n  ok\n";
        let expected = "line 3:\t\"größer\" als 'C:\\x' → 日本\n      ok";
        assert_eq!(shown(text), expected);
        assert!(PeerText::new(" \n\t").is_blank());
    }

    #[test]
    fn errors_of_readers_quote_it_escaped() {
        let number = PeerText::new("\u{7}7").read(str::parse::<u8>);
        let why = number.unwrap_err().to_string();
        assert_eq!(why, r"invalid digit found in string: \u{7}7");
        assert_eq!(PeerText::new("7").read(str::parse::<u8>), Ok(7));
    }

    #[test]
    fn a_long_text_is_cut() {
        let text = shown(&"ü".repeat(3_000));
        assert!(text.ends_with("ü ... and 1904 bytes more"), "{text}");
    }
}
