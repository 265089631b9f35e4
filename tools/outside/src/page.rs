// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The page of results: each suite writes its own section, between marks.

use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::Path;

/// Fails if `--only` selects nothing: the section would be emptied.
///
/// # Errors
///
/// Fails if there is no part.
pub fn selected<T>(all: Vec<T>, only: &str) -> Result<Vec<T>> {
    ensure!(!all.is_empty(), "no part has a name with {only:?}");
    Ok(all)
}

/// Replaces the section with this name.
///
/// # Errors
///
/// Fails if the page cannot be read or written, or has no such section.
pub fn write(page: &Path, name: &str, text: &str) -> Result<()> {
    let whole = fs::read_to_string(page).with_context(|| page.display().to_string())?;
    let whole = replaced(&whole, name, text)
        .with_context(|| format!("{} has no section {name}", page.display()))?;
    fs::write(page, whole).with_context(|| page.display().to_string())
}

fn replaced(whole: &str, name: &str, text: &str) -> Option<String> {
    let (begin, end) = (
        format!("<!-- {name}: begin -->\n"),
        format!("<!-- {name}: end -->"),
    );
    let (before, rest) = whole.split_once(&begin)?;
    let (_, after) = rest.split_once(&end)?;
    Some(format!("{before}{begin}\n{}\n\n{end}{after}", text.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn something_must_be_selected() {
        assert_eq!(selected(vec![1], "").unwrap(), [1]);
        assert!(selected(Vec::<u8>::new(), "qdisc/red").is_err());
    }

    #[test]
    fn a_section_is_replaced_and_nothing_else() {
        let page = "a\n<!-- x: begin -->\nold\n<!-- x: end -->\nb\n";
        let new = replaced(page, "x", "new\n").unwrap();
        assert_eq!(new, "a\n<!-- x: begin -->\n\nnew\n\n<!-- x: end -->\nb\n");
        assert_eq!(replaced(&new, "x", "new\n").unwrap(), new);
        assert_eq!(replaced(page, "y", ""), None);
    }
}
