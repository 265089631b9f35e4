// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the functions that `keep` calls before it waits, and writes their list, by which the
//! linker groups them (`docs/decisions/0034-small-program.md`).
//!
//! gdb runs `keep` on the policy of [`router`], from a program with symbols, and prints each
//! function that is called, on x86-64. `keep` counts as waiting when no further function is called
//! for a while. Then a device is added, so that the list includes the handling of events.

use crate::bench::figure::Ended;
use crate::bench::router;
use crate::command::{cargo, run};
use crate::files::target;
use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// The list for the linker.
const LIST: &str = "crates/cli/keep-order.txt";

const HEAD: &str = "# SPDX-License-Identifier: Apache-2.0 OR MIT\n\
    # The functions of `weirgate keep` from its start until it waits: docs/decisions/0034-small-program.md\n";

/// The script for gdb.
const SCRIPT: &str = include_str!("met.py");

/// `keep` counts as waiting after this time without a new function.
const QUIET: Duration = Duration::from_secs(20);

/// The smallest plausible number of functions; fewer mean that the trace failed.
const LEAST: usize = 500;

/// Builds the router's program with symbols, and rewrites the list; needs root.
#[allow(clippy::print_stdout, reason = "the count is this task's result")]
pub fn write(root: &Path) -> Result<()> {
    run(cargo(root).args(["router", "-C", "strip=none"]))?;
    let program = target(root).join("dist/weirgate");
    let functions = functions(&program)?;
    let met = met(&program, functions.keys())?;
    let names = met.iter().filter_map(|at| functions.get(at)).flatten();
    let names: BTreeSet<&str> = names.filter_map(|name| stable(name)).collect();
    ensure!(
        names.len() >= LEAST,
        "keep met {} functions alone",
        names.len()
    );
    let mut text = HEAD.to_owned();
    for name in &names {
        text.extend([name, "\n"]);
    }
    fs::write(root.join(LIST), text).context(LIST)?;
    println!(
        "{LIST}: {} names; `cargo xtask bench-router` builds the program without symbols again",
        names.len()
    );
    Ok(())
}

/// Returns the program's functions: the address of each, with all its names, because the linker
/// merges equal functions.
fn functions(program: &Path) -> Result<BTreeMap<u64, Vec<String>>> {
    let output = Command::new("nm")
        .arg(program)
        .output()
        .context("nm (package binutils)")?;
    let mut functions: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    for line in String::from_utf8(output.stdout)?.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        if let [address, "t" | "T", name] = words[..] {
            let names = functions.entry(u64::from_str_radix(address, 16)?);
            names.or_default().push(name.to_owned());
        }
    }
    Ok(functions)
}

/// Returns the addresses of the functions that `keep` calls before it waits.
fn met<'a>(program: &Path, functions: impl Iterator<Item = &'a u64>) -> Result<BTreeSet<u64>> {
    let folder = tempfile::tempdir()?;
    let (script, list) = (folder.path().join("met.py"), folder.path().join("list"));
    fs::write(&script, SCRIPT)?;
    let addresses: Vec<String> = functions.map(|at| format!("{at:x}")).collect();
    fs::write(&list, addresses.join("\n"))?;
    let place = router::applied(program)?;
    let gdb = format!(
        "gdb --batch -nx -x {} --args {} keep",
        script.display(),
        program.display()
    );
    let mut gdb = place.command(&gdb);
    gdb.env("MET_FUNCTIONS", &list).stdin(Stdio::null());
    let gdb = gdb.stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut gdb = Ended(gdb.context("gdb (package gdb)")?);
    let output = BufReader::new(gdb.0.stdout.take().context("its output")?);
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        for line in output.lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    let mut met = BTreeSet::new();
    let mut process = None;
    // `keep` is notified of every device, and does little if the device is not its own.
    for event in [Some("ip link add other type veth peer name another"), None] {
        while let Ok(line) = lines.recv_timeout(QUIET) {
            if let Some(address) = line.strip_prefix("met ") {
                met.insert(u64::from_str_radix(address, 16)?);
            } else if let Some(number) = line.strip_prefix("process ") {
                process = Pid::from_raw(number.parse()?);
            }
        }
        if let Some(event) = event {
            run(&mut place.command(event))?;
        }
    }
    let process = process.context("gdb did not start keep")?;
    kill_process(process, Signal::TERM).context("keep ended by itself")?;
    gdb.0.wait()?;
    Ok(met)
}

/// Returns a name without the parts that differ between compilers or builds: the hash at its end,
/// and the number of a copy. Returns `None` for the linker's outlined functions, which have only
/// numbers.
fn stable(name: &str) -> Option<&str> {
    const HASH: &str = "17h";
    if name.starts_with("OUTLINED_FUNCTION_") {
        return None;
    }
    match name.rfind(HASH) {
        Some(at) if name.starts_with("_ZN") => name.get(..at + HASH.len()),
        _ => name.split('.').next(),
    }
}

#[cfg(test)]
mod tests {
    use super::stable;

    #[test]
    fn names_outlive_a_compiler() {
        for (name, left) in [
            (
                "_ZN4core3cmp2eq17h145da2eb6b1d8829E",
                Some("_ZN4core3cmp2eq17h"),
            ),
            (
                "_ZN4core3cmp2eq17h145da2eb6b1d8829E.llvm.12",
                Some("_ZN4core3cmp2eq17h"),
            ),
            (
                "_RNvMNtCs5alloc6Global18alloc_impl_runtime.127",
                Some("_RNvMNtCs5alloc6Global18alloc_impl_runtime"),
            ),
            ("main", Some("main")),
            ("OUTLINED_FUNCTION_6503", None),
        ] {
            assert_eq!(stable(name), left);
        }
    }
}
