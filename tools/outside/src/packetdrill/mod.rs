// SPDX-License-Identifier: Apache-2.0 OR MIT
//! packetdrill's TCP scripts from the kernel's selftests. Scripts that pass without weirgate must
//! pass with receive windows, the ACK filter and egress programs.

mod inside;

use crate::kept::Kept;
use crate::machine::{LIMITS, lab, lines};
use crate::page::selected;
use anyhow::{Context, Result, ensure};
use inside::{FOLDER, ScriptResult};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

pub use inside::run;

/// The folder of the scripts in the kernel's source.
const SUITE: &str = "tools/testing/selftests/net/packetdrill";

/// The folder of packetdrill's program in its repository.
const PROGRAM: &str = "gtests/net/packetdrill";

/// Programs that scripts use.
const PROGRAMS: [&str; 16] = [
    "bash", "cat", "chmod", "/bin/dd", "env", "ethtool", "grep", "ifconfig", "ip", "nstat",
    "/bin/rm", "sh", "sleep", "sysctl", "tc", "timeout",
];

/// The number of scripts in one machine, so that a script that crashes it affects few others.
const BATCH: usize = 12;

/// The interpreter of scripts' assertions. The one in `PATH` may be a script that selects an
/// interpreter.
const PYTHON: &str = "/usr/bin/python3";

/// Prints the paths of the modules that packetdrill's assertions and `set_sysctls.py` use.
const MODULES: &str = "\
import os, subprocess, sys, traceback
for module in list(sys.modules.values()):
    if getattr(module, '__file__', None):
        print(module.__file__)
";

/// A file whose folder Python expects beside its modules; it complains if that is missing.
const EXTENSIONS: &str = "lib-dynload/none";

/// Runs the scripts whose name contains `only`, with the packetdrill of a checkout. Returns the
/// results, and how many were not begun before `until`.
///
/// # Errors
///
/// Fails if packetdrill cannot be built, or there is no laboratory.
pub fn scripts(
    source: &Path,
    checkout: &Path,
    only: &str,
    until: Option<Instant>,
) -> Result<(Vec<ScriptResult>, usize)> {
    let program = build(checkout)?;
    let program = program.to_string_lossy();
    let lab = lab(PROGRAMS.into_iter().chain([PYTHON, &*program]))?;
    let folder = source.join(SUITE);
    let mut paths: Vec<PathBuf> = fs::read_dir(&folder)
        .with_context(|| folder.display().to_string())?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.ends_with(".pkt") && name.contains(only)
        })
        .collect();
    paths.sort();
    let paths = selected(paths, only)?;
    let mut first = modules()?;
    for name in ["defaults.sh", "set_sysctls.py"] {
        let text = fs::read(folder.join(name)).context(name)?;
        first.push((format!("{FOLDER}/{name}"), text));
    }
    let release = &lab.kernel().release;
    let with = [&**release, &version(checkout)?, inside::POLICY];
    let mut kept = Kept::of("packetdrill", &with)?;
    for (_, text) in &first {
        kept.also(text);
    }
    let (mut results, mut left): (Vec<ScriptResult>, Vec<Text>) = (Vec::new(), Vec::new());
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let text = fs::read(&path).with_context(|| path.display().to_string())?;
        match kept.read(&text) {
            Some(one) => results.push(one),
            None => left.push((format!("{FOLDER}/{name}"), text)),
        }
    }
    let mut begun = 0;
    for batch in left.chunks(BATCH) {
        if until.is_some_and(|until| Instant::now() > until) {
            break;
        }
        begun += batch.len();
        let files: Vec<(&str, &[u8])> = first
            .iter()
            .chain(batch)
            .map(|(path, bytes)| (&**path, &**bytes))
            .collect();
        let words = ["outside", "inside", "packetdrill"];
        let ran = lab.execute(&words, &files, (1, LIMITS), &mut |_| ())?;
        let some: Vec<ScriptResult> = lines(&ran)?;
        for (one, (_, text)) in some.iter().zip(batch) {
            eprintln!(
                "{} {:?} {:?} {:?}",
                one.title(),
                one.without,
                one.with,
                one.given_back
            );
            kept.write(text, one)?;
        }
        results.extend(some);
    }
    results.sort_by(|one, other| one.name.cmp(&other.name));
    Ok((results, left.len() - begun))
}

/// The path of a file in the machine, and its contents.
type Text = (String, Vec<u8>);

/// Returns the Python modules that scripts use, and those that the interpreter needs to start.
fn modules() -> Result<Vec<Text>> {
    let done = Command::new(PYTHON)
        .args(["-I", "-S", "-c", MODULES])
        .output()
        .context(PYTHON)?;
    ensure!(
        done.status.success(),
        "{PYTHON}: {}",
        String::from_utf8_lossy(&done.stderr)
    );
    let listed = String::from_utf8_lossy(&done.stdout);
    let read = |path: &str| Ok((path.to_owned(), fs::read(path).context(path.to_owned())?));
    let mut files: Vec<Text> = listed.lines().map(read).collect::<Result<_>>()?;
    let folder = listed.lines().find_map(|path| path.strip_suffix("os.py"));
    if let Some(folder) = folder {
        files.push((format!("{folder}{EXTENSIONS}"), Vec::new()));
    }
    Ok(files)
}

/// Builds packetdrill in its checkout; needs a C compiler, make, flex and bison.
fn build(checkout: &Path) -> Result<PathBuf> {
    let folder = checkout.join(PROGRAM);
    let program = folder.join("packetdrill");
    if !program.is_file() {
        for words in [&["sh", "configure"][..], &["make", "packetdrill"]] {
            let done = Command::new(words[0])
                .args(&words[1..])
                .current_dir(&folder)
                .output()
                .with_context(|| format!("{} in {}", words.join(" "), folder.display()))?;
            ensure!(
                done.status.success(),
                "packetdrill cannot be built (it needs cc, make, flex and bison):\n{}",
                String::from_utf8_lossy(&done.stderr)
            );
        }
    }
    Ok(program)
}

/// Returns the commit of a checkout.
///
/// # Errors
///
/// Fails if git is missing or the folder is not a checkout.
pub fn version(checkout: &Path) -> Result<String> {
    let done = Command::new("git")
        .args(["rev-parse", "--short=12", "HEAD"])
        .current_dir(checkout)
        .output()
        .context("git")?;
    ensure!(
        done.status.success(),
        "{} is no checkout",
        checkout.display()
    );
    Ok(String::from_utf8_lossy(&done.stdout).trim().to_owned())
}

/// A title, its scripts, and the message that is shown for each.
type Listed<'a> = (
    &'a str,
    Vec<&'a ScriptResult>,
    fn(&ScriptResult) -> &Option<String>,
);

/// Returns the section of the page; `left` scripts were not run.
pub fn text(results: &[ScriptResult], left: usize) -> String {
    let (apply, without): (Vec<&ScriptResult>, Vec<&ScriptResult>) =
        results.iter().partition(|one| one.without.is_none());
    let given_back: Vec<&ScriptResult> = of(&apply, |one| one.given_back.is_some());
    let shaped = of(&apply, |one| one.with.is_some());
    let (segmented, other): (Vec<&ScriptResult>, Vec<&ScriptResult>) =
        shaped.iter().partition(|one| one.segmented == one.with);
    let share = |part: usize, whole: usize| {
        format!(
            "{part} ({:.1} %)",
            100.0 * part as f64 / whole.max(1) as f64
        )
    };
    let mut out = format!(
        "| scripts | pass without weirgate | of these, with the policy and the device's offloads \
         | with the policy alone |\n|--:|--:|--:|--:|\n| {} | {} | {} | {} |\n",
        results.len(),
        share(apply.len(), results.len()),
        share(apply.len() - given_back.len(), apply.len()),
        share(apply.len() - shaped.len(), apply.len()),
    );
    if left > 0 {
        let _ = writeln!(out, "\n{left} scripts have not been run.");
    }
    let lists: [Listed<'_>; 4] = [
        (
            "Scripts that do not pass without weirgate",
            without,
            |one| &one.without,
        ),
        (
            "Scripts that do not pass with the policy and the device's offloads",
            given_back,
            |one| &one.given_back,
        ),
        (
            "Scripts that say the same with the policy alone and, without weirgate, on a device \
             that takes one segment a packet",
            segmented,
            |one| &one.with,
        ),
        (
            "Other scripts that do not pass with the policy alone",
            other,
            |one| &one.with,
        ),
    ];
    for (title, scripts, why) in lists {
        if !scripts.is_empty() {
            let _ = writeln!(out, "\n{title}:\n");
        }
        for one in scripts {
            let why = why(one).as_deref().unwrap_or_default().replace('|', "\\|");
            let _ = writeln!(out, "- {}: {why}", one.title());
        }
    }
    out
}

/// Returns the results that satisfy a condition.
fn of<'a>(results: &[&'a ScriptResult], so: fn(&ScriptResult) -> bool) -> Vec<&'a ScriptResult> {
    results.iter().copied().filter(|one| so(one)).collect()
}
