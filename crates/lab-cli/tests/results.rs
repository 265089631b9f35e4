// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests the ledger's commands on a calculated experiment, without a virtual machine.

use std::fs;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

const HALF: &str = r#"
version = 1
name = "half"
title = "Half of ten"

[[figure]]
name = "half"
formula = "10 / 2"

[[figure]]
name = "twice"
formula = "2 * calculated.half.value"

[[expect]]
arm = "calculation"
metric = "calculated.half.value"
value = 5
tolerance = 0
source = "arithmetic"

[[expect]]
arm = "calculation"
metric = "calculated.twice.value"
value = 11
tolerance = 0
source = "a mistake"
reason = "twice five is ten"
"#;

/// A ledger of one experiment.
struct Ledger(TempDir);

impl Ledger {
    fn new() -> Self {
        let ledger = Self(TempDir::new().expect("a folder"));
        fs::create_dir(ledger.0.path().join("experiments")).expect("a folder in it");
        ledger.write("experiments/half.toml", HALF);
        ledger
    }

    fn write(&self, path: &str, text: &str) {
        fs::write(self.0.path().join(path), text).expect("a file");
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.0.path().join(path)).expect("a file")
    }

    /// Checks the exit status and parts of the output of `weirgate-lab results`.
    #[track_caller]
    fn says(&self, arguments: &str, status: i32, parts: &[&str]) {
        let mut command = self.command(arguments);
        command.env("WEIRGATE_CACHE", self.0.path().join("cache"));
        Self::runs(&mut command, arguments, status, parts);
    }

    fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(Path::new(env!("CARGO_BIN_EXE_weirgate-lab")));
        command.arg("results").args(arguments.split(' '));
        command.current_dir(self.0.path());
        command
    }

    #[track_caller]
    fn runs(command: &mut Command, arguments: &str, status: i32, parts: &[&str]) {
        let output = command.output().expect("the program runs");
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        assert_eq!(output.status.code(), Some(status), "{arguments}: {text}");
        for part in parts {
            assert!(text.contains(part), "{arguments}: `{part}` in {text}");
        }
    }
}

#[test]
fn a_figure_that_gets_worse_ends_with_1_until_it_is_accepted() {
    let ledger = Ledger::new();
    ledger.says(
        "run",
        0,
        &["1 experiments have no stored result", "0 were run"],
    );
    ledger.says("accept half", 0, &["1 kept, 0 explained, 1 missed"]);
    // An old miss is not a difference.
    ledger.says("run", 0, &["1 experiments are unchanged, 0 were run"]);
    ledger.says("run --all", 0, &["1 were run: 0 figures are worse"]);
    ledger.says(
        "verify half",
        0,
        &["2 recordings and figures repeat bit for bit"],
    );
    ledger.says(
        "show half",
        0,
        &["kept: arm `calculation`: calculated.half.value is 5"],
    );

    ledger.write("experiments/half.toml", &HALF.replace("10 / 2", "12 / 2"));
    let worse = "worse: half, arm `calculation`: calculated.half.value: 5 within 0: 6, missed; the \
                 ledger has 5, kept";
    ledger.says(
        "run",
        1,
        &["half: changed: what the experiment runs", worse],
    );
    ledger.says("verify half", 1, &["2 do not"]);
    ledger.says("accept half", 1, &["not stored", "calculated.half.value"]);
    let reason = "source = \"arithmetic\"\nreason = \"half of twelve\"";
    let explained = HALF
        .replace("10 / 2", "12 / 2")
        .replace("source = \"arithmetic\"", reason);
    ledger.write("experiments/half.toml", &explained);
    ledger.says(
        "accept",
        0,
        &["worse: half", "0 kept, 0 explained, 2 missed"],
    );
    ledger.says("run", 0, &["1 experiments are unchanged"]);
    ledger.write("experiments/half.toml", HALF);
    ledger.says("run", 0, &["better: half", "1 are better"]);
}

#[test]
fn what_is_unchanged_is_judged_again_and_no_result_is_forgotten() {
    let ledger = Ledger::new();
    ledger.says("accept half", 0, &[]);
    // As if an earlier program had expected more of the same file.
    let stored = ledger.read("results/half.toml");
    let line = stored.lines().find(|line| line.contains("calculated.half"));
    let more = line.expect("a figure").replace("5 within 0", "at least 4");
    let more = stored.replace("figures = [", &format!("figures = [\n{more}"));
    ledger.write("results/half.toml", &more);
    let gone = "expectation changed: half, arm `calculation`: calculated.half.value: at least 4";
    ledger.says("run", 1, &["1 experiments are unchanged", gone]);

    ledger.write("results/half.toml", &stored);
    ledger.says("run", 0, &["1 experiments are unchanged"]);
    ledger.write("results/gone.toml", &stored);
    ledger.says(
        "run",
        1,
        &["gone.toml: a stored result without an experiment"],
    );
}

#[test]
fn a_loosened_expectation_ends_with_1_and_words_change_nothing() {
    let ledger = Ledger::new();
    ledger.says("accept half", 0, &[]);
    ledger.write("experiments/half.toml", &format!("# A word.\n{HALF}"));
    ledger.says("run", 0, &["1 experiments are unchanged"]);
    ledger.write(
        "experiments/half.toml",
        &HALF.replacen("tolerance = 0", "tolerance = 1", 1),
    );
    let parts = [
        "half: changed: what is expected",
        "5 within 0 (5, kept) is now 5 within 1",
    ];
    ledger.says("run", 1, &parts);
}

#[test]
fn mistakes_are_named() {
    let ledger = Ledger::new();
    ledger.says(
        "run haif",
        2,
        &["there is no experiment `haif`", "did you mean `half`?"],
    );
    ledger.says("verify half", 2, &["half has no stored result"]);
    ledger.says("accept half", 0, &[]);
    let stored = ledger.read("results/half.toml");
    ledger.write(
        "results/half.toml",
        &stored.replace("mean = 5,", "mean = 6,"),
    );
    ledger.says(
        "run",
        2,
        &["results/half.toml", "`mean` of these runs is 5"],
    );
}

#[test]
fn shards_of_what_is_calculated_have_no_run() {
    let ledger = Ledger::new();
    ledger.says("run half --shard 1/2 --to runs", 0, &["shard 1/2: 0 runs"]);
    ledger.says("merge runs --only half", 2, &["runs: No such file"]);
    fs::create_dir_all(ledger.0.path().join("runs/half")).expect("a folder");
    ledger.says("merge runs --only half", 2, &["runs: has no runs"]);
    ledger.write("runs/half/calculation-1.json", "{}");
    let parts = [
        "runs cannot be put together",
        "runs/half/calculation-1.json: is not a run of `--shard`: missing field `experiment`",
    ];
    ledger.says("merge runs --only half", 2, &parts);
    ledger.write("file", "");
    ledger.says("run half --shard 1/2 --to file", 2, &["nothing was run"]);
    for (wrong, part) in [
        ("run half --shard 3/2 --to runs", "it is not K/N"),
        ("run half --shard 1/2", "--to <FOLDER>"),
        ("run half --to runs", "--shard <K/N>"),
        ("merge", "<FOLDER>..."),
    ] {
        ledger.says(wrong, 2, &[part]);
    }
}

/// Returns the text of a shipped file.
fn shipped(name: &str) -> String {
    let file = Path::new("../../packaging/sweeps").join(name);
    fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

#[test]
fn the_job_array_gives_each_task_its_shard() {
    let ledger = Ledger::new();
    ledger.write("weirgate.sbatch", &shipped("weirgate.sbatch"));
    let task = |last: &str, status, parts: &[&str]| {
        let mut bash = Command::new("bash");
        bash.args(["weirgate.sbatch", "runs", "half"]);
        bash.current_dir(ledger.0.path());
        bash.env("WEIRGATE_LAB", env!("CARGO_BIN_EXE_weirgate-lab"));
        for (name, value) in [("ID", "3"), ("MIN", "1"), ("MAX", last), ("COUNT", "7")] {
            bash.env(format!("SLURM_ARRAY_TASK_{name}"), value);
        }
        Ledger::runs(&mut bash, last, status, parts);
    };
    task("7", 0, &["shard 3/7: 0 runs"]);
    // Tasks 1, 3 and 9 alone would be mistaken for thirds.
    task("9", 2, &["the array has to be 1-N, without gaps"]);
}

#[test]
fn the_indexed_job_gives_each_index_its_shard() {
    let ledger = Ledger::new();
    let job = shipped("job.yaml");
    let after = |what: &str| {
        let rest = job
            .split_once(what)
            .unwrap_or_else(|| panic!("no {what}"))
            .1;
        rest.lines().next().unwrap_or_default().trim().to_owned()
    };
    assert_eq!(
        format!("\"{}\"", after("completions: ")),
        after("name: SHARDS\n              value: ")
    );
    let line = job.split_once("- >-\n").expect("the command").1;
    let line = line.split("          env:").next().expect("its end");
    assert!(
        line.contains("--all") && line.contains("--to /runs"),
        "{line}"
    );
    let line = line.replace("/runs", "runs").replace('\n', " ");
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", &line]).current_dir(ledger.0.path());
    let program = Path::new(env!("CARGO_BIN_EXE_weirgate-lab"));
    shell.env("PATH", program.parent().expect("its folder"));
    shell.env("JOB_COMPLETION_INDEX", "19").env("SHARDS", "20");
    Ledger::runs(&mut shell, &line, 0, &["shard 20/20: 0 runs"]);
}

/// Tests in the laboratory, which only `make test-all` runs.
mod long {
    use super::*;
    use std::thread::sleep;
    use std::time::{Duration, Instant};

    const SHORT: &str = include_str!("../../../tests/sweep/short.toml");
    const POLICY: &str = include_str!("../../../tests/sweep/policies/short.toml");

    #[test]
    fn shards_are_one_process_though_one_is_killed() {
        let ledger = Ledger(TempDir::new().expect("a folder"));
        fs::create_dir_all(ledger.0.path().join("experiments/policies")).expect("folders");
        let few = SHORT.replace("\nseeds = 100\n", "\nseeds = 3\n");
        assert_ne!(few, SHORT);
        ledger.write("experiments/short.toml", &few);
        ledger.write("experiments/policies/short.toml", POLICY);
        let says = |arguments: &str, status, parts: &[&str]| {
            Ledger::runs(&mut ledger.command(arguments), arguments, status, parts);
        };

        // A shard that is killed after its first run continues there.
        let first = "run short --shard 1/2 --to runs --jobs 1";
        let mut killed = ledger.command(first).spawn().expect("the program runs");
        let (place, started) = (
            ledger.0.path().join("runs/short/modem-only-1.json"),
            Instant::now(),
        );
        while !place.exists() {
            assert!(started.elapsed() < Duration::from_mins(10), "no run");
            sleep(Duration::from_millis(50));
        }
        killed.kill().expect("it runs");
        killed.wait().expect("it has ended");
        says(first, 0, &["shard 1/2: 3 runs, 1 of them were in runs"]);
        let parts = [
            "runs are missing",
            "short, arm `modem-only`: seeds 2\n",
            "short, arm `weirgate`: seeds 1, 3",
        ];
        says("merge runs --only short", 2, &parts);
        let second = "run short --shard 2/2 --to others --jobs 1";
        says(second, 0, &["shard 2/2: 3 runs, 0 of them"]);
        says("merge runs others --only short", 0, &["1 were run"]);
        says("accept short --results parts", 0, &[]);

        says("run short --all", 0, &["1 were run"]);
        says("accept short --results whole", 0, &[]);
        assert_eq!(
            ledger.read("parts/short.toml"),
            ledger.read("whole/short.toml")
        );
    }
}
