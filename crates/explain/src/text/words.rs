// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The words of a packet's text, and the meaning of names.

use crate::sender;
use weirgate_state::{ICMP, ICMPV6, TCP};

/// A word with its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Word<'a> {
    pub(crate) text: &'a str,
    /// The column of its first character, from 1.
    pub(crate) column: usize,
}

/// Splits a line into words, up to its remark.
pub(crate) fn split(line: &str) -> Vec<Word<'_>> {
    let text = line.split('#').next().unwrap_or_default();
    let mut words = Vec::new();
    let mut start = None;
    let mut column = 0;
    let mut began = 0;
    for (at, c) in text.char_indices() {
        column += 1;
        match (c.is_whitespace(), start) {
            (false, None) => {
                start = Some(at);
                began = column;
            }
            (true, Some(from)) => {
                words.push(Word {
                    text: &text[from..at],
                    column: began,
                });
                start = None;
            }
            _ => {}
        }
    }
    if let Some(from) = start {
        words.push(Word {
            text: &text[from..],
            column: began,
        });
    }
    words
}

const FLAGS: [(&str, u8); 8] = [
    ("fin", 1),
    ("syn", 2),
    ("rst", 4),
    ("psh", 8),
    ("ack", 16),
    ("urg", 32),
    ("ece", 64),
    ("cwr", 128),
];

/// Reads flags separated by commas; `none` for no flags.
pub(crate) fn flags(text: &str) -> Option<u8> {
    if text == "none" {
        return Some(0);
    }
    text.split(',').try_fold(0, |all, name| {
        let flag = FLAGS.iter().find(|known| known.0 == name)?;
        Some(all | flag.1)
    })
}

/// Types of ICMP and `ICMPv6` by the names in policies.
const TYPES: [(&str, Option<u8>, Option<u8>); 12] = [
    ("echo-request", Some(8), Some(128)),
    ("echo-reply", Some(0), Some(129)),
    ("destination-unreachable", Some(3), Some(1)),
    ("packet-too-big", None, Some(2)),
    ("time-exceeded", Some(11), Some(3)),
    ("parameter-problem", Some(12), Some(4)),
    ("redirect", Some(5), Some(137)),
    ("timestamp-request", Some(13), None),
    ("timestamp-reply", Some(14), None),
    ("router-solicitation", Some(10), Some(133)),
    ("neighbour-solicitation", None, Some(135)),
    ("neighbour-advertisement", None, Some(136)),
];

pub(crate) fn icmp(text: &str, six: bool) -> Option<(u8, u8)> {
    // In IPv4, "packet too big" is a code of destination unreachable (RFC 1191).
    if text == "packet-too-big" && !six {
        return Some((3, 4));
    }
    let found = TYPES.iter().find(|known| known.0 == text)?;
    let kind = if six { found.2 } else { found.1 };
    Some((kind?, 0))
}

pub(crate) fn ecn(text: &str) -> Option<u8> {
    Some(match text {
        "not-ect" | "0" => 0,
        "ect1" | "1" => 1,
        "ect0" | "2" => 2,
        "ce" | "3" => 3,
        _ => return None,
    })
}

/// All words that may follow the two ends.
const WORDS: [&str; 26] = [
    "dscp",
    "tos",
    "ecn",
    "len",
    "payload",
    "data",
    "options",
    "ip-options",
    "id",
    "type",
    "code",
    "frag",
    "pppoe",
    "own",
    "in",
    "mac",
    "mark",
    "established",
    "related",
    "helper",
    "ct-mark",
    "ct-bytes",
    "ct-packets",
    "x",
    "every",
    "=>",
];

/// Returns the Levenshtein distance of two words, of which at most 32 characters count.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().take(32).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().take(32).enumerate() {
        let mut before = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let change = before + usize::from(x != *y);
            before = row[j + 1];
            row[j + 1] = change.min(before + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

/// Suggests the word that an unknown word may have meant.
pub(crate) fn near(text: &str, protocol: u8) -> String {
    let mut known: Vec<&str> = WORDS.to_vec();
    known.extend(sender::words().map(|known| known.0.word));
    match protocol {
        TCP => known.extend(FLAGS.iter().map(|flag| flag.0)),
        ICMP | ICMPV6 => known.extend(TYPES.iter().map(|kind| kind.0)),
        _ => {}
    }
    let lower = text.to_ascii_lowercase();
    let nearest = known.iter().min_by_key(|word| distance(&lower, word));
    match nearest {
        Some(word) if distance(&lower, word) <= 2 => format!("did you mean `{word}`?"),
        _ => format!("the words are {}", known.join(", ")),
    }
}
