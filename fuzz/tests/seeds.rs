// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs every seed once through its target, so that earlier findings stay detected.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use weirgate_fuzz::TARGETS;

/// The maximum total size of a target's seeds, in bytes.
const MOST: u64 = 64 << 10;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn names(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).expect("the folder is there");
    entries
        .map(|entry| entry.expect("an entry").path())
        .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
        .collect()
}

#[test]
fn every_target_has_seeds_and_a_dictionary() {
    let all: BTreeSet<String> = TARGETS.iter().map(|one| one.name.to_owned()).collect();
    assert_eq!(names(&folder("seeds")), all);
    assert_eq!(names(&folder("dictionaries")), all);
}

/// Runs one seed after the other, so that the seed's name precedes a panic's message.
#[test]
fn every_seed_passes_its_target() {
    for target in &TARGETS {
        let mut bytes = 0;
        for entry in fs::read_dir(folder("seeds").join(target.name)).expect("seeds") {
            let path = entry.expect("an entry").path();
            let data = fs::read(&path).expect("a seed is read");
            bytes += data.len() as u64;
            eprintln!("{}", path.display());
            let _ = target.run(&data);
        }
        assert!(bytes <= MOST, "{}: {bytes} bytes of seeds", target.name);
    }
}
