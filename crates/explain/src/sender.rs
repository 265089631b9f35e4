// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a packet's text can tell of the socket that sends it: a word, and the
//! field of `state` that it gives the value of.

use weirgate_state::{Field, IpVersion, SenderWord, Variant};

/// What is known of the socket that sends a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SenderValue {
    /// A number, such as that of a user.
    Number(u32),
    /// A path from below the root of its tree.
    Path(String),
}

/// The words with their fields.
pub(crate) fn words() -> impl Iterator<Item = (SenderWord, Field)> {
    let any = Variant {
        version: IpVersion::V4,
        mask: 0,
        level: 0,
    };
    Field::every(any).filter_map(|field| Some((field.sender_word()?, field)))
}

/// The word of that text, with its field.
pub(crate) fn word(text: &str) -> Option<(SenderWord, Field)> {
    words().find(|known| known.0.word == text)
}

/// The first parts of a path, so many; `None` where it has fewer.
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
