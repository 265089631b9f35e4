// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks links between pages, including headings.
//!
//! Links to other hosts are not checked. A page of the book may link only to files in the book, so
//! that no link is dead there.

use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// Returns dead links of all pages, and pages that are missing from the book.
pub fn of_pages(root: &Path) -> Result<Vec<String>> {
    let mut texts = BTreeMap::new();
    for page in super::pages::pages(root)? {
        let text = fs::read_to_string(root.join(&page))?;
        texts.insert(page, text);
    }
    let summary = Path::new("docs/SUMMARY.md");
    let listed: Vec<PathBuf> = links(texts.get(summary).context("docs/SUMMARY.md")?)
        .iter()
        .map(|(_, target)| resolved(summary, target))
        .collect();
    let mut findings = Vec::new();
    for (page, text) in &texts {
        let in_book = page.starts_with("docs");
        if in_book && page != summary && !listed.contains(page) {
            findings.push(format!("{}: docs/SUMMARY.md lacks it", page.display()));
        }
        for (line, target) in links(text) {
            if let Some(wrong) = wrong(root, &texts, page, &target) {
                findings.push(format!("{}:{line}: {wrong}", page.display()));
            }
        }
    }
    Ok(findings)
}

/// Returns what is wrong with a link of a page; `None` if it is valid.
fn wrong(
    root: &Path,
    texts: &BTreeMap<PathBuf, String>,
    page: &Path,
    target: &str,
) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (file, heading) = target.split_once('#').unwrap_or((target, ""));
    let path = match file {
        "" => page.to_owned(),
        file => resolved(page, file),
    };
    if page.starts_with("docs") && !path.starts_with("docs") {
        return Some(format!("{target} leads out of the book"));
    }
    let Some(text) = texts.get(&path) else {
        let there = root.join(&path);
        // The book has no pages for folders.
        let enough = there.is_file() || there.is_dir() && !page.starts_with("docs");
        return (!enough).then(|| format!("{target} is not there"));
    };
    let missing = !heading.is_empty() && !headings(text).iter().any(|one| one == heading);
    missing.then(|| format!("{} has no heading #{heading}", path.display()))
}

/// Resolves a link of a page to a path from the root.
fn resolved(page: &Path, target: &str) -> PathBuf {
    let mut path = page.parent().unwrap_or(Path::new("")).to_owned();
    for part in Path::new(target).components() {
        match part {
            Component::ParentDir => {
                path.pop();
            }
            Component::Normal(name) => path.push(name),
            _ => {}
        }
    }
    path
}

/// Returns the targets of a page's links with their lines, except those in code.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        let line = without_code(line);
        let mut rest = line.as_str();
        while let Some((_, after)) = rest.split_once("](") {
            let (target, after) = after.split_once(')').unwrap_or((after, ""));
            found.push((number, target.to_owned()));
            rest = after;
        }
    }
    found
}

/// Returns the lines outside fenced code, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut code = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let fence = line.trim_start().starts_with("```");
        code ^= fence;
        (!code && !fence).then_some((index + 1, line))
    })
}

/// Returns a line without code in backticks.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect()
}

/// Returns the anchors of a page's headings.
fn headings(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for (_, line) in prose(text) {
        let level = line.bytes().take_while(|byte| *byte == b'#').count();
        if level == 0 || !line[level..].starts_with(' ') {
            continue;
        }
        let name = slug(&line[level..]);
        let same = |one: &&String| {
            let rest = one.strip_prefix(&name);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        };
        match found.iter().filter(same).count() {
            0 => found.push(name),
            // Repeated names get a number.
            count if found.contains(&name) => found.push(format!("{name}-{count}")),
            _ => found.push(name),
        }
    }
    found
}

/// Converts a heading to an anchor: lower-case letters and hyphens, without the targets of links.
fn slug(heading: &str) -> String {
    let mut text = String::new();
    let mut rest = heading;
    while let Some((before, after)) = rest.split_once("](") {
        text.push_str(before);
        rest = after.split_once(')').map_or("", |(_, rest)| rest);
    }
    text.push_str(rest);
    let kept = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | ' ');
    let text: String = text.trim().chars().filter(|c| kept(*c)).collect();
    text.to_lowercase().replace(' ', "-")
}

/// Returns the dead links of the built book.
pub fn of_book(book: &Path) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    let mut folders = vec![book.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "html") {
                dead_in_html(&path, &mut findings)?;
            }
        }
    }
    Ok(findings)
}

fn dead_in_html(page: &Path, findings: &mut Vec<String>) -> Result<()> {
    let text = fs::read_to_string(page)?;
    for after in text.split(" href=\"").skip(1) {
        let target = after.split('"').next().unwrap_or_default();
        let file = target.split(['#', '?']).next().unwrap_or_default();
        let elsewhere = target.contains(':') || file.is_empty() || file.starts_with('/');
        // mdbook's error page has links from the root of the book.
        if !elsewhere && !page.ends_with("404.html") {
            let there = page.parent().unwrap_or(page).join(file);
            if !there.exists() {
                findings.push(format!("{}: {target} is not there", page.display()));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_in_code_are_no_links() {
        let page = "a [b](c.md#d) and `[x](y)`\n```\n[z](w)\n```\n![picture](p.svg)\n";
        let found = links(page);
        assert_eq!(found, [(1, "c.md#d".to_owned()), (5, "p.svg".to_owned())]);
    }

    #[test]
    fn headings_are_named_as_mdbook_names_them() {
        let page = "# What it does\n## `[link]`, and [more](x.md)\n## `[link]`, and more\n";
        let names = ["what-it-does", "link-and-more", "link-and-more-1"];
        assert_eq!(headings(page), names);
    }

    #[test]
    fn dead_links_are_found() {
        let root = Path::new("/nowhere");
        let page = Path::new("docs/a.md");
        let texts = BTreeMap::from([
            (page.to_owned(), "# A\n".to_owned()),
            (PathBuf::from("docs/b/c.md"), "# C\n".to_owned()),
        ]);
        let wrong = |target| wrong(root, &texts, page, target);
        assert_eq!(wrong("b/c.md#c"), None);
        assert_eq!(wrong("#a"), None);
        assert_eq!(wrong("https://example.org/"), None);
        for target in ["b/d.md", "b/c.md#d", "../README.md", "#b"] {
            assert!(wrong(target).is_some(), "{target}");
        }
    }
}
