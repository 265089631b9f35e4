// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A document that is made from another file, with the place that each part came from.

use crate::problem::SourceSpan;

/// The text of a document, and the places of its parts in the file that it is made from.
#[derive(Debug, Clone, Default)]
pub struct Draft {
    /// The text so far.
    pub text: String,
    /// The places of its parts.
    pub origins: Origins,
}

/// The places that the parts of a text came from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Origins {
    /// The offset at which each part begins, in order, and its place in the file.
    parts: Vec<(usize, SourceSpan)>,
}

impl Draft {
    /// Appends a part that came from `place`.
    pub fn push(&mut self, text: &str, place: &SourceSpan) {
        self.origins.parts.push((self.text.len(), place.clone()));
        self.text.push_str(text);
    }

    /// Appends another draft of the same file.
    pub fn append(&mut self, other: Self) {
        let before = self.text.len();
        let parts = other.origins.parts.into_iter();
        let moved = parts.map(|(at, place)| (before + at, place));
        self.origins.parts.extend(moved);
        self.text.push_str(&other.text);
    }
}

impl Origins {
    /// Returns the place of the part at an offset of the text; the beginning of the file if there
    /// is no part.
    #[must_use]
    pub fn of(&self, at: usize) -> SourceSpan {
        let after = self.parts.partition_point(|(start, _)| *start <= at);
        let part = after.checked_sub(1).and_then(|last| self.parts.get(last));
        part.map_or(0..0, |(_, place)| place.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_has_the_place_it_came_from() {
        let mut draft = Draft::default();
        assert_eq!(draft.origins.of(3), 0..0);
        draft.push("up = ", &(4..6));
        draft.push("\"1mbit\"\n", &(9..14));
        let mut more = Draft::default();
        more.push("down = 1\n", &(20..24));
        draft.append(more);
        let at = |part: &str| draft.text.find(part).map(|at| draft.origins.of(at));
        assert_eq!(at("up"), Some(4..6));
        assert_eq!(at("mbit"), Some(9..14));
        assert_eq!(at("down"), Some(20..24));
        assert_eq!(draft.origins.of(1_000), 20..24);
    }
}
