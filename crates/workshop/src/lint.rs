// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds what a discipline's source must not contain: floating point, unbounded loops, variables of
//! its own, other files.
//!
//! The author of a discipline gets the line at once. Mistakes that are hidden, for example by a
//! macro, are found by the sanitizers or the verifier.

mod calls;

use weirgate_bpf::sources;

/// What a discipline must not contain, with the reason.
const FORBIDDEN: [(&str, &str); 9] = [
    (
        "float",
        "a floating-point number, which no kernel has; see fixed.h",
    ),
    (
        "double",
        "a floating-point number, which no kernel has; see fixed.h",
    ),
    ("while", "a loop whose bound does not show; use AQM_LOOP"),
    ("for", "a loop whose bound does not show; use AQM_LOOP"),
    ("do", "a loop whose bound does not show; use AQM_LOOP"),
    ("goto", "a loop whose bound does not show; use AQM_LOOP"),
    ("extern", "something outside of the discipline"),
    ("asm", "code that is not C"),
    ("__asm__", "code that is not C"),
];

/// The maximum number of rounds of a loop. More would take too long for a packet, and for the
/// verifier.
const MOST_ROUNDS: u64 = 1 << 20;

/// Why variables outside functions are forbidden.
const OWN_MEMORY: &str = "memory that all instances would share; put it into the table of state";

/// Returns the mistakes, each with its line, from 1.
pub fn mistakes(text: &str) -> Vec<(usize, String)> {
    let blanked = blanked(text);
    let mut found = Vec::new();
    for (line, text) in (1..).zip(blanked.lines()) {
        words(text, &mut |word, what| {
            found.push((line, format!("`{word}`: {what}")));
        });
        if let Some(file) = included(text) {
            found.push((
                line,
                format!("`{file}`: a file that is not the kit's; a discipline is one file"),
            ));
        }
        if let Some(bound) = changing_bound(text) {
            found.push((
                line,
                format!(
                    "`{bound}`: a bound that changes; write a constant, and `break` where it ends"
                ),
            ));
        }
        if let Some(rounds) = rounds(text).filter(|rounds| *rounds > MOST_ROUNDS) {
            found.push((
                line,
                format!("a loop of {rounds} rounds; {MOST_ROUNDS} are the most"),
            ));
        }
    }
    found.extend(variables(&blanked));
    found.extend(calls::mistakes(&blanked));
    found.sort();
    found
}

/// Reports forbidden words.
fn words(line: &str, tell: &mut dyn FnMut(&str, &str)) {
    for word in line.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '.') {
        let forbidden = FORBIDDEN.iter().find(|(bad, _)| *bad == word);
        let what = forbidden.map(|(_, what)| *what);
        if let Some(what) = what.or_else(|| is_float(word).then_some(FORBIDDEN[0].1)) {
            tell(word, what);
        }
    }
}

/// Returns the file that a line includes, if it is not one of the kit's.
fn included(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix('#')?.trim_start();
    let file = rest.strip_prefix("include")?.trim();
    let name = file.trim_matches(['"', '<', '>']);
    let header = |(path, _): &(&str, &str)| {
        path.strip_prefix("aqm/include/") == Some(name)
            || path.strip_prefix("aqm/host/") == Some(name)
    };
    (!sources().iter().any(header)).then_some(file)
}

/// Returns how often a loop runs whose bound is a number.
fn rounds(line: &str) -> Option<u64> {
    let (_, rest) = line
        .split_once("_LOOP (")
        .or_else(|| line.split_once("_LOOP("))?;
    let bound = rest.split_once(',')?.1.trim_start();
    let digits = bound
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(bound.len());
    bound[..digits].parse().ok()
}

/// Returns the counter and the bound of a loop, as in `AQM_LOOP (i, 10)`.
fn head(line: &str) -> Option<(&str, &str)> {
    let rest = ["_LOOP (", "_LOOP("]
        .iter()
        .find_map(|it| Some(line.split_once(it)?.1))?;
    let mut depth = 1;
    let end = rest.find(|c: char| {
        depth += match c {
            '(' => 1,
            ')' => -1,
            _ => 0,
        };
        depth == 0
    });
    let (counter, bound) = rest[..end.unwrap_or(rest.len())].split_once(',')?;
    Some((counter.trim(), bound.trim()))
}

/// Returns the bound of a loop if it is read from memory, which the verifier cannot follow.
fn changing_bound(line: &str) -> Option<&str> {
    if line.trim_start().starts_with('#') {
        return None;
    }
    let (_, bound) = head(line)?;
    (bound.contains("->") || bound.contains('[')).then_some(bound)
}

/// Returns variables outside functions and static variables within, unless they are constant.
fn variables(blanked: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut depth = 0_usize;
    // The text outside braces since the last statement, and its first line.
    let (mut outside, mut began) = (String::new(), 0);
    let mut continued = false;
    for (number, line) in (1..).zip(blanked.lines()) {
        let directive = continued || line.trim_start().starts_with('#');
        continued = directive && line.trim_end().ends_with('\\');
        if directive {
            continue;
        }
        if depth > 0 && line.split_whitespace().next() == Some("static") && !is_constant(line) {
            found.push((number, format!("`static`: {OWN_MEMORY}")));
        }
        for c in line.chars() {
            match c {
                '{' => {
                    if depth == 0 && outside.contains('=') && !is_constant(&outside) {
                        found.push((began, format!("`{}`: {OWN_MEMORY}", outside.trim())));
                    }
                    depth += 1;
                }
                '}' => {
                    depth = depth.saturating_sub(1);
                    // Variables may follow the end of a structure, but not the end of a function.
                    if depth == 0 {
                        outside = if outside.contains('(') || outside.contains('=') {
                            String::new()
                        } else {
                            "struct {}".to_owned()
                        };
                    }
                }
                ';' if depth == 0 => {
                    if is_variable(&outside) {
                        found.push((began, format!("`{}`: {OWN_MEMORY}", outside.trim())));
                    }
                    outside.clear();
                }
                _ if depth == 0 => {
                    if outside.trim().is_empty() {
                        began = number;
                    }
                    outside.push(c);
                }
                _ => {}
            }
        }
        if depth == 0 {
            outside.push(' ');
        }
    }
    found
}

fn is_constant(declaration: &str) -> bool {
    declaration
        .split(|c: char| !c.is_alphanumeric() && c != '_')
        .any(|word| word == "const")
}

/// Returns whether a statement outside functions defines a variable. Types, function declarations,
/// macro calls and constants do not.
fn is_variable(declaration: &str) -> bool {
    let words: Vec<&str> = declaration.split_whitespace().collect();
    let only_a_type = matches!(
        words.as_slice(),
        [] | ["typedef" | "_Static_assert", ..] | ["struct" | "union" | "enum", _]
    );
    !only_a_type && !declaration.contains('(') && !is_constant(declaration)
}

/// Returns whether a word is a constant such as 0.5, .5, 1e3 or 1.f.
fn is_float(word: &str) -> bool {
    let word = word.trim_end_matches(['f', 'F', 'l', 'L']);
    let number = word.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    let hex = word.starts_with("0x") || word.starts_with("0X");
    number
        && !hex
        && word.contains(|c: char| c.is_ascii_digit())
        && word.contains(['.', 'e', 'E'])
        && word.parse::<f64>().is_ok()
}

/// Returns the text with comments and string literals blanked, line by line.
fn blanked(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let last = out.rsplit('\n').next().unwrap_or_default();
        let skipped = if let Some(comment) = rest.strip_prefix("/*") {
            comment.find("*/").map_or(rest.len(), |end| end + 4)
        } else if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if c == '"' && !last.starts_with("#include") {
            rest[1..].find('"').map_or(rest.len(), |end| end + 2)
        } else {
            out.push(c);
            rest = &rest[c.len_utf8()..];
            continue;
        };
        out.extend(rest[..skipped].chars().filter(|c| *c == '\n'));
        rest = &rest[skipped..];
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_its_own_is_found() {
        let text = "u64 counter;\nstruct mean_vars {\n\tu64 a;\n};\nstatic const u8 steps[] = { 1, 2 };\n\
                    static u8 table[] = {\n\t1,\n};\nAQM_FN u64 f(u64 a)\n{\n\tstatic u64 seen;\n\
                    \tu64 mine = 3;\n\n\treturn a;\n}\nAQM_DISCIPLINE(mean, MEAN, 1, 2, 3,\n\t\"x\")\n\
                    #define M(P) \\\n\tP(a, b);\nstruct later;\n#include \"evil.h\"\n#include \"aqm.h\"\n";
        let lines: Vec<usize> = mistakes(text).into_iter().map(|(line, _)| line).collect();
        assert_eq!(lines, [1, 6, 11, 21]);
    }

    #[test]
    fn every_discipline_of_the_kit_is_sound_at_sight() {
        let disciplines = sources().iter().filter(|(path, _)| {
            let path = std::path::Path::new(path);
            path.parent() == Some("aqm".as_ref()) && path.extension() == Some("c".as_ref())
        });
        let mut seen = 0;
        for (path, text) in disciplines {
            assert_eq!(mistakes(text), [], "{path}");
            seen += 1;
        }
        assert!(seen >= 8);
    }

    #[test]
    fn a_loop_without_end_is_reported() {
        assert_eq!(
            mistakes("AQM_LOOP (i, 4000000000U)\nAQM_LOOP (i, 24)\n").len(),
            1
        );
    }

    #[test]
    fn floats_are_told_from_other_numbers() {
        for float in ["0.5", ".5", "1e3", "1.", "2.5f"] {
            assert!(is_float(float), "{float}");
        }
        for other in ["1", "0x1e3", "1000000ULL", "v.e", ".", "e1"] {
            assert!(!is_float(other), "{other}");
        }
    }

    #[test]
    fn comments_do_not_count() {
        let text = "a /* while\n for */ b \"do\" // float\nc";
        assert_eq!(blanked(text), "a \n b  \nc");
    }
}
