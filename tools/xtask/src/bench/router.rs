// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures what weirgate costs on a router: the size of its program as in packages, the time of
//! `check` for a home's policy, and the cost of an idle `keep`.
//!
//! `keep` runs in a separate network namespace, on a policy that was applied there, with queues
//! that every kernel has.

use crate::bench::figure::{Figure, Goal};
use crate::bench::policy::{Namespace, median};
use crate::command::run;
use crate::files::target;
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The policy of a home, from weirgate's own policies.
const HOME: &str = "policies/home.toml";

/// The policy of `keep`.
const KEPT: &str = "version = 1\n[link]\ndevice = \"wan\"\nlan = \"lan\"\nup = \"40mbit\"\n\
    down = \"100mbit\"\nlayer = \"ethernet\"\ninbound = \"lan\"\n\
    [[class]]\nname = \"urgent\"\nshare = \"20%\"\npriority = 0\nqueue = \"pfifo 100\"\n\
    [[class]]\nname = \"normal\"\nshare = \"80%\"\nqueue = \"pfifo 100\"\ndefault = true\n\
    [[rule]]\nclass = \"urgent\"\nservice = [\"dns\", \"ping\", \"voice\"]\n";

/// The budget. `cargo xtask bench-router` fails if it is exceeded.
const PROGRAM_MB: f64 = 8.0;
const CHECK_MS: f64 = 20.0;
const KEEP_MB: f64 = 8.0;

/// The number of runs for a median.
const RUNS: usize = 21;

/// The time until `keep` has started, and the time of its observation. The latter is three times
/// the permitted interval of a watchdog, so three wake-ups.
const SETTLE: Duration = Duration::from_secs(5);
const OBSERVED: Duration = Duration::from_secs(90);
const WAKE_UPS: f64 = 3.0;

/// Measures the figures; needs root.
pub fn figures(root: &Path) -> Result<Vec<Figure>> {
    let mut build = crate::command::cargo(root);
    run(build.arg("router"))?;
    let program = target(root).join("dist/weirgate");
    let bytes = fs::metadata(&program)
        .with_context(|| program.display().to_string())?
        .len();
    let mut figures = vec![
        Figure {
            what: "`weirgate`, stripped, MB",
            value: bytes as f64 / 1e6,
            goal: Goal::AtMost(PROGRAM_MB),
        },
        Figure {
            what: "`weirgate check` of a home's policy, ms",
            value: check_ms(root, &program)?,
            goal: Goal::AtMost(CHECK_MS),
        },
    ];
    figures.extend(idle(&program)?);
    Ok(figures)
}

/// Returns the duration of a whole command in milliseconds, including its start.
fn check_ms(root: &Path, program: &Path) -> Result<f64> {
    let mut times = Vec::new();
    for _ in 0..RUNS {
        let mut check = Command::new(program);
        check.args(["check", HOME]).current_dir(root);
        let start = Instant::now();
        run(check.stdout(Stdio::null()).stderr(Stdio::null()))?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    Ok(median(times))
}

/// Returns a namespace in which the program has applied the policy of `keep`.
pub(super) fn applied(program: &Path) -> Result<Namespace> {
    let place = Namespace::new()?;
    let folder = tempfile::tempdir()?;
    let policy = folder.path().join("policy.toml");
    fs::write(&policy, KEPT)?;
    let apply = format!("{} apply {}", program.display(), policy.display());
    run(place
        .command(&apply)
        .stdout(Stdio::null())
        .stderr(Stdio::null()))?;
    Ok(place)
}

/// Measures an idle `keep`: its memory, and how often it wakes up.
fn idle(program: &Path) -> Result<[Figure; 2]> {
    let place = applied(program)?;
    let mut keep = place.command(&format!("{} keep", program.display()));
    let keep = keep.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let keep = super::figure::Ended(keep.context("weirgate keep")?);
    sleep(SETTLE);
    let before = status(keep.0.id(), "voluntary_ctxt_switches")?;
    sleep(OBSERVED);
    let after = status(keep.0.id(), "voluntary_ctxt_switches")?;
    Ok([
        Figure {
            what: "`weirgate keep`, most memory that it held, MB",
            value: status(keep.0.id(), "VmHWM")? * 1024.0 / 1e6,
            goal: Goal::AtMost(KEEP_MB),
        },
        Figure {
            what: "`weirgate keep`, wake-ups in 90 s without events",
            value: after - before,
            goal: Goal::AtMost(WAKE_UPS),
        },
    ])
}

/// Returns a number of `/proc/PID/status` (proc(5)).
fn status(pid: u32, name: &str) -> Result<f64> {
    let file = format!("/proc/{pid}/status");
    let text = fs::read_to_string(&file).with_context(|| file.clone())?;
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.trim_start_matches(':').split_whitespace().next());
    let number = number.with_context(|| format!("{file} has no `{name}`"))?;
    Ok(number.parse()?)
}
