// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A page on how each discipline of the kit works, and the same as a manual
//! page: the words are in `disciplines/`, every number is from the discipline's
//! own tables.

use std::fmt::Write as _;
use weirgate_aqm::{Discipline, Row, reasons};

/// What is said of each discipline, by its name.
const TEXTS: [(&str, &str); 11] = [
    ("droptail", include_str!("../disciplines/droptail.md")),
    ("red", include_str!("../disciplines/red.md")),
    ("ared", include_str!("../disciplines/ared.md")),
    ("mered", include_str!("../disciplines/mered.md")),
    ("meredt", include_str!("../disciplines/meredt.md")),
    ("codel", include_str!("../disciplines/codel.md")),
    ("fq_codel", include_str!("../disciplines/fq_codel.md")),
    ("pie", include_str!("../disciplines/pie.md")),
    ("wred", include_str!("../disciplines/wred.md")),
    ("fuzzy", include_str!("../disciplines/fuzzy.md")),
    ("drt", include_str!("../disciplines/drt.md")),
];

/// Every page: its place below the reference, and its text.
pub fn pages() -> Vec<(String, String)> {
    let of = |(name, text): &(&str, &str)| {
        let discipline = Discipline::named(name)?;
        let page = format!("disciplines/{name}.md");
        let manual = format!("man/weirgate-{name}.7");
        Some([
            (page, markdown(discipline, text)),
            (manual, roff(discipline, text)),
        ])
    };
    TEXTS.iter().filter_map(of).flatten().collect()
}

/// A table of a discipline for either form: its heading and its rows.
fn tables(discipline: Discipline) -> [(&'static str, Vec<Row>); 3] {
    let mut counted = Discipline::counters();
    counted.extend(discipline.stats());
    [
        ("Parameters", discipline.params()),
        ("State", discipline.vars()),
        ("Statistics", counted),
    ]
}

fn markdown(discipline: Discipline, text: &str) -> String {
    let name = discipline.name();
    let mut page = format!("# {name}\n\n{}.\n\n", discipline.summary());
    let examples = text.split_once("## Example\n\n");
    let (words, example) = examples.unwrap_or((text, ""));
    page.push_str(words);
    // Writing to a String cannot fail.
    let _ = write!(page, "## Example\n\n```sh\n{example}```\n");
    for (heading, rows) in tables(discipline) {
        let _ = write!(page, "\n## {heading}\n\n");
        let parameters = heading == "Parameters";
        page.push_str(if parameters {
            "| name | what | otherwise | range |\n|---|---|---|---|\n"
        } else {
            "| name | what | unit |\n|---|---|---|\n"
        });
        for row in rows {
            let _ = if parameters {
                let usual = row.format(row.default);
                let range = row.expected();
                writeln!(
                    page,
                    "| `{}` | {} | {usual} | {range} |",
                    row.name, row.help
                )
            } else {
                let unit = row.unit.replace('|', ", ");
                writeln!(page, "| `{}` | {} | {unit} |", row.name, row.help)
            };
        }
    }
    let mut presets = discipline.presets().peekable();
    if presets.peek().is_some() {
        page.push_str("\n## Presets\n\n| name | what | settings |\n|---|---|---|\n");
    }
    for preset in presets {
        let set: Vec<String> = preset
            .set
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let _ = writeln!(
            page,
            "| `{}` | {} | `{}` |",
            preset.name,
            preset.help,
            set.join(" ")
        );
    }
    page.push_str("\n## Why a packet is dropped\n\n| reason | |\n|---|---|\n");
    for reason in reasons().iter().skip(1) {
        let _ = writeln!(page, "| {} | {} |", reason.name, reason.help);
    }
    page
}

/// The form of man(7).
fn roff(discipline: Discipline, text: &str) -> String {
    let name = discipline.name();
    let mut page = format!(
        ".TH \"weirgate-{name}\" 7 \"\" \"weirgate\" \"Queueing disciplines\"\n.SH NAME\n\
         weirgate\\-{} \\- {}\n.SH SYNOPSIS\n\\fBweirgate aqm load {}\\fR DEVICE \
         [NAME=VALUE]... [\\-\\-rate RATE] [\\-\\-link LAYER]\n",
        escaped(name),
        escaped(discipline.summary()),
        escaped(name),
    );
    let mut in_example = false;
    for block in text.split("\n\n") {
        let block = block.trim();
        if let Some(heading) = block.strip_prefix("## ") {
            in_example = heading == "Example";
            let _ = writeln!(page, ".SH {}", heading.to_uppercase());
        } else if in_example {
            let _ = write!(page, ".nf\n{}\n.fi\n", escaped(block));
        } else if !block.is_empty() {
            let _ = write!(page, ".PP\n{}\n", escaped(block));
        }
    }
    for (heading, rows) in tables(discipline) {
        let _ = writeln!(page, ".SH {}", heading.to_uppercase());
        for row in rows {
            let _ = write!(
                page,
                ".TP\n\\fB{}\\fR\n{}",
                escaped(row.name),
                escaped(row.help)
            );
            let _ = if heading == "Parameters" {
                let (range, usual) = (row.expected(), row.format(row.default));
                writeln!(page, ": {}; otherwise {}", escaped(&range), escaped(&usual))
            } else {
                writeln!(page, " ({})", escaped(row.unit))
            };
        }
    }
    let mut presets = discipline.presets().peekable();
    if presets.peek().is_some() {
        page.push_str(".SH PRESETS\n");
    }
    for preset in presets {
        let (name, help) = (escaped(preset.name), escaped(preset.help));
        let _ = write!(page, ".TP\n\\fBpreset={name}\\fR\n{help}\n");
    }
    page.push_str(".SH SEE ALSO\n\\fBweirgate\\-aqm\\fR(1), docs/aqm.md\n");
    page
}

/// Text for troff: its own characters escaped, words in grave accents bold.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    let mut bold = false;
    for character in text.chars() {
        match character {
            '\\' => out.push_str("\\e"),
            '-' => out.push_str("\\-"),
            '`' => {
                bold = !bold;
                out.push_str(if bold { "\\fB" } else { "\\fR" });
            }
            // A line must not begin with a point or an accent.
            '.' | '\'' if out.is_empty() => {
                out.push_str("\\&");
                out.push(character);
            }
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_discipline_has_a_page_that_says_how_it_works() {
        let pages = pages();
        assert_eq!(pages.len(), 2 * Discipline::all().len());
        for discipline in Discipline::all() {
            let place = format!("disciplines/{}.md", discipline.name());
            let page = pages.iter().find(|page| page.0 == place);
            let text = &page.unwrap_or_else(|| panic!("{place}")).1;
            for heading in ["How it works", "What it is for", "Setting it", "Example"] {
                assert!(
                    text.contains(&format!("\n## {heading}\n")),
                    "{place}: {heading}"
                );
            }
            for row in discipline.params() {
                assert!(text.contains(&format!("| `{}` |", row.name)), "{place}");
            }
        }
    }

    /// What a page names as a parameter is one, so that no page outlives a
    /// change of the tables.
    #[test]
    fn pages_name_parameters_that_there_are() {
        for (name, text) in TEXTS {
            let discipline = Discipline::named(name).expect("a discipline");
            let rows = discipline.params();
            for word in text.split('`').skip(1).step_by(2) {
                let own = word.split('=').next().unwrap_or(word);
                let parameter = rows.iter().any(|row| row.name == own);
                let preset = discipline.presets().any(|preset| preset.name == own);
                let other = [
                    "owed",
                    "red",
                    "preset",
                    "ared",
                    "mered",
                    "meredt",
                    "senders",
                    "receivers",
                ];
                assert!(
                    parameter || preset || other.contains(&own),
                    "{name}: `{word}`"
                );
            }
            let example = text.split("## Example\n\n").nth(1).expect("an example");
            let mut settings = weirgate_aqm::Settings::new(discipline);
            let words = example.split_whitespace().skip(5);
            for word in words.take_while(|word| !word.starts_with("--")) {
                let (parameter, value) = word.split_once('=').expect("name=value");
                settings.set_text(parameter, value).expect(word);
            }
        }
    }

    #[test]
    fn troff_reads_it_as_text() {
        assert_eq!(escaped(".a `b-c` \\"), "\\&.a \\fBb\\-c\\fR \\e");
    }
}
