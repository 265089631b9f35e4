// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Boots the real guest: tests its promises, and every way in which it can fail.
//!
//! These tests need qemu, a fetched kernel and the guest's binary. If one is missing, they fail and
//! say how to get it.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests too")]

use std::collections::BTreeMap;
use std::fs;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use weirgate_experiment::Job;
use weirgate_lab::{Failure, Lab, LabError, Limits, Options, Request};

fn lab(programs: &[&str]) -> Lab {
    let options = Options {
        programs: programs.iter().map(|&name| name.to_owned()).collect(),
        ..Options::default()
    };
    Lab::open(&options, &mut |_| ()).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns a request whose first process is `program` instead of the guest's own.
fn instead(program: &str, limits: Limits) -> Request {
    Request {
        job: Job {
            experiment: String::new(),
            arm: "odd".into(),
            parameters: BTreeMap::new(),
            seed: 1,
            files: BTreeMap::new(),
            disciplines: BTreeMap::new(),
        },
        boot_options: vec!["loglevel=6".into(), format!("rdinit={program}")],
        limits,
    }
}

fn failure(outcome: Result<weirgate_lab::ArmOutput, LabError>) -> (Failure, Vec<String>, String) {
    let error = outcome.expect_err("it cannot succeed");
    let text = error.to_string();
    match error {
        LabError::Run {
            failure, console, ..
        } => (failure, console, text),
        other => panic!("{other}"),
    }
}

/// Returns the child processes of `parent`, by process identifier and command line.
fn children(parent: u32) -> BTreeMap<u32, String> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Ok(number) = entry.file_name().to_string_lossy().parse::<u32>() else {
            continue;
        };
        // A process may end between these reads.
        let Ok(status) = fs::read_to_string(entry.path().join("status")) else {
            continue;
        };
        let own = format!("PPid:\t{parent}");
        if status.lines().any(|line| line == own) {
            let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            found.insert(number, String::from_utf8_lossy(&line).replace('\0', " "));
        }
    }
    found
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let lab = &lab(&[]);
    // Run more than there are processors: load on the host must have no effect.
    let texts: Vec<String> = thread::scope(|scope| {
        let runs = [42, 42, 42, 43].map(|seed| {
            scope.spawn(move || {
                let output = lab.inspect(seed, Limits::default());
                let output = output.unwrap_or_else(|error| panic!("{error}"));
                // The kernel alone takes this much; the guest has 512 MiB.
                assert!((100 << 20..1 << 30).contains(&output.memory_bytes));
                assert!(output.boot <= output.traffic && output.traffic <= output.wall);
                String::from_utf8(output.result).unwrap()
            })
        });
        runs.map(|run| run.join().unwrap()).into()
    });
    let [first, again @ .., other] = &texts[..] else {
        panic!("four runs");
    };
    for line in [
        &*format!("kernel: {}", lab.kernel().release),
        "tap: yes",
        "sch_htb: loaded",
        "bbr: loaded by the kernel",
    ] {
        assert!(first.lines().any(|found| found == line), "{first}");
    }
    for text in again {
        assert_eq!(first, text, "seed 42 again");
    }
    let random = |text: &str| {
        let line = text.lines().find(|line| line.starts_with("random: "));
        line.map(str::to_owned).unwrap()
    };
    assert_ne!(random(first), random(other), "seeds 42 and 43");
}

#[test]
fn a_guest_that_does_nothing_is_stopped_at_its_limit() {
    // The kernel has printed something by then.
    let wall = Duration::from_secs(8);
    let limits = Limits {
        wall,
        ..Limits::default()
    };
    let lab = lab(&["cat"]);
    let start = Instant::now();
    let outcome = lab.run(&instead("/usr/bin/cat", limits), &mut |_| ());
    let taken = start.elapsed();
    let (failure, console, text) = failure(outcome);
    assert!(
        matches!(failure, Failure::Hang { limit } if limit == wall),
        "{text}"
    );
    assert!(
        !console.is_empty() && text.contains("limit of 8 s"),
        "{text}"
    );
    assert!(taken < wall + Duration::from_secs(10), "{taken:?}");
}

#[test]
fn a_panic_of_the_kernel_is_shown() {
    let outcome = lab(&[]).run(&instead("/nothing", Limits::default()), &mut |_| ());
    let (failure, console, text) = failure(outcome);
    assert!(matches!(failure, Failure::Panic(_)), "{text}");
    assert!(
        console.iter().any(|line| line.contains("Kernel panic")),
        "{text}"
    );
}

#[test]
fn an_endless_console_is_cut() {
    let limits = Limits {
        console_bytes: 20_000,
        ..Limits::default()
    };
    let outcome = lab(&["yes"]).run(&instead("/usr/bin/yes", limits), &mut |_| ());
    let (failure, _, text) = failure(outcome);
    assert!(
        matches!(failure, Failure::Flood { limit: 20_000 }),
        "{text}"
    );
}

#[test]
fn a_guest_without_result_is_told_from_one_with() {
    // This process ends at once, and the kernel panics because its first process is gone.
    let outcome = lab(&["true"]).run(&instead("/usr/bin/true", Limits::default()), &mut |_| ());
    let (failure, _, text) = failure(outcome);
    assert!(
        matches!(failure, Failure::Panic(ref why) if why.contains("kill init")),
        "{text}"
    );
}

#[test]
fn too_little_memory_is_refused() {
    let limits = Limits {
        memory_mib: 64,
        ..Limits::default()
    };
    let error = lab(&[]).inspect(1, limits).unwrap_err();
    assert!(
        matches!(error, LabError::Memory { given: 64, needed } if needed > 64),
        "{error}"
    );
}

#[test]
fn a_job_that_the_guest_cannot_read_is_its_error() {
    let mut request = instead("/init", Limits::default());
    request.job.experiment = "this is no experiment".into();
    let (failure, _, text) = failure(lab(&[]).run(&request, &mut |_| ()));
    assert!(matches!(failure, Failure::Guest(_)), "{text}");
}

#[test]
fn several_at_once_keep_their_order() {
    let limits = Limits::default();
    let requests = [
        instead("/nothing", limits),
        instead("/usr/bin/true", limits),
        instead("/nothing", limits),
    ];
    let outcomes = lab(&["true"]).run_all(&requests, 2, &|_, _| ());
    let killed: Vec<bool> = outcomes
        .into_iter()
        .map(|outcome| failure(outcome).2.contains("kill init"))
        .collect();
    assert_eq!(killed, [false, true, false]);
}

/// Not a separate test: the process that the next test kills.
#[test]
fn victim() {
    if std::env::var_os("WEIRGATE_TEST_VICTIM").is_some() {
        let outcome = lab(&["cat"]).run(&instead("/usr/bin/cat", Limits::default()), &mut |_| ());
        panic!("it should have been killed: {outcome:?}");
    }
}

#[test]
fn a_killed_lab_leaves_no_machine_behind() {
    // Make the image first, so that the kill does not interrupt that.
    lab(&["cat"]);
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "victim", "--nocapture"])
        .env("WEIRGATE_TEST_VICTIM", "1")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    let machine = loop {
        let qemu = children(victim.id())
            .into_iter()
            .find(|(_, line)| line.contains("qemu-system") && !line.contains("setpriv"));
        if let Some((number, _)) = qemu {
            break number;
        }
        assert!(Instant::now() < deadline, "no machine was started");
        thread::sleep(Duration::from_millis(20));
    };
    victim.kill().unwrap();
    victim.wait().unwrap();
    let process = format!("/proc/{machine}/stat");
    let deadline = Instant::now() + Duration::from_secs(10);
    // Wait until the process is gone, or a zombie.
    while fs::read_to_string(&process).is_ok_and(|stat| !stat.contains(") Z ")) {
        assert!(Instant::now() < deadline, "the machine lives on");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_stopped_machine_leaves_no_process() {
    let limits = Limits {
        wall: Duration::from_secs(3),
        ..Limits::default()
    };
    let mut request = instead("/usr/bin/cat", limits);
    request.boot_options.push("unmistakable=1".into());
    let (failure, _, text) = failure(lab(&["cat"]).run(&request, &mut |_| ()));
    assert!(matches!(failure, Failure::Hang { .. }), "{text}");
    let left: Vec<String> = children(std::process::id())
        .into_values()
        .filter(|line| line.contains("unmistakable"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}
