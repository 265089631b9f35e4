// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Changes a TOML text by whole lines: random bytes seldom leave one that is
//! read to its end. One time in eight libFuzzer changes bytes itself.

use super::dictionary::{Random, entries};

/// The text with a line added, removed, doubled, or replaced; `None` where
/// libFuzzer should change bytes. The dictionary is libFuzzer's own, its
/// entries are lines.
pub fn mutated(data: &[u8], max_size: usize, seed: u32, dictionary: &str) -> Option<Vec<u8>> {
    let mut random = Random(seed);
    let mut below = |limit: usize| random.below(limit);
    if below(8) == 0 {
        return None;
    }
    let text = std::str::from_utf8(data).ok()?;
    let mut lines: Vec<String> = text.lines().map(|line| format!("{line}\n")).collect();
    let words: Vec<String> = entries(dictionary).collect();
    // One change is the likeliest to leave a policy that is right.
    let changes = if below(3) == 0 { 2 } else { 1 };
    for _ in 0..changes {
        let at = below(lines.len());
        let word = words.get(below(words.len()))?.clone();
        match below(4) {
            0 if !lines.is_empty() => {
                lines.remove(at);
            }
            1 if !lines.is_empty() => lines.insert(at, lines[below(lines.len())].clone()),
            2 if !lines.is_empty() => {
                // Another value of a field that is there is the likeliest to
                // leave the text right; which of several is left to chance.
                let same: Vec<usize> = (0..lines.len())
                    .filter(|&index| field(&lines[index]) == field(&word))
                    .collect();
                let chosen = if same.is_empty() {
                    at
                } else {
                    same[below(same.len())]
                };
                lines[chosen] = word;
            }
            _ => lines.insert(below(lines.len() + 1), word),
        }
    }
    let text = lines.concat().into_bytes();
    (text.len() <= max_size).then_some(text)
}

/// The name of a line's field; none for a table's head.
fn field(line: &str) -> Option<&str> {
    line.split_once(" = ").map(|(name, _)| name)
}
