// SPDX-License-Identifier: Apache-2.0 OR MIT
//! packetdrill's scripts of TCP from the kernel's selftests: what passes without weirgate
//! must pass with receive windows, the filter of acknowledgements and egress programs.

mod inside;

use crate::kept::Kept;
use crate::machine::{LIMITS, lab, lines};
use anyhow::{Context, Result, ensure};
use inside::{FOLDER, Told};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

pub use inside::run;

/// Where the scripts are in the kernel's source.
const SUITE: &str = "tools/testing/selftests/net/packetdrill";

/// Where packetdrill's program is in a checkout of it.
const PROGRAM: &str = "gtests/net/packetdrill";

/// Programs that scripts use.
const PROGRAMS: [&str; 10] = [
    "bash", "cat", "chmod", "env", "ip", "sh", "sleep", "sysctl", "tc", "timeout",
];

/// Scripts that one machine runs, so that one that ends it takes few along.
const BATCH: usize = 12;

/// Does what `set_sysctls.py` of the suite does, without Python.
const SETTINGS: &str = r#"#!/bin/bash
file=/tmp/sysctl_restore_$PACKETDRILL_PID.sh
echo '#!/bin/bash' > "$file"
for one in "$@"; do
    echo "echo \"$(cat "${one%%=*}")\" > ${one%%=*}" >> "$file"
    echo "${one#*=}" > "${one%%=*}"
done
chmod u+x "$file"
"#;

/// Runs the scripts whose name has `only`, with the packetdrill of a checkout; what came
/// of them, and how many were not begun before `until`.
///
/// # Errors
///
/// Where packetdrill cannot be built, and where there is no laboratory.
pub fn scripts(
    source: &Path,
    checkout: &Path,
    only: &str,
    until: Option<Instant>,
) -> Result<(Vec<Told>, usize)> {
    let program = build(checkout)?;
    let program = program.to_string_lossy();
    let lab = lab(PROGRAMS.into_iter().chain([&*program]))?;
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
    let defaults = fs::read(folder.join("defaults.sh")).context("defaults.sh")?;
    let release = &lab.kernel().release;
    let with = [&**release, &version(checkout)?, inside::POLICY];
    let kept = Kept::of("packetdrill", &with)?;
    let (mut told, mut left): (Vec<Told>, Vec<Text>) = (Vec::new(), Vec::new());
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let text = fs::read(&path).with_context(|| path.display().to_string())?;
        match kept.read(&text) {
            Some(one) => told.push(one),
            None => left.push((format!("{FOLDER}/{name}"), text)),
        }
    }
    let mut begun = 0;
    for batch in left.chunks(BATCH) {
        if until.is_some_and(|until| Instant::now() > until) {
            break;
        }
        begun += batch.len();
        let first = [
            (format!("{FOLDER}/defaults.sh"), defaults.clone()),
            (format!("{FOLDER}/set_sysctls.py"), SETTINGS.into()),
        ];
        let files: Vec<(&str, &[u8])> = first
            .iter()
            .chain(batch)
            .map(|(path, bytes)| (&**path, &**bytes))
            .collect();
        let words = ["outside", "inside", "packetdrill"];
        let ran = lab.execute(&words, &files, (1, LIMITS), &mut |_| ())?;
        let some: Vec<Told> = lines(&ran)?;
        for (one, (_, text)) in some.iter().zip(batch) {
            eprintln!("{} {:?} {:?}", one.name, one.without, one.with);
            kept.write(text, one)?;
        }
        told.extend(some);
    }
    told.sort_by(|one, other| one.name.cmp(&other.name));
    Ok((told, left.len() - begun))
}

/// The place of a file in the machine, and what is in it.
type Text = (String, Vec<u8>);

/// Builds packetdrill where its checkout is; needs a C compiler, make, flex and bison.
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

/// The commit of a checkout.
///
/// # Errors
///
/// Where git is missing or the folder is no checkout.
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

/// The section of the page; `left` scripts were not run.
pub fn text(told: &[Told], left: usize) -> String {
    let apply: Vec<&Told> = told.iter().filter(|one| one.without.is_none()).collect();
    let passed = apply.iter().filter(|one| one.with.is_none()).count();
    let share = |part: usize, whole: usize| 100.0 * part as f64 / whole.max(1) as f64;
    let mut out = format!(
        "| scripts | pass without weirgate | of these, with it |\n|--:|--:|--:|\n\
         | {} | {} ({:.1} %) | {passed} ({:.1} %) |\n",
        told.len(),
        apply.len(),
        share(apply.len(), told.len()),
        share(passed, apply.len()),
    );
    if left > 0 {
        let _ = writeln!(out, "\n{left} scripts have not been run.");
    }
    out.push_str("\nScripts that do not pass without weirgate:\n\n");
    for one in told {
        if let Some(why) = &one.without {
            let _ = writeln!(out, "- `{}`: {}", one.name, why.replace('|', "\\|"));
        }
    }
    out.push_str("\nScripts that pass without weirgate and not with it:\n\n");
    for one in apply {
        if let Some(why) = &one.with {
            let _ = writeln!(out, "- `{}`: {}", one.name, why.replace('|', "\\|"));
        }
    }
    out
}
