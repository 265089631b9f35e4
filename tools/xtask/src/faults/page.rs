// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table of faults and of the tests that detected them.

use super::read::Fault;
use super::tree::PAGE;
use super::trial::Outcome;
use anyhow::{Context, Result};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// Writes the page.
pub(super) fn write(root: &Path, faults: &[Fault], outcomes: &[Outcome]) -> Result<()> {
    fs::write(root.join(PAGE), page(faults, outcomes)).context(PAGE)
}

fn page(faults: &[Fault], outcomes: &[Outcome]) -> String {
    let unseen = outcomes.iter().filter(|one| !one.is_seen()).count();
    let unseen = match unseen {
        0 => "Each was seen.".to_owned(),
        1 => "One was seen by nobody.".to_owned(),
        more => format!("{more} were seen by nobody."),
    };
    format!(
        "<!-- SPDX-License-Identifier: Apache-2.0 OR MIT -->\n# Planted faults\n\n\
         Each of these {} mistakes was put into the product by itself, and tests that should see \
         it were run until one failed. {unseen} `cargo xtask faults` does it again and writes this \
         page; the mistakes are the data of `tests/faults`.\n\n{}",
        faults.len(),
        table(faults, outcomes)
    )
}

/// Returns the table: the faulty behaviour, the file, and the first test that failed.
pub(super) fn table(faults: &[Fault], outcomes: &[Outcome]) -> String {
    let mut text = String::from("| fault | in | seen by |\n|---|---|---|\n");
    for (fault, outcome) in faults.iter().zip(outcomes) {
        let name = fault.name.replace('|', "\\|");
        // Writing to a String cannot fail.
        let _ = match outcome {
            Outcome::Seen(by) => writeln!(text, "| {name} | `{}` | `{by}` |", fault.file),
            other => writeln!(text, "| {name} | `{}` | {other} |", fault.file),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_says_how_many_nobody_saw() {
        let fault = |name: &str| Fault {
            name: name.to_owned(),
            file: "aqm/codel.c".to_owned(),
            find: String::new(),
            replace: String::new(),
            seen_by: Vec::new(),
            compiler: false,
            area: String::new(),
        };
        let faults = [fault("drops the tail"), fault("drops a|b")];
        let seen = Outcome::Seen("aqm test codel gaps".to_owned());
        let text = page(&faults, &[seen.clone(), Outcome::Nobody]);
        assert!(text.contains("these 2 mistakes"), "{text}");
        assert!(text.contains("One was seen by nobody."), "{text}");
        let rows: Vec<&str> = text.lines().skip(7).collect();
        assert_eq!(
            rows,
            [
                "| drops the tail | `aqm/codel.c` | `aqm test codel gaps` |",
                "| drops a\\|b | `aqm/codel.c` | NOBODY |",
            ]
        );
        let text = page(&faults, &[seen, Outcome::Compiler]);
        assert!(text.contains("Each was seen."), "{text}");
    }
}
