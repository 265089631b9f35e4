// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every policy in the tutorial and the guides is complete, and `check` reports nothing.

use std::fs;
use std::path::{Path, PathBuf};
use weirgate_compile::{check_report, compile};
use weirgate_policy::parse;
use weirgate_state::Capabilities;

/// Returns the paths of the pages.
fn pages(root: &Path) -> Vec<PathBuf> {
    let mut pages = vec![root.join("README.md"), root.join("docs/tutorial.md")];
    for folder in ["docs/guides", "docs/concepts"] {
        for entry in fs::read_dir(root.join(folder)).expect(folder) {
            pages.push(entry.expect("an entry").path());
        }
    }
    pages
}

/// Returns the `toml` blocks of a page.
fn policies(page: &str) -> impl Iterator<Item = &str> {
    let blocks = page.split("```toml\n").skip(1);
    blocks.map(|block| block.split("```").next().unwrap_or_default())
}

/// Returns what `weirgate check` reports about a policy.
fn faults(source: &str) -> Vec<String> {
    let (policy, mut problems) = parse(source);
    if let Some(policy) = policy {
        problems.extend(check_report(&policy).problems);
        let (state, found) = compile(&policy, &Capabilities::all());
        problems.extend(found);
        assert!(state.is_some() || !problems.is_empty());
    }
    let shown = problems.iter().map(|one| one.render("policy", source));
    shown.collect()
}

#[test]
fn policies_of_the_guides_pass_check() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut seen = 0;
    for page in pages(&root) {
        let text = fs::read_to_string(&page).expect("a page");
        for source in policies(&text) {
            seen += 1;
            let faults = faults(source);
            assert!(
                faults.is_empty(),
                "{}:\n{}\n{source}",
                page.display(),
                faults.join("\n")
            );
        }
    }
    assert!(seen >= 15, "{seen} policies");
}

#[test]
fn a_wrong_policy_is_found() {
    assert!(!faults("version = 1\n[link]\ndevice = \"wan\"\n").is_empty());
}
