// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Mutates a TOML text by whole lines, because random bytes seldom leave a text that parses. One
//! time in eight, libFuzzer changes bytes itself.

use super::dictionary::{Random, entries};

/// Returns the text with a line added, removed, duplicated, or replaced; `None` if libFuzzer should
/// change bytes. The dictionary is libFuzzer's, with lines as entries.
pub fn mutated(data: &[u8], max_size: usize, seed: u32, dictionary: &str) -> Option<Vec<u8>> {
    let mut random = Random(seed);
    let mut below = |limit: usize| random.below(limit);
    if below(8) == 0 {
        return None;
    }
    let text = std::str::from_utf8(data).ok()?;
    let mut lines: Vec<String> = text.lines().map(|line| format!("{line}\n")).collect();
    let words: Vec<String> = entries(dictionary).collect();
    // A single change is most likely to leave a valid text.
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
                // Another value of an existing field is most likely to leave the text valid; of
                // several lines, one is chosen at random.
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

/// Returns the name of a line's field; `None` for a table's header.
fn field(line: &str) -> Option<&str> {
    line.split_once(" = ").map(|(name, _)| name)
}
