// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The lists of disciplines in handwritten pages: the lines of `docs/SUMMARY.md` and `docs/aqm.md`
//! that link to a discipline's page.

use crate::aqm;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// The folder of the pages, relative to `docs/`.
const PAGES: &str = "reference/disciplines";

/// Returns both pages with current lists.
pub fn generated(root: &Path) -> Result<Vec<(PathBuf, String)>> {
    let (mut contents, mut table) = (Vec::new(), Vec::new());
    for (name, _) in aqm::disciplines(root)? {
        let link = format!("{PAGES}/{name}.md");
        let page = root.join("docs").join(&link);
        let page = fs::read_to_string(&page).with_context(|| page.display().to_string())?;
        let summary = page.lines().nth(2).unwrap_or_default();
        contents.push(format!("  - [{name}]({link})"));
        table.push(format!(
            "| [`{name}`]({link}) | {} |",
            summary.trim_end_matches('.')
        ));
    }
    let mut pages = Vec::new();
    for (page, lines) in [("docs/SUMMARY.md", contents), ("docs/aqm.md", table)] {
        let text = fs::read_to_string(root.join(page)).context(page)?;
        pages.push((PathBuf::from(page), replaced(&text, &lines)));
    }
    Ok(pages)
}

/// Replaces the first block of lines with these links by `lines`.
fn replaced(text: &str, lines: &[String]) -> String {
    let is_link = |line: &&str| line.contains(&format!("]({PAGES}/"));
    let all: Vec<&str> = text.lines().collect();
    let start = all.iter().position(is_link).unwrap_or(all.len());
    let length = all[start..].iter().take_while(|line| is_link(line)).count();
    let own = lines.iter().map(String::as_str);
    let before = all[..start].iter().copied();
    let after = all[start + length..].iter().copied();
    let lines: Vec<&str> = before.chain(own).chain(after).collect();
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_replaced_where_it_stands() {
        let text =
            "# A\n- [x](reference/disciplines/x.md)\n- [y](reference/disciplines/y.md)\n\nz\n";
        let lines = ["one".to_owned(), "two".to_owned(), "three".to_owned()];
        assert_eq!(replaced(text, &lines), "# A\none\ntwo\nthree\n\nz\n");
    }
}
