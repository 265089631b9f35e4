// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks C below aqm/: freestanding, without floats, globals or unbounded loops.

use anyhow::Result;
use std::fs;
use std::path::{Path, PathBuf};

/// What a discipline must not contain. Loops use AQM_LOOP, which has a visible bound.
const AQM_FORBIDDEN: [(&str, &str); 7] = [
    ("float", "a floating-point number"),
    ("double", "a floating-point number"),
    ("while", "a loop whose bound does not show: use AQM_LOOP"),
    ("for", "a loop whose bound does not show: use AQM_LOOP"),
    ("do", "a loop whose bound does not show: use AQM_LOOP"),
    ("extern", "something outside of the discipline"),
    ("volatile", "something outside of the discipline"),
];

/// Checks rule 4: freestanding C, without floats, globals or unbounded loops. `own` lists all files
/// that may be included.
pub(super) fn check_algorithm(
    file: &Path,
    own: &[PathBuf],
    findings: &mut Vec<String>,
) -> Result<()> {
    let text = fs::read_to_string(file)?;
    let place = file.display();
    if !text
        .lines()
        .next()
        .unwrap_or_default()
        .contains("SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause")
    {
        findings.push(format!("{place}:1: the SPDX line is missing"));
    }
    let native = file.components().any(|part| part.as_os_str() == "native");
    for (index, line) in without_comments(&text).lines().enumerate() {
        let number = index + 1;
        if let Some(header) = line.trim().strip_prefix("#include") {
            let header = header.trim().trim_matches('"');
            let of_build = native && header == "AQM_FILE";
            let name = Path::new(header).file_name();
            if !of_build && !own.iter().any(|own| own.file_name() == name) {
                findings.push(format!("{place}:{number}: includes {header}"));
            }
        }
        // The native host is C for this machine: it defines the loop, and the library finds its
        // constant tables by name.
        if native {
            continue;
        }
        for word in line.split(|c: char| !c.is_alphanumeric() && c != '_') {
            if let Some((_, what)) = AQM_FORBIDDEN.iter().find(|(bad, _)| *bad == word) {
                findings.push(format!("{place}:{number}: `{word}`: {what}"));
            }
        }
        // Everything at the outermost level is a type, a constant, a macro or a function. An object
        // would end in `;` or `=` there.
        let outermost = line.starts_with(|c: char| c.is_alphabetic());
        let object = line.starts_with("static ") && !line.contains('(');
        if outermost && object {
            findings.push(format!("{place}:{number}: an object outside of functions"));
        }
    }
    Ok(())
}

/// Returns the last line of a text.
fn line(text: &str) -> &str {
    text.rsplit('\n').next().unwrap_or_default()
}

/// Returns the text with comments and string literals blanked, line by line.
pub(super) fn without_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let skipped = if let Some(comment) = rest.strip_prefix("/*") {
            comment.find("*/").map_or(rest.len(), |end| end + 4)
        } else if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if c == '"' && !line(&out).starts_with("#include") {
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
