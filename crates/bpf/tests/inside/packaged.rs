// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Loads the programs as packages contain them: without the lines of their sources.

use weirgate_aqm::Discipline;
use weirgate_bpf::{programs, verify};

#[path = "../../lines.rs"]
mod lines;

/// The kernel loads programs without lines, which are half as large. One discipline stands for all,
/// which differ little.
#[test]
#[ignore = "runs in the lab's kernel"]
fn without_lines() {
    let mut loaded = 0;
    let alike = |name: &str| {
        let discipline = Discipline::named(name.trim_start_matches("ingress_"));
        discipline.is_some_and(|one| one.name() != "codel")
    };
    for (name, whole) in programs().filter(|(name, _)| !alike(name)) {
        let object = lines::without_lines(&whole).expect("an object of the kernel's programs");
        assert!(
            object.len() * 2 < whole.len() + 8 * 1024,
            "{name}: {} of {} bytes",
            object.len(),
            whole.len()
        );
        let found = verify(&object).unwrap_or_else(|refused| panic!("{name}: {}", refused.log));
        assert!(!found.is_empty(), "{name}");
        loaded += 1;
    }
    assert!(loaded > 12, "{loaded}");
}
