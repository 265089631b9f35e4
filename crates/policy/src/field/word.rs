// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Types whose values are written as one word of a fixed list.

use crate::field::FieldKind;

/// A type with a word for each of its values. [`words!`] implements it.
pub(crate) trait Word: Copy + 'static {
    /// The words and their values.
    const WORDS: &'static [(&'static str, Self)];
    /// The words without their values.
    const NAMES: &'static [&'static str];
    /// The kind of a field that takes one word.
    const KIND: FieldKind = FieldKind::Word(Self::NAMES);
    /// The kind of a field that takes one word or several.
    const LIST: FieldKind = FieldKind::Words(Self::NAMES);
}

/// Implements [`Word`]: `words!(Moves: "at-once" => Self::AtOnce, ...)`, or
/// `words!(DeviceKind)` for a type with `ALL` and `name`.
macro_rules! words {
    ($type:ty) => {
        impl $crate::field::Word for $type {
            const WORDS: &'static [(&'static str, Self)] = &{
                let mut words = [("", Self::ALL[0]); Self::ALL.len()];
                let mut at = 0;
                while at < words.len() {
                    words[at] = (Self::ALL[at].name(), Self::ALL[at]);
                    at += 1;
                }
                words
            };
            const NAMES: &'static [&'static str] = &{
                let mut names = [""; Self::ALL.len()];
                let mut at = 0;
                while at < names.len() {
                    names[at] = Self::ALL[at].name();
                    at += 1;
                }
                names
            };
        }
    };
    ($type:ty: $($word:literal => $value:expr),+ $(,)?) => {
        impl $crate::field::Word for $type {
            const WORDS: &'static [(&'static str, Self)] = &[$(($word, $value)),+];
            const NAMES: &'static [&'static str] = &[$($word),+];
        }
    };
}
pub(crate) use words;
