// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks the length of files.

/// The maximum number of lines of a file without a reason.
const MOST: usize = 500;
/// The beginning of the reason at the file's head.
const REASON: &str = "Over 500 lines";

/// Finds long files whose head has no reason.
pub(super) fn check(files: &[(String, String)], findings: &mut Vec<String>) {
    for (path, text) in files {
        let lines = text.lines().count();
        let sources = [".rs", ".c", ".h"]
            .iter()
            .any(|ending| path.ends_with(ending));
        let mut head = text.lines().take(40);
        if sources && lines > MOST && !head.any(|line| line.contains(REASON)) {
            findings.push(format!(
                "{path}: {lines} lines, where {MOST} are the most; divide it, or say why not at \
                 its head in a sentence that begins `{REASON}`"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_file_says_why() {
        let found = |text: String| {
            let mut findings = Vec::new();
            check(&[("a.rs".to_owned(), text)], &mut findings);
            findings.len()
        };
        assert_eq!(found("\n".repeat(500)), 0);
        assert_eq!(found("\n".repeat(501)), 1);
        let reason = "//! Over 500 lines, because it is one table.\n";
        assert_eq!(found(reason.to_owned() + &"\n".repeat(501)), 0);
    }
}
