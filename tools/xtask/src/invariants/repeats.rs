// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds duplicated code: equal runs of lines at two places.

use std::collections::HashMap;
use std::path::Path;

/// The longest run of equal lines that two places may share.
const MOST: usize = 12;

/// Returns a file's lines that count, with their numbers, without indentation. Blank lines,
/// comments, imports and lone punctuation do not count.
fn counted(text: &str) -> Vec<(usize, &str)> {
    let lines = text.lines().enumerate();
    let lines = lines.map(|(index, line)| (index + 1, line.trim()));
    let counts = |line: &str| {
        let comment = ["//", "/*", "*", "#!", "#include", "use ", "pub use "];
        line.chars().any(char::is_alphanumeric)
            && !comment.iter().any(|start| line.starts_with(start))
    };
    lines.filter(|(_, line)| counts(line)).collect()
}

/// Finds runs of more than [`MOST`] lines that occur twice in these files. Each is reported once,
/// at its second place.
pub(super) fn check(files: &[(String, String)], findings: &mut Vec<String>) {
    let counted: Vec<Vec<(usize, &str)>> = files.iter().map(|file| counted(&file.1)).collect();
    let mut known: HashMap<Vec<&str>, (usize, usize)> = HashMap::new();
    for (file, lines) in counted.iter().enumerate() {
        let mut reported = 0;
        for (at, run) in lines.windows(MOST + 1).enumerate() {
            let text = run.iter().map(|(_, line)| *line).collect();
            let first = *known.entry(text).or_insert((file, at));
            let overlaps = first.0 == file && at <= first.1 + MOST;
            if overlaps || at < reported {
                continue;
            }
            let same = |length: &usize| {
                let here = lines.get(at + length).map(|line| line.1);
                here.is_some() && here == counted[first.0].get(first.1 + length).map(|line| line.1)
            };
            let length = (0..lines.len()).take_while(same).count();
            reported = at + length;
            findings.push(format!(
                "{}:{}: {length} lines stand in {}:{} too",
                files[file].0, run[0].0, files[first.0].0, counted[first.0][first.1].0
            ));
        }
    }
}

/// Returns whether repeats count in a file: sources and build files by their extension, except
/// generated files and data of tests.
pub(super) fn counts(place: &str) -> bool {
    let endings = ["rs", "c", "h", "js", "ts", "css", "html", "py", "sh", "go"];
    let ending = Path::new(place).extension().and_then(|it| it.to_str());
    let data = place.contains("/snapshots/") || place.contains("/golden/");
    ending.is_some_and(|it| endings.contains(&it)) && !data
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(first: &str, second: &str) -> usize {
        let file = |name: &str, text: &str| (name.to_owned(), text.to_owned());
        let mut findings = Vec::new();
        check(&[file("a.rs", first), file("b.rs", second)], &mut findings);
        findings.len()
    }

    #[test]
    fn a_run_of_thirteen_lines_is_told_once() {
        let run = |count: usize| {
            let lines: Vec<String> = (0..count).map(|n| format!("line{n};\n")).collect();
            lines.concat()
        };
        assert_eq!(found(&run(12), &run(12)), 0);
        assert_eq!(found(&run(13), &format!("other;\n{}", run(13))), 1);
        assert_eq!(found(&run(40), &format!("// Why.\n\n{}", run(40))), 1);
    }

    #[test]
    fn a_run_that_repeats_itself_is_no_second_place() {
        assert_eq!(found(&"same;\n".repeat(20), ""), 0);
    }
}
