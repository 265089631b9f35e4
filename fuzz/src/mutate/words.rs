// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Mutates lines by whole words and by digits. If a line is valid only with all its words, random
//! bytes seldom leave a valid one. One time in four, libFuzzer changes bytes itself.

use super::dictionary::{Random, entries};

/// Returns the text with a word added, removed, moved, or replaced, or with another digit; `None`
/// if libFuzzer should change bytes.
pub fn mutated(data: &[u8], max_size: usize, seed: u32, dictionary: &str) -> Option<Vec<u8>> {
    let mut random = Random(seed);
    if random.below(4) == 0 {
        return None;
    }
    let text = std::str::from_utf8(data).ok()?;
    let mut lines: Vec<Vec<String>> = text
        .lines()
        .map(|line| line.split(' ').map(str::to_owned).collect())
        .collect();
    let known: Vec<String> = entries(dictionary)
        .map(|word| word.trim().to_owned())
        .collect();
    if lines.is_empty() {
        lines.push(Vec::new());
    }
    let chosen = random.below(lines.len());
    // Keep a line beside its changed copy, so that the context before it stays valid.
    if random.below(4) == 0 {
        lines.insert(chosen, lines[chosen].clone());
    }
    let others: Vec<String> = lines.concat();
    let line = &mut lines[chosen];
    let word = match random.below(2) {
        0 => known.get(random.below(known.len()))?.clone(),
        _ => others.get(random.below(others.len()))?.clone(),
    };
    let at = random.below(line.len());
    match random.below(5) {
        0 if !line.is_empty() => {
            line.remove(at);
        }
        1 if !line.is_empty() => line[at] = word,
        2 | 3 => {
            let digits: Vec<(usize, usize)> = (0..line.len())
                .flat_map(|word| {
                    line[word]
                        .match_indices(|c: char| c.is_ascii_digit())
                        .map(move |(index, _)| (word, index))
                        .collect::<Vec<_>>()
                })
                .collect();
            let &(word, index) = digits.get(random.below(digits.len()))?;
            let digit = char::from(b"0123456789"[random.below(10)]);
            line[word].replace_range(index..=index, digit.encode_utf8(&mut [0; 4]));
        }
        _ => line.insert(random.below(line.len() + 1), word),
    }
    let lines: Vec<String> = lines.iter().map(|words| words.join(" ")).collect();
    let text = (lines.join("\n") + "\n").into_bytes();
    (text.len() <= max_size).then_some(text)
}
