// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a packet's text can tell of the socket that sends it: a word, and the
//! field of `state` that it gives the value of.

use weirgate_state::{Field, IpVersion, Variant};

/// The words with their fields.
pub(crate) fn words() -> impl Iterator<Item = (&'static str, Field)> {
    let any = Variant {
        version: IpVersion::V4,
        mask: 0,
        level: 0,
    };
    Field::every(any).filter_map(|field| Some((field.sender_word()?, field)))
}

/// The field of a word.
pub(crate) fn field(word: &str) -> Option<Field> {
    words().find(|known| known.0 == word).map(|known| known.1)
}
