// SPDX-License-Identifier: Apache-2.0 OR MIT
//! "Did you mean": the known word nearest to a misspelt one.

/// The candidate that differs least from `word`, if it differs by no more than
/// a third of its letters (and at least one edit is allowed).
pub fn nearest<'c>(word: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    let allowed = (word.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .map(|candidate| (distance(word, candidate), candidate))
        .filter(|(edits, _)| *edits <= allowed)
        .min()
        .map(|(_, candidate)| candidate)
}

/// Levenshtein distance in characters; a word longer than 64 characters is
/// compared by its beginning, so that the cost stays bounded.
fn distance(left: &str, right: &str) -> usize {
    let left: Vec<char> = left.chars().take(64).collect();
    let right: Vec<char> = right.chars().take(64).collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in right.iter().enumerate() {
            let substitute = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = substitute.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn finds_near_words_only() {
        let known = ["share", "ceiling", "priority"];
        assert_eq!(nearest("shares", known), Some("share"));
        assert_eq!(nearest("ceilng", known), Some("ceiling"));
        assert_eq!(nearest("colour", known), None);
    }
}
