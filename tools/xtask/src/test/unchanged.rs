// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds tests that need not be repeated, because they passed with the same programs and files less
//! than a day ago.
//!
//! A run depends on its own program, the guest's program, the kernels, and every file of the
//! project that is not compiled into a program. Tests in the crates of the two programs depend on
//! these too. Changes are detected by size and modification time, as in cargo.

use anyhow::Result;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// The file with the runs that passed.
const PASSED: &str = "target/tests-passed.json";

/// How long a pass counts, in seconds: tools of this machine change too.
const DAY: u64 = 86_400;

/// The crates whose tests run the two programs, by their folders.
const OF_PROGRAMS: [&str; 2] = ["cli", "lab-cli"];

/// When a run passed, and with which inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Pass {
    inputs: u64,
    /// Seconds since 1970.
    at: u64,
}

/// The runs that passed, by name.
#[derive(Debug)]
pub struct Unchanged {
    root: PathBuf,
    /// The hash of the shared inputs.
    shared: u64,
    now: u64,
    passed: BTreeMap<String, Pass>,
}

impl Unchanged {
    /// Reads the passes of previous runs.
    pub fn read(root: &Path) -> Result<Self> {
        let mut hasher = DefaultHasher::new();
        fs::read("/proc/version")?.hash(&mut hasher);
        // The settings of tests: their seeds, and the laboratory's cache.
        for (name, value) in std::env::vars() {
            if name.starts_with("WEIRGATE_") {
                (name, value).hash(&mut hasher);
            }
        }
        let guest = root.join("target/release/weirgate-guest");
        stamp(&guest, &mut hasher)?;
        files(root, &mut hasher)?;
        let text = fs::read_to_string(root.join(PASSED)).unwrap_or_default();
        Ok(Self {
            root: root.to_owned(),
            shared: hasher.finish(),
            now: SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs(),
            passed: serde_json::from_str(&text).unwrap_or_default(),
        })
    }

    /// Returns the hash of the inputs of a run with this program, of the crate in `folder`.
    fn inputs(&self, program: &Path, folder: &Path) -> Result<u64> {
        let mut hasher = DefaultHasher::new();
        self.shared.hash(&mut hasher);
        stamp(program, &mut hasher)?;
        if OF_PROGRAMS.iter().any(|own| folder.ends_with(own)) {
            for name in ["weirgate", "weirgate-lab"] {
                stamp(&self.root.join("target/release").join(name), &mut hasher)?;
            }
        }
        Ok(hasher.finish())
    }

    /// Returns whether the run passed with the same inputs.
    pub fn is(&self, name: &str, program: &Path, folder: &Path) -> bool {
        let Some(pass) = self.passed.get(name) else {
            return false;
        };
        let same = self
            .inputs(program, folder)
            .is_ok_and(|it| it == pass.inputs);
        same && (pass.at..pass.at + DAY).contains(&self.now)
    }

    /// Records whether the run passed.
    pub fn note(&mut self, name: &str, program: &Path, folder: &Path, passed: bool) {
        match self.inputs(program, folder) {
            Ok(inputs) if passed => {
                let at = self.now;
                self.passed.insert(name.to_owned(), Pass { inputs, at });
            }
            _ => {
                self.passed.remove(name);
            }
        }
    }

    /// Stores the passes.
    pub fn write(&self) -> Result<()> {
        let text = serde_json::to_string(&self.passed)?;
        Ok(fs::write(self.root.join(PASSED), text)?)
    }
}

/// Hashes the path, size and modification time of a file.
fn stamp(path: &Path, hasher: &mut DefaultHasher) -> Result<()> {
    let file = fs::metadata(path)?;
    (path, file.len(), file.modified()?).hash(hasher);
    Ok(())
}

/// Hashes every file below a folder that is not compiled into a program.
fn files(folder: &Path, hasher: &mut DefaultHasher) -> Result<()> {
    let entries = fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()?;
    let mut paths: Vec<PathBuf> = entries.iter().map(fs::DirEntry::path).collect();
    paths.sort();
    for path in paths {
        let source = path.extension().is_some_and(|kind| kind == "rs");
        let others = ["target", ".git", "fuzz/corpus"];
        if others.iter().any(|one| path.ends_with(one)) || source || path.is_symlink() {
            continue;
        }
        if path.is_dir() {
            files(&path, hasher)?;
        } else {
            stamp(&path, hasher)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_run_depends_on_makes_it_run_again() {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        let write = |path: &str, text: &str| {
            fs::create_dir_all(at(path).parent().unwrap()).unwrap();
            fs::write(at(path), text).unwrap();
        };
        for program in ["weirgate", "weirgate-lab", "weirgate-guest", "deps/own"] {
            write(&format!("target/release/{program}"), "1");
        }
        write("tests/golden.txt", "1");
        write("crates/plan/src/lib.rs", "1");
        let own = at("target/release/deps/own");
        let (plan, cli) = (at("crates/plan"), at("crates/cli"));
        let again = || {
            let unchanged = Unchanged::read(root.path()).unwrap();
            [&plan, &cli].map(|folder| !unchanged.is("own", &own, folder))
        };
        let pass = |folder: &Path, passed| {
            let mut unchanged = Unchanged::read(root.path()).unwrap();
            unchanged.note("own", &own, folder, passed);
            unchanged.write().unwrap();
        };
        assert_eq!(again(), [true, true], "nothing has passed yet");
        // Sources affect only the tests of the programs that are built from them.
        for (changed, expected) in [
            ("crates/plan/src/lib.rs", [false, false]),
            ("target/release/weirgate", [false, true]),
            ("target/release/weirgate-lab", [false, true]),
            ("target/release/weirgate-guest", [true, true]),
            ("target/release/deps/own", [true, true]),
            ("tests/golden.txt", [true, true]),
            ("tests/new.txt", [true, true]),
        ] {
            let mut found = [false; 2];
            for (place, folder) in [&plan, &cli].into_iter().enumerate() {
                pass(folder, true);
                assert!(!again()[place], "before {changed}");
                write(changed, &format!("changed {place}"));
                fs::write(at(changed), "longer than before".repeat(place + 2)).unwrap();
                found[place] = again()[place];
                fs::remove_file(at(changed)).unwrap();
                write(changed, "1");
            }
            assert_eq!(found, expected, "{changed}");
        }
        pass(&plan, true);
        pass(&plan, false);
        assert!(again()[0], "it has failed");
        // A pass of long ago.
        pass(&plan, true);
        let mut old = Unchanged::read(root.path()).unwrap();
        old.now += DAY;
        assert!(!old.is("own", &own, &plan));
    }
}
