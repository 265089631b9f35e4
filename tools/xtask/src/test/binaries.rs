// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs the tests of the workspace side by side, each in a process of its own.
//!
//! `cargo test` runs one binary after the other, and most wait for a virtual
//! machine or a namespace for half of their time. Here as many run at once as
//! there are cores, those that took longest in the run before first. The unit
//! tests of a crate are one run. Each test of a folder `tests` is a run, so that
//! the cores share a long binary. A run has one thread, so that no more virtual
//! machines run at once than there are cores.
//!
//! Tests of a module `long` are left to `make test-all`.

use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::Instant;

/// Where the time that each run took is stored for the next run.
const TIMES: &str = "target/test-times.json";

/// The module of tests that only `make test-all` runs.
const LONG: &str = "long";

/// Which tests run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// All but the long ones.
    Short,
    /// Every test.
    All,
}

/// A test binary that cargo has built.
#[derive(Debug, Clone)]
pub(crate) struct Binary {
    /// The package and the target, such as `cli probe`.
    name: String,
    pub(crate) executable: PathBuf,
    /// The package's folder, in which cargo runs its tests.
    pub(crate) folder: PathBuf,
    /// Whether it stands in a folder `tests`.
    pub(crate) integration: bool,
}

/// Tests of one binary that run in one process.
#[derive(Debug, Clone)]
struct Run {
    name: String,
    binary: Binary,
    /// The test; every one of the binary without.
    test: Option<String>,
}

/// What a run did.
struct Ran {
    name: String,
    output: String,
    succeeded: bool,
    seconds: f64,
}

/// Builds the tests, runs them, prints what those that failed printed, and fails
/// where one failed.
#[allow(clippy::print_stdout, reason = "the tests' output is the result")]
pub fn run(root: &Path, extent: Extent) -> Result<()> {
    let mut runs = Vec::new();
    for binary in built(root)? {
        runs.extend(binary.runs(extent)?);
    }
    let times = times(root);
    let before = |run: &Run| times.get(&run.name).copied().unwrap_or(f64::INFINITY);
    // The queue is taken from its end.
    runs.sort_by(|a, b| before(a).total_cmp(&before(b)));
    let status = fs::read_to_string("/proc/self/status")?;
    let processors = processors(&status).context("/proc/self/status has no Cpus_allowed_list")?;
    let workers = thread::available_parallelism().map_or(2, usize::from);
    let queue = Mutex::new(runs);
    let (sender, results) = mpsc::channel();
    let mut total = Total::default();
    thread::scope(|scope| {
        for processor in processors.into_iter().take(workers) {
            let (queue, sender) = (&queue, sender.clone());
            scope.spawn(move || {
                while let Some(run) = next(queue) {
                    if sender.send(run.execute(processor)).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        for ran in results {
            println!("{:7.1} s  {}", ran.seconds, ran.name);
            if !ran.succeeded {
                println!("{}", ran.output);
            }
            total.add(ran);
        }
    });
    fs::write(root.join(TIMES), serde_json::to_string(&total.seconds)?)?;
    total.print();
    if !total.failed.is_empty() {
        bail!("failed: {}", total.failed.join(", "));
    }
    Ok(())
}

fn next(queue: &Mutex<Vec<Run>>) -> Option<Run> {
    queue.lock().ok()?.pop()
}

impl Binary {
    /// Its tests, as they are run.
    fn runs(&self, extent: Extent) -> Result<Vec<Run>> {
        if !self.integration {
            return Ok(vec![Run {
                name: self.name.clone(),
                binary: self.clone(),
                test: None,
            }]);
        }
        // An ignored test runs inside a virtual machine, or by a command of its own.
        let ignored = self.listed(&["--ignored"])?;
        let mut tests = self.listed(&[])?;
        tests.retain(|test| !ignored.contains(test));
        if extent == Extent::Short {
            tests.retain(|test| test.split("::").all(|module| module != LONG));
        }
        let run = |test: String| Run {
            name: format!("{} {test}", self.name),
            binary: self.clone(),
            test: Some(test),
        };
        Ok(tests.into_iter().map(run).collect())
    }

    /// The paths of its tests.
    fn listed(&self, words: &[&str]) -> Result<Vec<String>> {
        let output = Command::new(&self.executable)
            .args(["--list", "--format", "terse"])
            .args(words)
            .current_dir(&self.folder)
            .output()
            .with_context(|| self.name.clone())?;
        let text = String::from_utf8_lossy(&output.stdout);
        let name = |line: &str| line.strip_suffix(": test").map(str::to_owned);
        Ok(text.lines().filter_map(name).collect())
    }
}

impl Run {
    /// Runs it on one processor, so that machines of the lab have one each.
    fn execute(&self, processor: usize) -> Ran {
        let start = Instant::now();
        let mut command = Command::new("taskset");
        command.args(["--cpu-list", &processor.to_string()]);
        command.arg(&self.binary.executable);
        if let Some(test) = &self.test {
            command.args(["--exact", test]);
        }
        let output = command
            .current_dir(&self.binary.folder)
            .env("RUST_TEST_THREADS", "1")
            .stdin(Stdio::null())
            .output();
        let (succeeded, output) = match output {
            Ok(output) => {
                let text = [output.stdout, output.stderr].concat();
                let text = String::from_utf8_lossy(&text).into_owned();
                (output.status.success(), text)
            }
            Err(error) => (false, format!("cannot be run: {error}")),
        };
        Ran {
            name: self.name.clone(),
            output,
            succeeded,
            seconds: start.elapsed().as_secs_f64(),
        }
    }
}

/// The test binaries of the workspace, built where they are not.
fn built(root: &Path) -> Result<Vec<Binary>> {
    let mut cargo = crate::cargo(root);
    cargo.args(["test", "--release", "--workspace"]);
    built_by(&mut cargo)?.context("the tests do not build")
}

/// The test binaries of a `cargo test`, which is not run; none where something does
/// not compile.
pub(crate) fn built_by(cargo: &mut Command) -> Result<Option<Vec<Binary>>> {
    let output = cargo
        .args(["--no-run", "--message-format=json-render-diagnostics"])
        .stderr(Stdio::inherit())
        .output()
        .context("cargo test --no-run")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let found = text.lines().filter_map(binary).collect();
    Ok(output.status.success().then_some(found))
}

/// The test binary that a line of cargo's messages tells of
/// (doc.rust-lang.org/cargo/reference/external-tools.html).
fn binary(line: &str) -> Option<Binary> {
    let message: serde_json::Value = serde_json::from_str(line).ok()?;
    let executable = PathBuf::from(message["executable"].as_str()?);
    if message["profile"]["test"] != true {
        return None;
    }
    let manifest = Path::new(message["manifest_path"].as_str()?);
    let folder = manifest.parent()?.to_owned();
    let package = folder.file_name()?.to_string_lossy().into_owned();
    let target = message["target"]["name"].as_str()?;
    Some(Binary {
        name: format!("{package} {target}"),
        executable,
        folder,
        integration: message["target"]["kind"][0] == "test",
    })
}

/// The processors that this process may use, by their numbers, of a text that has a
/// line such as `Cpus_allowed_list:  0-1,3` (proc_pid_status(5)).
fn processors(status: &str) -> Option<Vec<usize>> {
    let list = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    let mut all = Vec::new();
    for range in list.trim().split(',') {
        let (from, to) = range.split_once('-').unwrap_or((range, range));
        let (from, to): (usize, usize) = (from.parse().ok()?, to.parse().ok()?);
        all.extend(from..=to);
    }
    Some(all)
}

/// How long each run took in the one before; nothing in the first.
fn times(root: &Path) -> BTreeMap<String, f64> {
    let text = fs::read_to_string(root.join(TIMES)).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

/// What all runs did together.
#[derive(Default)]
struct Total {
    /// Tests that passed, failed and were ignored.
    counts: [u32; 3],
    failed: Vec<String>,
    seconds: BTreeMap<String, f64>,
}

impl Total {
    fn add(&mut self, ran: Ran) {
        for (count, one) in self.counts.iter_mut().zip(counts(&ran.output)) {
            *count += one;
        }
        self.seconds.insert(ran.name.clone(), ran.seconds);
        if !ran.succeeded {
            self.failed.push(ran.name);
        }
    }

    /// The ten slowest runs, then the counts.
    #[allow(clippy::print_stdout, reason = "the tests' output is the result")]
    fn print(&self) {
        let mut slowest: Vec<_> = self.seconds.iter().collect();
        slowest.sort_by(|a, b| b.1.total_cmp(a.1));
        for (name, seconds) in slowest.into_iter().take(10) {
            println!("{seconds:7.1} s  {name}");
        }
        let [passed, failed, skipped] = self.counts;
        println!("{passed} passed, {failed} failed, {skipped} skipped");
    }
}

/// What the last line of a test binary counts: passed, failed, ignored.
pub(crate) fn counts(output: &str) -> [u32; 3] {
    let line = output
        .lines()
        .rev()
        .find(|line| line.starts_with("test result:"));
    let words: Vec<&str> = line.unwrap_or_default().split(' ').collect();
    ["passed;", "failed;", "ignored;"].map(|kind| {
        let at = words.iter().position(|word| *word == kind);
        let number = at.and_then(|at| words.get(at.checked_sub(1)?)?.parse().ok());
        number.unwrap_or(0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_from_the_last_line() {
        let output = "running 5 tests\n...\n\ntest result: FAILED. 3 passed; 1 failed; 1 ignored; \
                      0 measured; 0 filtered out; finished in 0.01s\n\n";
        assert_eq!(counts(output), [3, 1, 1]);
        assert_eq!(counts("Segmentation fault"), [0, 0, 0]);
    }

    #[test]
    fn processors_are_a_list_of_ranges() {
        let status = "Name:\txtask\nCpus_allowed_list:\t0-1,3\n";
        assert_eq!(processors(status), Some(vec![0, 1, 3]));
        assert_eq!(processors("Cpus_allowed_list:\t7\n"), Some(vec![7]));
        assert_eq!(processors("Cpus_allowed_list:\tx\n"), None);
        assert_eq!(processors("Name:\txtask\n"), None);
    }

    #[test]
    fn a_message_names_a_test_binary() {
        let line = |test: bool| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/w/crates/cli/Cargo.toml",
                "target":{{"name":"probe","kind":["test"]}},"profile":{{"test":{test}}},"executable":"/w/probe-1"}}"#
            )
        };
        let found = binary(&line(true)).unwrap();
        assert_eq!(found.name, "cli probe");
        assert_eq!(found.folder, Path::new("/w/crates/cli"));
        assert!(found.integration);
        assert!(binary(&line(false)).is_none());
        assert!(binary("   Compiling").is_none());
    }
}
