// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds tests that need not be repeated, because they passed with the same programs and files less
//! than a day ago.
//!
//! A run depends on its own program, the guest's program, the kernels, and every file of the
//! project that is not compiled into a program. Tests in the crates of the two programs depend on
//! these too, and tests that read Rust's sources on all of them. Changes are detected by size and
//! modification time, as in cargo; those of the lab's kernels by the versions that are selected.

use crate::files::target;
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

/// Folders with tests that read Rust's sources while they run.
const OF_SOURCES: [&str; 2] = ["crates/cli", "tools/xtask"];

/// Folders of the lab's cache, in which a link selects the version that is used.
const SELECTED: [&str; 2] = ["kernels", "emulators"];

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
    /// The folder of the built programs.
    programs: PathBuf,
    /// The hash of the shared inputs.
    shared: u64,
    /// The hash of Rust's sources.
    sources: u64,
    now: u64,
    passed: BTreeMap<String, Pass>,
}

impl Unchanged {
    /// Reads the passes of previous runs.
    pub fn read(root: &Path) -> Result<Self> {
        Self::of(root, &target(root).join("release"), &cache())
    }

    fn of(root: &Path, programs: &Path, cache: &Path) -> Result<Self> {
        let mut hasher = DefaultHasher::new();
        fs::read("/proc/version")?.hash(&mut hasher);
        // The settings of tests: their seeds, and the laboratory's cache.
        for (name, value) in std::env::vars() {
            if name.starts_with("WEIRGATE_") {
                (name, value).hash(&mut hasher);
            }
        }
        stamp(&programs.join("weirgate-guest"), &mut hasher)?;
        for folder in SELECTED {
            links(&cache.join(folder), &mut hasher)?;
        }
        let mut sources = DefaultHasher::new();
        files(root, &mut hasher, &mut sources)?;
        let text = fs::read_to_string(root.join(PASSED)).unwrap_or_default();
        Ok(Self {
            root: root.to_owned(),
            programs: programs.to_owned(),
            shared: hasher.finish(),
            sources: sources.finish(),
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
                stamp(&self.programs.join(name), &mut hasher)?;
            }
        }
        if OF_SOURCES.iter().any(|own| folder.ends_with(own)) {
            self.sources.hash(&mut hasher);
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

/// Returns the lab's cache, as `weirgate_lab::Cache::of_user` does.
fn cache() -> PathBuf {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let base = set("XDG_CACHE_HOME").map(PathBuf::from);
    let base = base.or_else(|| set("HOME").map(|home| Path::new(&home).join(".cache")));
    let own = || base.unwrap_or_else(std::env::temp_dir).join("weirgate");
    set("WEIRGATE_CACHE").map_or_else(own, PathBuf::from)
}

/// Hashes the targets of the links in a folder, which need not exist.
fn links(folder: &Path, hasher: &mut DefaultHasher) -> Result<()> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_>>()?;
    paths.sort();
    for path in paths.iter().filter(|path| path.is_symlink()) {
        (path, fs::read_link(path)?).hash(hasher);
    }
    Ok(())
}

/// Hashes every file below a folder: Rust's sources, which are compiled into programs, apart from
/// the others.
fn files(folder: &Path, hasher: &mut DefaultHasher, sources: &mut DefaultHasher) -> Result<()> {
    let entries = fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()?;
    let mut paths: Vec<PathBuf> = entries.iter().map(fs::DirEntry::path).collect();
    paths.sort();
    for path in paths {
        let source = path.extension().is_some_and(|kind| kind == "rs");
        let others = ["target", ".git", "fuzz/corpus"];
        if others.iter().any(|one| path.ends_with(one)) || path.is_symlink() {
            continue;
        }
        if path.is_dir() {
            files(&path, hasher, sources)?;
        } else if source {
            stamp(&path, sources)?;
        } else {
            stamp(&path, hasher)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

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
        fs::create_dir_all(at("cache/kernels")).unwrap();
        let current = at("cache/kernels/current");
        symlink("7.1", &current).unwrap();
        let own = at("target/release/deps/own");
        let folders = ["crates/plan", "crates/lab-cli", "crates/cli", "tools/xtask"].map(at);
        let plan = &folders[0];
        let read = || {
            let programs = at("target/release");
            Unchanged::of(root.path(), &programs, &at("cache")).unwrap()
        };
        let again = || {
            let unchanged = read();
            [0, 1, 2, 3].map(|place| !unchanged.is("own", &own, &folders[place]))
        };
        let pass = |folder: &Path, passed| {
            let mut unchanged = read();
            unchanged.note("own", &own, folder, passed);
            unchanged.write().unwrap();
        };
        assert_eq!(again(), [true; 4], "nothing has passed yet");
        // Sources affect only the tests of the programs that are built from them, and those that
        // read them.
        for (changed, expected) in [
            ("crates/plan/src/lib.rs", [false, false, true, true]),
            ("target/release/weirgate", [false, true, true, false]),
            ("target/release/weirgate-lab", [false, true, true, false]),
            ("target/release/weirgate-guest", [true; 4]),
            ("target/release/deps/own", [true; 4]),
            ("tests/golden.txt", [true; 4]),
            ("tests/new.txt", [true; 4]),
        ] {
            let mut found = [false; 4];
            for (place, folder) in folders.iter().enumerate() {
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
        pass(plan, true);
        pass(plan, false);
        assert!(again()[0], "it has failed");
        pass(plan, true);
        fs::remove_file(&current).unwrap();
        symlink("7.2", &current).unwrap();
        assert!(again()[0], "another kernel is selected");
        // A pass of long ago.
        pass(plan, true);
        let mut old = read();
        old.now += DAY;
        assert!(!old.is("own", &own, plan));
    }
}
