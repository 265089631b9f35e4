// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Functions that call themselves, and loops that set their own counter. Both may never end, and
//! the kernel's verifier takes minutes to detect that.

use super::head;
use std::collections::{BTreeMap, BTreeSet};

/// A function: its first line, and the functions that it calls.
#[derive(Debug, Default)]
struct Function {
    line: usize,
    names: BTreeSet<String>,
}

/// Returns the mistakes in a text without comments, each with its line, from 1.
pub fn mistakes(blanked: &str) -> Vec<(usize, String)> {
    let functions = functions(blanked);
    let recursive = functions
        .iter()
        .filter(|(name, _)| reaches(&functions, name));
    let mut found: Vec<(usize, String)> = recursive
        .map(|(name, own)| {
            let what = format!("`{name}`: a function that calls itself; use AQM_LOOP");
            (own.line, what)
        })
        .collect();
    found.extend(counters(blanked));
    found
}

/// Returns the functions of a text: a name before `(` outside braces, followed by a body.
fn functions(blanked: &str) -> BTreeMap<String, Function> {
    let mut found = BTreeMap::new();
    let mut depth = 0_usize;
    let mut outside = String::new();
    let mut began = 0;
    let mut current: Option<(String, Function)> = None;
    let mut continued = false;
    for (line, text) in (1..).zip(blanked.lines()) {
        let directive = continued || text.trim_start().starts_with('#');
        continued = directive && text.trim_end().ends_with('\\');
        if directive {
            continue;
        }
        if let Some((_, own)) = &mut current {
            own.names.extend(called(text));
        }
        for c in text.chars() {
            match c {
                '{' => {
                    if depth == 0
                        && let Some(name) = called(&outside).into_iter().next()
                    {
                        let own = Function {
                            line: began,
                            names: called(text.split_once('{').map_or("", |parts| parts.1))
                                .into_iter()
                                .collect(),
                        };
                        current = Some((name, own));
                    }
                    depth += 1;
                    outside.clear();
                }
                '}' => {
                    depth = depth.saturating_sub(1);
                    if depth == 0 {
                        found.extend(current.take());
                    }
                }
                ';' if depth == 0 => outside.clear(),
                _ if depth == 0 => {
                    if outside.trim().is_empty() {
                        began = line;
                    }
                    outside.push(c);
                }
                _ => {}
            }
        }
        outside.push(' ');
    }
    found
}

/// Returns the names before an opening parenthesis.
fn called(text: &str) -> Vec<String> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let ends = text.match_indices('(');
    let names = ends.filter_map(|(at, _)| {
        let before = text[..at].trim_end();
        let begin = before.rfind(|c| !is_word(c)).map_or(0, |at| at + 1);
        let name = &before[begin..];
        (!name.is_empty()).then(|| name.to_owned())
    });
    names.collect()
}

/// Returns whether a function calls itself, directly or through others.
fn reaches(functions: &BTreeMap<String, Function>, name: &str) -> bool {
    let mut seen = BTreeSet::new();
    let mut open = vec![name];
    while let Some(next) = open.pop() {
        let Some(own) = functions.get(next) else {
            continue;
        };
        for callee in &own.names {
            if callee == name {
                return true;
            }
            if seen.insert(callee.as_str()) {
                open.push(callee);
            }
        }
    }
    false
}

/// Returns the lines of loops that set the loop's counter. The body is the lines that are indented
/// more than the loop's head.
fn counters(blanked: &str) -> Vec<(usize, String)> {
    let lines: Vec<&str> = blanked.lines().collect();
    let depth = |line: &str| line.len() - line.trim_start().len();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let directive = line.trim_start().starts_with('#');
        let Some((counter, _)) = head(line).filter(|_| !directive) else {
            continue;
        };
        let inside = lines.iter().enumerate().skip(at + 1);
        let inside =
            inside.take_while(|(_, text)| text.trim().is_empty() || depth(text) > depth(line));
        // The rest of the head's line, and the lines of the body.
        let own = line
            .find("_LOOP")
            .and_then(|from| line[from..].split_once(')'));
        let rest = own.map_or("", |(_, rest)| rest);
        for (number, text) in inside
            .map(|(number, text)| (number, *text))
            .chain([(at, rest)])
        {
            if text.split(';').any(|part| sets(part, counter)) {
                let what = format!("`{counter}`: a loop that sets its own counter");
                found.push((number + 1, what));
            }
        }
    }
    found
}

/// Returns whether a statement sets a variable.
fn sets(statement: &str, name: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    statement.match_indices(name).any(|(at, _)| {
        let before = &statement[..at];
        let whole = !before.ends_with(|c| is_word(c) || c == '.' || c == '>');
        let after = statement[at + name.len()..].trim_start();
        let operator = after.find('=').map(|end| &after[..end]);
        let assigns = operator.is_some_and(|it| {
            matches!(
                it.trim(),
                "" | "+" | "-" | "*" | "/" | "%" | "&" | "|" | "^" | "<<" | ">>"
            )
        }) && !after.starts_with("==");
        let steps = after.starts_with("++")
            || after.starts_with("--")
            || before.trim_end().ends_with("++")
            || before.trim_end().ends_with("--");
        whole && (assigns || steps)
    })
}

#[cfg(test)]
mod tests {
    use super::super::mistakes;

    fn lines(text: &str) -> Vec<usize> {
        mistakes(text).into_iter().map(|(line, _)| line).collect()
    }

    #[test]
    fn functions_that_call_themselves_are_reported() {
        let text = "AQM_FN u64 down(u64 n)\n{\n\treturn n ? down(n - 1) : 0;\n}\n\
                    AQM_FN u64 odd(u64 n);\nAQM_FN u64 even(u64 n)\n{\n\treturn odd(n);\n}\n\
                    AQM_FN u64 odd(u64 n)\n{\n\treturn even(n - 1);\n}\n\
                    AQM_FN u64 fine(u64 n)\n{\n\treturn aqm_min(even(n), 1);\n}\n";
        assert_eq!(lines(text), [1, 6, 10]);
    }

    #[test]
    fn loops_that_set_their_counter_are_reported() {
        let text = "\tAQM_LOOP (i, 10)\n\t\ti = 0;\n\tAQM_LOOP (i, 10) i = 0;\n\
                    \tAQM_LOOP (j, 4) {\n\t\tif (a == j)\n\t\t\tj--;\n\t\tb.j = j + 1;\n\t}\n\tj = 7;\n\
                    \tAQM_LOOP (k, 4)\n\t\ta[k] += k == 2;\n";
        let mut found: Vec<usize> = super::mistakes(text).iter().map(|it| it.0).collect();
        found.sort_unstable();
        assert_eq!(found, [2, 3, 6]);
    }

    #[test]
    fn bounds_that_are_read_are_reported() {
        let text = "AQM_LOOP (i, at->bytes)\nAQM_LOOP (i, MOST)\nAQM_LOOP (i, MOST - 1)\n\
                    AQM_LOOP (j, digit)\nAQM_LOOP (i, most[2])\n";
        assert_eq!(lines(text), [1, 5]);
    }
}
