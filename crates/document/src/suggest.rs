// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the known word that is most similar to a misspelt one.

/// Returns the candidate with the fewest edits from `word`, if these are at most a third of its
/// letters (at least one edit is permitted). Capitals, and `_` instead of `-`, do not count.
pub fn nearest<'c>(word: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    nearest_of(word, &mut candidates.into_iter())
}

/// Implements [`nearest`] for all kinds of iterators, so that the program contains it once.
fn nearest_of<'c>(word: &str, candidates: &mut dyn Iterator<Item = &'c str>) -> Option<&'c str> {
    let allowed = (word.chars().count() / 3).max(1);
    let plain = |text: &str| text.to_lowercase().replace('_', "-");
    let word = plain(word);
    candidates
        .map(|candidate| (distance(&word, &plain(candidate)), candidate))
        .filter(|(edits, _)| *edits <= allowed)
        .min()
        .map(|(_, candidate)| candidate)
}

/// Returns the hint for an unknown word: "did you mean" with the nearest candidate, or `otherwise`
/// if none is near.
pub fn did_you_mean<'c>(
    word: &str,
    candidates: impl IntoIterator<Item = &'c str>,
    otherwise: impl FnOnce() -> String,
) -> String {
    match nearest(word, candidates) {
        Some(near) => format!("did you mean `{near}`?"),
        None => otherwise(),
    }
}

/// Returns the number of edits between two words, where a swap of two neighbours is one edit. Only
/// the first 64 characters are compared, to limit the cost.
fn distance(left: &str, right: &str) -> usize {
    strsim::osa_distance(beginning(left), beginning(right))
}

fn beginning(word: &str) -> &str {
    let end = word.char_indices().nth(64).map_or(word.len(), |(at, _)| at);
    &word[..end]
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn finds_near_words_only() {
        let known = ["share", "ceiling", "priority"];
        assert_eq!(nearest("shares", known), Some("share"));
        assert_eq!(nearest("ceilng", known), Some("ceiling"));
        assert_eq!(nearest("shaer", known), Some("share"));
        assert_eq!(nearest("colour", known), None);
        assert_eq!(nearest("SHARE", known), Some("share"));
        assert_eq!(nearest("Bytes_Over", ["bytes-over"]), Some("bytes-over"));
    }
}
