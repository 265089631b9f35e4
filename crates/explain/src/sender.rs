// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a packet's text can state about the sending socket: a word, and the field of `state` whose
//! value it gives.

use weirgate_state::{Field, IpVersion, SenderWord, Variant};

/// A known property of the sending socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SenderValue {
    /// A number, such as a user id.
    Number(u32),
    /// A path relative to the root of its tree.
    Path(String),
}

/// Returns the words with their fields.
pub(crate) fn words() -> impl Iterator<Item = (SenderWord, Field)> {
    let any = Variant {
        version: IpVersion::V4,
        mask: 0,
        level: 0,
    };
    Field::every(any).filter_map(|field| Some((field.sender_word()?, field)))
}

/// Returns the word with this text, and its field.
pub(crate) fn word(text: &str) -> Option<(SenderWord, Field)> {
    words().find(|known| known.0.word == text)
}

/// Returns this many first parts of a path; `None` if it has fewer.
pub(crate) fn cut(path: &str, level: u8) -> Option<String> {
    let parts: Vec<&str> = path.split('/').collect();
    parts.get(..level.into()).map(|parts| parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_cut_to_its_level() {
        assert_eq!(cut("a/b/c", 2).as_deref(), Some("a/b"));
        assert_eq!(cut("a/b/c", 3).as_deref(), Some("a/b/c"));
        assert_eq!(cut("a/b/c", 4), None);
    }
}
