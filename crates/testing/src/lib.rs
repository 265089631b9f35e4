// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Test helpers for several crates: the project's files, golden files, a small experiment, and a
//! model of an access line that writes recordings.
//!
//! A development dependency only; no program contains it.
//!
//! A golden file contains the text that a test expects. `UPDATE_EXPECT=1 cargo test` rewrites the
//! files; review the difference before you commit it.
//!
//! ```
//! let readme = weirgate_testing::read("README.md");
//! assert!(readme.starts_with("# weirgate"));
//! ```

pub mod line;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use weirgate_document::Problem;

/// Returns the project's root folder.
///
/// # Panics
///
/// Panics if the source tree of the build no longer exists.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .expect("the project's folder exists")
}

/// Runs a command line, split at single spaces, without a shell. Returns its output.
///
/// # Panics
///
/// Panics if it cannot be run, or fails.
#[track_caller]
pub fn run(line: &str) -> String {
    let mut words = line.split(' ');
    let program = words.next().unwrap_or_default();
    let output = Command::new(program)
        .args(words)
        .output()
        .unwrap_or_else(|error| panic!("{line}: {error}"));
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line}: {message}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns the text of a file, by its path from the project's root.
///
/// # Panics
///
/// Panics if the file cannot be read.
#[track_caller]
pub fn read(path: &str) -> String {
    let path = root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the files of a folder with an extension such as `toml`, in order of name. The folder is
/// relative to the project's root.
///
/// # Panics
///
/// Panics if the folder cannot be read or has no such file, so that no test passes with an empty
/// list.
#[track_caller]
pub fn files(folder: &str, extension: &str) -> Vec<PathBuf> {
    let folder = root().join(folder);
    let entries =
        fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let paths = entries.map(|entry| entry.expect("a readable folder").path());
    let mut files: Vec<PathBuf> = paths
        .filter(|path| path.extension().is_some_and(|it| it == extension))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no .{extension} in {}", folder.display());
    files
}

/// Compares a text with a golden file, or writes the file if `UPDATE_EXPECT` is set. A relative
/// path starts at the project's root.
///
/// # Panics
///
/// Panics if the texts differ.
#[track_caller]
pub fn golden(path: impl AsRef<Path>, text: &str) {
    expect_test::expect_file![root().join(path)].assert_eq(text);
}

/// Compares a text with the part of a page between `<!-- MARK:begin -->` and `<!-- MARK:end -->`,
/// or writes it there if `UPDATE_EXPECT` is set.
///
/// # Panics
///
/// Panics if the page lacks the marks, or has another text between them.
#[track_caller]
pub fn golden_part(path: &str, mark: &str, text: &str) {
    let page = read(path);
    let (begin, end) = (
        format!("<!-- {mark}:begin -->\n"),
        format!("<!-- {mark}:end -->"),
    );
    let parts = page.split_once(&begin);
    let (before, rest) = parts.unwrap_or_else(|| panic!("{path} lacks {begin}"));
    let parts = rest.split_once(&end);
    let (_, after) = parts.unwrap_or_else(|| panic!("{path} lacks {end}"));
    golden(path, &format!("{before}{begin}{text}{end}{after}"));
}

/// Returns the head of an experiment on the ADSL line of Brouer's thesis (chapter 3): 2000 kbit/s
/// down, 512 kbit/s up, ATM cells, 28 bytes of overhead. A test appends phases, traffic, probes and
/// arms. `down` is the buffer of the exchange, such as `40kB`.
pub fn adsl(name: &str, down: &str) -> String {
    format!(
        "version = 1\nname = \"{name}\"\ntitle = \"{name}\"\nsource = \"a test\"\n\
         about = \"A test.\"\nsettle = \"100ms\"\n\n\
         [topology]\nkind = \"access-line\"\n\n\
         [topology.line]\nframing = \"atm\"\noverhead = 28\n\
         up = {{ rate = \"512kbit\", delay = \"2ms\", buffer = \"200kB\" }}\n\
         down = {{ rate = \"2000kbit\", delay = \"2ms\", buffer = \"{down}\" }}\n\n"
    )
}

/// Returns the known fields of each table of a file, in the order of the file, from the reader's
/// reports about an unknown field in each table.
///
/// # Panics
///
/// Panics if a report has no list of fields.
#[track_caller]
pub fn known_fields(source: &str, problems: &[Problem]) -> Vec<BTreeSet<String>> {
    let unknown = problems.iter().filter(|problem| problem.code == "D003");
    let known = unknown.map(|problem| {
        let text = problem.render("file.toml", source);
        let (_, list) = text.split_once("known here: ").expect("a list of fields");
        let list = list.lines().next().unwrap_or_default();
        list.split(", ").map(str::to_owned).collect()
    });
    known.collect()
}
