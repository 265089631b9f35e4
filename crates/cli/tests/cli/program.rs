// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs the program and checks what it leaves behind.

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// The program under test.
pub const WEIRGATE: &str = env!("CARGO_BIN_EXE_weirgate");

/// The laboratory's program beside it, to which `weirgate lab` hands over. `cargo build -p
/// weirgate-lab-cli` builds it.
pub const LAB: &str = concat!(env!("CARGO_BIN_EXE_weirgate"), "-lab");

/// A variable in the environment of every process that the program starts, by which a process that
/// outlives the program is found.
const MARK: &str = "WEIRGATE_TEST_MARK";

/// Returns the repository's folder.
pub fn root() -> PathBuf {
    weirgate_testing::root()
}

/// Returns a program of another package: the one that `cargo xtask setup` unpacked, else an
/// installed one.
pub fn tool(name: &str) -> PathBuf {
    let unpacked = root().join("target/tools/usr/bin").join(name);
    if unpacked.exists() {
        unpacked
    } else {
        PathBuf::from(name)
    }
}

/// Reports that a test checked nothing, and why. It writes past the harness, which captures the
/// output of tests unless they fail.
pub fn skipped(why: &str) {
    writeln!(std::io::stderr().lock(), "SKIPPED: {why}").unwrap();
}

/// The result of a run of the program.
#[derive(Debug)]
pub struct Ended {
    pub status: i32,
    pub out: String,
    pub err: String,
}

impl Ended {
    /// Converts a command's output, without the path of this repository.
    pub fn of(output: &Output) -> Self {
        let prefix = format!("{}/", root().display());
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace(&prefix, "");
        Self {
            // A negative status stands for a signal.
            status: output.status.code().unwrap_or(-1),
            out: text(&output.stdout),
            err: text(&output.stderr),
        }
    }

    /// Asserts the exit status and what the error output contains.
    #[track_caller]
    pub fn says(&self, status: i32, parts: &[&str]) -> &Self {
        assert_eq!(self.status, status, "{self:?}");
        for part in parts {
            assert!(self.err.contains(part), "`{part}` in {self:?}");
        }
        self
    }
}

/// A folder for temporary files, whose name marks the processes of the test.
pub struct Traces(TempDir);

impl Traces {
    pub fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    /// Returns a command that runs `weirgate` in `folder`, with its processes and temporary files
    /// marked.
    pub fn command(&self, folder: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(WEIRGATE);
        command
            .args(arguments)
            .current_dir(folder)
            .env("TMPDIR", self.0.path())
            .env(MARK, self.mark());
        command
    }

    fn mark(&self) -> String {
        self.0.path().display().to_string()
    }

    /// Returns the command lines of the marked processes that exist now.
    pub fn processes(&self) -> Vec<String> {
        marked(&self.mark())
    }

    /// Asserts that no process and no temporary file is left.
    #[track_caller]
    pub fn none(&self) {
        assert_eq!(self.processes(), Vec::<String>::new(), "processes are left");
        let left: Vec<_> = fs::read_dir(self.0.path()).unwrap().flatten().collect();
        assert!(left.is_empty(), "temporary files are left: {left:?}");
    }
}

/// Runs `weirgate` in `folder`; asserts that no process and no temporary file is left.
#[track_caller]
pub fn weirgate(folder: &Path, arguments: &[&str]) -> Ended {
    let traces = Traces::new();
    let output = traces.command(folder, arguments).output().unwrap();
    traces.none();
    Ended::of(&output)
}

/// Returns the command lines of processes with the mark.
fn marked(mark: &str) -> Vec<String> {
    let own = format!("{MARK}={mark}");
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        // A process may end between these reads, or belong to someone else.
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        if environment
            .split(|&b| b == 0)
            .any(|one| one == own.as_bytes())
        {
            let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            found.push(String::from_utf8_lossy(&line).replace('\0', " "));
        }
    }
    found
}

/// Compares a text with a file of `tests/cli`, or writes the file if that was requested.
#[track_caller]
pub fn golden(file: &Path, text: &str) {
    weirgate_testing::golden(file, text);
}

#[test]
fn a_process_that_is_left_is_found() {
    let mark = "a process that is left";
    let mut cat = Command::new("cat")
        .env(MARK, mark)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = cat.stdin.take().unwrap();
    input.write_all(b"x").unwrap();
    // The echo shows that it runs; before that, its environment may be unset.
    cat.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    let found = marked(mark);
    drop(input);
    cat.wait().unwrap();
    assert_eq!(found, ["cat "]);
}
