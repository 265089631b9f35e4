// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a packet's text can tell of the socket that sends it: a word, and the
//! field of `state` that it gives the value of.

use weirgate_state::Field;

/// A word, its field, and what to write behind it.
pub(crate) const WORDS: &[(&str, Field, &str)] = &[
    (
        "uid",
        Field::User,
        "write the user's number, such as `1000`",
    ),
    (
        "gid",
        Field::Group,
        "write the group's number, such as `100`",
    ),
];

/// Whether a field is of the sending socket.
pub(crate) fn has(field: Field) -> bool {
    WORDS.iter().any(|word| word.1 == field)
}
