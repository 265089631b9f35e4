// SPDX-License-Identifier: Apache-2.0 OR MIT
//! "Did you mean": the known word nearest to a misspelt one.

/// The candidate that differs least from `word`, if it differs by no more than
/// a third of its letters (and at least one edit is allowed). Capitals and `_`
/// in place of `-` are no difference.
pub fn nearest<'c>(word: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    nearest_of(word, &mut candidates.into_iter())
}

/// One function for all kinds of lists.
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

/// The hint for a word that is none of the candidates: "did you mean" the
/// nearest, or `otherwise` where none is near.
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

/// Edits (a swap of two neighbours is one) between two words; a word longer
/// than 64 characters is compared by its beginning, so that the cost stays
/// bounded.
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
