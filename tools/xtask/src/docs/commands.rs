// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The page of all commands, from the generated manual pages.

use anyhow::{Context, Result};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

const HEAD: &str = "<!-- SPDX-License-Identifier: Apache-2.0 OR MIT -->\n\
    <!-- Made by `cargo xtask docs` from the manual pages; do not edit. -->\n\
    # Commands\n\n\
    Each command has a manual page of the same name (`man weirgate-check`). Every command takes \
    `--help`.\n\n\
    Exit status: 0 done, and as promised; 1 it differs, or a check failed; 2 a mistake in arguments, \
    policy or experiment; 3 the kernel refused and the old state is back; 4 the old state could not \
    be restored.\n";

/// Options of every command, which are left out.
const EVERYWHERE: [&str; 2] = ["--help", "--state-dir"];

/// Returns the page of the manual pages in a folder.
pub fn page(folder: &Path) -> Result<String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.extension().is_some_and(|section| section == "1") {
            names.push(path);
        }
    }
    names.sort();
    let mut text = HEAD.to_owned();
    for path in names {
        text.push_str(&command(&fs::read_to_string(&path)?));
    }
    Ok(text)
}

/// Returns the section of one manual page: heading, description, arguments and options.
fn command(manual: &str) -> String {
    let mut text = String::new();
    let mut section = "";
    let mut lines = manual.lines();
    while let Some(line) = lines.next() {
        if let Some(name) = line.strip_prefix(".SH ") {
            section = name;
        } else if section == "NAME" {
            let (name, _) = line.split_once(" \\- ").unwrap_or((line, ""));
            let _ = write!(text, "\n## {}\n\n", title(&plain(name)));
        } else if section == "DESCRIPTION" {
            text.push_str(match line {
                ".PP" => "\n",
                _ => "",
            });
            if !line.starts_with('.') {
                let _ = writeln!(text, "{}", plain(line));
            }
        } else if section == "OPTIONS" && line == ".TP" {
            let option = plain(lines.next().unwrap_or_default());
            let about = plain(lines.next().unwrap_or_default());
            if EVERYWHERE.iter().any(|name| option.contains(name)) {
                continue;
            }
            if text.ends_with("\n\n") || !text.contains("\n- ") {
                text.truncate(text.trim_end().len());
                text.push_str("\n\n");
            }
            let _ = writeln!(text, "- `{option}`: {about}");
        }
    }
    text
}

/// Returns a command as it is typed: `weirgate-lab` is a program, and other dashes become spaces.
fn title(name: &str) -> String {
    match name.strip_prefix("weirgate-lab") {
        Some(rest) => format!("weirgate-lab{}", rest.replace('-', " ")),
        None => name.replace('-', " "),
    }
}

/// Returns text of a manual page without its markup.
fn plain(line: &str) -> String {
    let text = ["\\fB", "\\fI", "\\fR"]
        .iter()
        .fold(line.to_owned(), |text, font| text.replace(font, ""));
    text.replace("\\-", "-")
        .replace("\\*(Aq", "'")
        .trim()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::command;

    #[test]
    fn a_manual_page_becomes_a_section() {
        let manual = ".TH weirgate-x 1\n.SH NAME\nweirgate\\-x \\- Do x\n.SH SYNOPSIS\nx\n\
                      .SH DESCRIPTION\nDo x.\n.PP\nNeeds nothing.\n.SH OPTIONS\n.TP\n\
                      \\fB\\-\\-most\\fR \\fI<MOST>\\fR [default: 50]\nSo many\n.TP\n\
                      \\fB\\-h\\fR, \\fB\\-\\-help\\fR\nPrint help\n";
        assert_eq!(
            command(manual),
            "\n## weirgate x\n\nDo x.\n\nNeeds nothing.\n\n- `--most <MOST> [default: 50]`: So many\n"
        );
    }
}
