// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs the tests of the workspace side by side, each in its own process.
//!
//! `cargo test` runs one binary after the other, and most wait for a virtual machine or a namespace
//! for half of their time. Here as many run at once as there are cores, those that took longest in
//! the previous run first. The unit tests of a crate are one run. Each test of a folder `tests` is
//! a run, so that the cores share a long binary. A run has one thread, so that no more virtual
//! machines run at once than there are cores. One more worker takes runs that mostly wait for
//! clocks of this machine. It has no processor of its own, and gets a higher priority if that is
//! permitted.
//!
//! Tests of a module `long` run only in `make test-all`. `make test` does not repeat tests that
//! passed with the same programs and files.

use super::processor::executed;
use super::total::{Ran, Total, skipped};
use super::unchanged::Unchanged;
use anyhow::{Context, Result, bail};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::Instant;

/// The file with the duration of each run, for the next time.
const TIMES: &str = "target/test-times.json";

/// The module of tests that only `make test-all` runs.
const LONG: &str = "long";

/// The module each of whose modules is one run.
const TOGETHER: &str = "together";

/// Binaries whose tests mostly wait for services, guards and late answers.
const WAITING: [&str; 7] = [
    "cli cli",
    "kernel namespace",
    "probe remote",
    "probe sequence",
    "watch collector",
    "watch send",
    "watch service",
];

/// The selection of tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// All except the long ones.
    Short,
    /// Every test.
    All,
}

/// A test binary that cargo has built.
#[derive(Debug, Clone)]
pub struct Binary {
    /// The package and the target, such as `cli probe`.
    name: String,
    pub(crate) executable: PathBuf,
    /// The package's folder, in which cargo runs its tests.
    pub(crate) folder: PathBuf,
    /// Whether it is in a folder `tests`.
    pub(crate) integration: bool,
}

/// Tests of one binary that run in one process.
#[derive(Debug, Clone)]
struct Run {
    name: String,
    binary: Binary,
    which: Which,
}

/// The tests of a binary that are one run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Which {
    All,
    /// The tests of this module, whose path ends with `::`.
    Module(String),
    One(String),
}

impl Which {
    /// Returns the run of a test, by its path. Refuses a test directly in the module for shared
    /// guests: it would boot its own guest.
    fn of(test: &str) -> Result<Self> {
        let parts: Vec<&str> = test.split("::").collect();
        match parts.iter().position(|module| *module == TOGETHER) {
            // A submodule, and the test.
            Some(at) if at + 2 < parts.len() => {
                let module = parts[..at + 2].join("::");
                Ok(Self::Module(format!("{module}::")))
            }
            Some(_) => bail!("test {test}: must be in a module of `{TOGETHER}`"),
            None => Ok(Self::One(test.to_owned())),
        }
    }
}

/// Runs the tests of these binaries, and prints the output of those that failed. Fails if one
/// failed. If `only` has texts, only tests with one of them in their name run.
#[allow(clippy::print_stdout, reason = "the tests' output is the result")]
pub fn run(root: &Path, binaries: Vec<Binary>, extent: Extent, only: &[String]) -> Result<()> {
    let mut runs = Vec::new();
    for binary in binaries {
        runs.extend(binary.runs(extent)?);
    }
    runs.retain(|run| only.is_empty() || only.iter().any(|word| run.name.contains(word)));
    anyhow::ensure!(
        only.is_empty() || !runs.is_empty(),
        "no test has a name with {}",
        only.join(" or ")
    );
    let mut unchanged = Unchanged::read(root)?;
    let all = runs.len();
    if extent == Extent::Short && only.is_empty() {
        runs.retain(|run| !unchanged.is(&run.name, &run.binary.executable, &run.binary.folder));
    }
    let repeated = runs.len();
    let mut times = times(root);
    // Of runs without a known time, those with a shared machine take longest, unit tests least.
    let expected = |run: &Run| match run.which {
        Which::Module(_) => f64::INFINITY,
        Which::One(_) => 1e6,
        Which::All => 0.0,
    };
    let before = |run: &Run| {
        let known = times.get(&run.name).copied();
        known.unwrap_or_else(|| expected(run))
    };
    // The queue is taken from its end.
    runs.sort_by(|a, b| before(a).total_cmp(&before(b)));
    let status = fs::read_to_string("/proc/self/status")?;
    let processors = processors(&status).context("/proc/self/status has no Cpus_allowed_list")?;
    let workers = thread::available_parallelism().map_or(2, usize::from);
    let queue = Mutex::new(runs);
    let (sender, results) = mpsc::channel();
    let mut total = Total::default();
    println!("processor, wall time");
    thread::scope(|scope| {
        let own = processors.into_iter().take(workers).map(Some);
        for processor in own.chain([None]) {
            let (queue, sender) = (&queue, sender.clone());
            scope.spawn(move || {
                while let Some(run) = next(queue, processor.is_some()) {
                    if sender.send(run.execute(processor)).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        for ran in results {
            println!("{:7.1} s {:7.1} s  {}", ran.busy, ran.seconds, ran.name);
            if !ran.succeeded {
                println!("{}", ran.output);
            }
            for why in skipped(&ran.output) {
                println!("  {why}");
            }
            unchanged.note(&ran.name, &ran.executable, &ran.folder, ran.passed());
            total.add(ran);
        }
    });
    unchanged.write()?;
    times.extend(total.seconds.clone());
    fs::write(root.join(TIMES), serde_json::to_string(&times)?)?;
    total.print();
    if repeated < all {
        let left = all - repeated;
        println!("{left} of {all} runs passed with the same programs and files: not repeated");
    }
    if !total.failed.is_empty() {
        bail!("failed: {}", total.failed.join(", "));
    }
    Ok(())
}

/// Returns the next run for a worker. The worker without a processor takes only runs that mostly
/// wait; the others take these last.
fn next(queue: &Mutex<Vec<Run>>, has_processor: bool) -> Option<Run> {
    let mut queue = queue.lock().ok()?;
    let at = queue
        .iter()
        .rposition(|run| run.binary.waits() != has_processor);
    let last = queue.len().checked_sub(1).filter(|_| has_processor);
    Some(queue.remove(at.or(last)?))
}

impl Binary {
    /// Returns the runs of its tests.
    fn runs(&self, extent: Extent) -> Result<Vec<Run>> {
        if !self.integration {
            return Ok(vec![Run {
                name: self.name.clone(),
                binary: self.clone(),
                which: Which::All,
            }]);
        }
        // An ignored test runs inside a virtual machine, or by a separate command.
        let ignored = self.listed(&["--ignored"])?;
        let mut tests = self.listed(&[])?;
        tests.retain(|test| !ignored.contains(test));
        if extent == Extent::Short {
            tests.retain(|test| test.split("::").all(|module| module != LONG));
        }
        let which = tests.iter().map(|test| Which::of(test));
        let runs: BTreeSet<Which> = which.collect::<Result<_>>()?;
        let run = |which: Which| Run {
            name: match &which {
                Which::All => self.name.clone(),
                Which::Module(path) | Which::One(path) => format!("{} {path}", self.name),
            },
            binary: self.clone(),
            which,
        };
        Ok(runs.into_iter().map(run).collect())
    }

    /// Returns whether its tests mostly wait.
    fn waits(&self) -> bool {
        WAITING.contains(&&*self.name)
    }

    /// Returns the paths of its tests.
    fn listed(&self, words: &[&str]) -> Result<Vec<String>> {
        let output = Command::new(&self.executable)
            .args(["--list", "--format", "terse"])
            .args(words)
            .current_dir(&self.folder)
            .output()
            .with_context(|| self.name.clone())?;
        let (name, status) = (&self.name, output.status);
        anyhow::ensure!(status.success(), "{name} cannot list its tests: {status}");
        let text = String::from_utf8_lossy(&output.stdout);
        let name = |line: &str| line.strip_suffix(": test").map(str::to_owned);
        Ok(text.lines().filter_map(name).collect())
    }
}

impl Run {
    /// Executes the run, on one processor if one is given, so that each of the lab's machines has
    /// its own.
    fn execute(&self, processor: Option<usize>) -> Ran {
        let start = Instant::now();
        let mut command = if let Some(processor) = processor {
            let mut command = Command::new("taskset");
            command.args(["--cpu-list", &processor.to_string()]);
            command
        } else {
            // Runs that wait for clocks get a higher priority. Without the permission, nice(1)
            // prints a warning and runs the command anyway.
            let mut command = Command::new("nice");
            command.args(["-n", "-10"]);
            command
        };
        command.arg(&self.binary.executable);
        match &self.which {
            Which::All => {}
            Which::Module(path) => {
                command.arg(path);
            }
            Which::One(test) => {
                command.args(["--exact", test]);
            }
        }
        command
            .current_dir(&self.binary.folder)
            .env("RUST_TEST_THREADS", "1")
            .stdin(Stdio::null());
        let (succeeded, output, busy) = match executed(command) {
            Ok((status, output, busy)) => (status.success(), output, busy),
            Err(error) => (false, format!("cannot be run: {error}"), 0.0),
        };
        Ran {
            name: self.name.clone(),
            executable: self.binary.executable.clone(),
            folder: self.binary.folder.clone(),
            output,
            succeeded,
            seconds: start.elapsed().as_secs_f64(),
            busy,
        }
    }
}

/// Returns the test binaries of the workspace, built if necessary.
pub fn built(root: &Path) -> Result<Vec<Binary>> {
    let mut cargo = crate::command::cargo(root);
    cargo.args(["test", "--release", "--workspace"]);
    built_by(&mut cargo)?.context("the tests do not build")
}

/// Returns the test binaries of a `cargo test`, without running them; `None` if something does not
/// compile.
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

/// Returns the test binary that a line of cargo's messages reports
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

/// Returns the numbers of the processors that this process may use, from a line such as
/// `Cpus_allowed_list:  0-1,3` (proc_pid_status(5)).
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

/// Returns how long each run took the previous time; empty the first time.
fn times(root: &Path) -> BTreeMap<String, f64> {
    let text = fs::read_to_string(root.join(TIMES)).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_a_list_of_ranges() {
        let status = "Name:\txtask\nCpus_allowed_list:\t0-1,3\n";
        assert_eq!(processors(status), Some(vec![0, 1, 3]));
        assert_eq!(processors("Cpus_allowed_list:\t7\n"), Some(vec![7]));
        assert_eq!(processors("Cpus_allowed_list:\tx\n"), None);
        assert_eq!(processors("Name:\txtask\n"), None);
    }

    #[test]
    fn what_waits_is_left_to_the_worker_without_processor() {
        let run = |name: &str, test: &str| Run {
            name: test.to_owned(),
            binary: Binary {
                name: name.to_owned(),
                executable: PathBuf::new(),
                folder: PathBuf::new(),
                integration: true,
            },
            which: Which::of(test).unwrap(),
        };
        let all = [("cli cli", "a"), ("lab line", "b"), ("cli cli", "c")];
        let queue = Mutex::new(Vec::from(all.map(|(name, test)| run(name, test))));
        let found = |has_processor| next(&queue, has_processor).map(|run| run.name);
        assert_eq!(found(false).as_deref(), Some("c"));
        assert_eq!(found(true).as_deref(), Some("b"));
        assert_eq!(found(true).as_deref(), Some("a"));
        assert_eq!([found(true), found(false)], [None, None]);
        queue.lock().unwrap().push(run("lab line", "b"));
        assert_eq!(found(false), None);
    }

    #[test]
    fn tests_that_share_a_guest_are_one_run() {
        let module = |path: &str| Which::Module(path.to_owned());
        let of = |test: &str| Which::of(test).ok();
        assert_eq!(of("together::a::b"), Some(module("together::a::")));
        assert_eq!(of("x::together::a::b::c"), Some(module("x::together::a::")));
        assert_eq!(of("a::b"), Some(Which::One("a::b".to_owned())));
        assert_eq!(of("together::a"), None);
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
