// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks the length of sentences in comments and pages.
//!
//! A long sentence has more than one thought. CONTRIBUTING.md states the limits.

use std::path::Path;

/// The maximum length of a sentence, in words.
const MOST: usize = 45;
/// The maximum mean length of sentences, in words.
const MEAN: usize = 25;

/// Finds sentences in these files that are too long.
pub(super) fn check(files: &[(String, String)], findings: &mut Vec<String>) {
    let mut sentence_count = 0;
    let mut words = 0;
    for (path, text) in files {
        for (line, paragraph) in paragraphs(path, text) {
            for sentence in sentences(&paragraph) {
                sentence_count += 1;
                words += sentence.len();
                if sentence.len() > MOST {
                    findings.push(format!(
                        "{path}:{line}: a sentence of {} words, where {MOST} are the most: `{} ...`",
                        sentence.len(),
                        sentence[..8].join(" ")
                    ));
                }
            }
        }
    }
    if words > MEAN * sentence_count {
        findings.push(format!(
            "comments and pages: {words} words in {sentence_count} sentences, where {MEAN} in the mean \
             are the most"
        ));
    }
}

/// Returns whether a file's sentences count: sources, pages, and comments of TOML, but not the
/// expected texts of tests.
pub(super) fn counts(path: &str) -> bool {
    let ending = Path::new(path).extension().and_then(|it| it.to_str());
    ending.is_some_and(|it| ["rs", "c", "h", "md", "toml"].contains(&it))
        && !path.starts_with("tests/")
}

/// Returns paragraphs of prose, each with its first line.
fn paragraphs(path: &str, text: &str) -> Vec<(usize, String)> {
    let is = |ending| Path::new(path).extension().is_some_and(|it| it == ending);
    let (page, data) = (is("md"), is("toml"));
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut open = false;
    let mut block = false;
    let mut fence = false;
    for (number, line) in (1..).zip(text.lines()) {
        let prose = if page {
            Some(line)
        } else if data {
            line.strip_prefix('#').filter(|text| !text.contains("SPDX"))
        } else {
            comment(line, &mut block)
        };
        let Some(prose) = prose else {
            (open, fence) = (false, false);
            continue;
        };
        let trimmed = prose.trim();
        if trimmed.starts_with("```") {
            (open, fence) = (false, !fence);
            continue;
        }
        let code = fence || prose.starts_with("    ");
        if code || trimmed.is_empty() || trimmed.starts_with(['|', '#']) {
            open = false;
            continue;
        }
        let item = trimmed
            .split_once(' ')
            .filter(|(mark, _)| is_list_mark(mark))
            .map(|(_, rest)| rest);
        match found.last_mut() {
            Some((_, paragraph)) if open && item.is_none() => {
                paragraph.push(' ');
                paragraph.push_str(trimmed);
            }
            _ => found.push((number, item.unwrap_or(trimmed).to_owned())),
        }
        open = true;
    }
    found
}

/// Returns the text of a comment line in Rust or C; `block` is whether the previous line was within
/// `/* */`.
fn comment<'a>(line: &'a str, block: &mut bool) -> Option<&'a str> {
    let line = line.trim();
    if line.contains("SPDX") {
        return None;
    }
    if *block || line.starts_with("/*") {
        *block = !line.contains("*/");
        let text = line.trim_end_matches("*/").trim_start_matches(['/', '*']);
        return Some(text.trim());
    }
    let text = line.strip_prefix("//")?.trim_start_matches(['/', '!']);
    Some(text.strip_prefix(' ').unwrap_or(text))
}

/// Returns whether a word is `-`, `*` or `1.`.
fn is_list_mark(word: &str) -> bool {
    let number = word.strip_suffix('.').unwrap_or_default();
    word == "-" || word == "*" || number.parse::<u32>().is_ok()
}

/// Splits a paragraph into sentences, each a list of words. A sentence ends at its punctuation
/// mark, if a capital letter, a bracket or a name in code follows.
fn sentences(paragraph: &str) -> Vec<Vec<&str>> {
    let mut found = vec![Vec::new()];
    let mut words = paragraph.split_whitespace().peekable();
    while let Some(word) = words.next() {
        if let Some(sentence) = found.last_mut() {
            sentence.push(word);
        }
        let ends = word
            .trim_end_matches([')', '"', '\''])
            .ends_with(['.', '!', '?']);
        let begins =
            |next: &&str| next.starts_with(|c: char| c.is_uppercase() || "`\"([*".contains(c));
        if ends && words.peek().is_some_and(begins) {
            found.push(Vec::new());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        let mut findings = Vec::new();
        check(&[(path.to_owned(), text.to_owned())], &mut findings);
        findings
    }

    #[test]
    fn a_long_sentence_is_named() {
        let long = "Word ".repeat(46);
        let text = format!("fn f() {{}}\n/// Short one. {long}\n/// end.\n");
        let findings = found("a.rs", &text);
        assert!(findings[0].starts_with("a.rs:2: a sentence of 47 words"));
        let text = format!("/* Short. */\n/*\n * Begin {long}\n */\n");
        assert!(found("a.c", &text)[0].starts_with("a.c:3: a sentence of 47 words"));
    }

    #[test]
    fn the_mean_counts_too() {
        let findings = found("a.md", &"Word ".repeat(30));
        assert!(findings[0].starts_with("comments and pages: 30 words in 1 sentences"));
    }

    #[test]
    fn lists_tables_and_code_are_no_sentences() {
        let half = "Word ".repeat(20);
        let text = format!("{half}\n- {half}\n1. {half}\n\n| {half}{half}{half} |\n");
        assert!(found("a.md", &text).is_empty());
        let code = format!("```\n{half}{half}{half}\n```\n    {half}{half}{half}\n");
        assert!(found("a.md", &code).is_empty());
    }
}
