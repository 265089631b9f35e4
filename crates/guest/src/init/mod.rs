// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The first process: makes the machine usable, reads the job, runs it, returns the result and
//! powers the machine off. It never returns, because the end of the first process is a kernel
//! panic.
//!
//! It reports to the lab by lines on the console: `@start` when the job begins, `@progress AT OF
//! WHAT` in virtual seconds, and `@error WHAT` when it has failed. `@done` means that the lab
//! has the result, and the machine's memory is not needed any more.

pub(crate) mod modules;

mod inspect;
mod mounts;
mod port;

use anyhow::{Context, Result};
use rustix::system::{RebootCommand, reboot};
use rustix::termios::tcdrain;
use std::fs;
use std::io::{self, Write};
use std::panic;
use std::process::{Command, Stdio};
use weirgate_experiment::{Job, seal};
use weirgate_guest::agent::{self, Machine};
use weirgate_guest::charges;

/// The path at which the lab stores the job.
const JOB: &str = "/job.json";

/// The option of the kernel command line that requests an inspection of the machine instead of a
/// job.
const INSPECT: &str = "weirgate.inspect";

/// The option that requests a measurement of what the kernel charges for packets.
const CHARGES: &str = "weirgate.charges";

/// The option that names a program to run, with its arguments after commas.
const EXECUTE: &str = "weirgate.execute=";

/// Runs the machine from start to end.
pub(crate) fn run() -> ! {
    panic::set_hook(Box::new(|what| {
        say(&format!("@error the guest's own code failed: {what}"));
        power_off()
    }));
    if let Err(error) = work() {
        say(&format!("@error {error:#}"));
    }
    power_off()
}

fn work() -> Result<()> {
    mounts::mount_all()?;
    // Load modules of devices that are opened by name and not on demand: the result port's, on
    // kernels that have it as a module, and TAP.
    for module in ["virtio_pci", "virtio_console", "tun"] {
        modules::load_if_there(module)?;
    }
    let command_line = fs::read_to_string("/proc/cmdline").context("/proc/cmdline")?;
    let asked = |what| command_line.split_whitespace().any(|word| word == what);
    let result = if asked(INSPECT) {
        say("@start");
        inspect::look()?
    } else if asked(CHARGES) {
        say("@start");
        charges::measure(&mut |done, of, what| say(&format!("@progress {done} {of} {what}")))?
    } else if let Some(words) = command_line
        .split_whitespace()
        .find_map(|word| word.strip_prefix(EXECUTE))
    {
        say("@start");
        execute(words)?
    } else {
        let text = fs::read(JOB).context(JOB)?;
        let job: Job = serde_json::from_slice(&text).context("the job cannot be read")?;
        say("@start");
        do_job(&job)?
    };
    port::send(&seal(result)).context("the result cannot be handed over")?;
    say("@done");
    Ok(())
}

/// Runs the job in the agent.
fn do_job(job: &Job) -> Result<Vec<u8>> {
    let recording = agent::run(job, Machine::Own, &mut |at_s, of_s, what| {
        say(&format!("@progress {at_s} {of_s} {what}"));
    })?;
    recording
        .encode()
        .context("the recording cannot be encoded")
}

/// Runs a program, for tests that need the lab's kernel. Returns its status and output: `status: N`
/// on the first line, then its standard output, then its standard error. `words` are the program
/// and its arguments, separated by commas.
fn execute(words: &str) -> Result<Vec<u8>> {
    let mut words = words.split(',');
    let program = words.next().unwrap_or_default();
    let output = Command::new(program)
        .args(words)
        .env("PATH", "/usr/sbin:/usr/bin")
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("{program} cannot be run"))?;
    let status = match output.status.code() {
        Some(code) => format!("status: {code}\n"),
        None => format!("status: {}\n", output.status),
    };
    Ok([status.into_bytes(), output.stdout, output.stderr].concat())
}

/// Switches the machine off. The lab sees the outcome of the job from a complete result at the
/// port, or from an `@error` line on the console.
fn power_off() -> ! {
    // Otherwise output that is still on its way to the console would be lost. The call fails
    // harmlessly if the console is not a terminal.
    let _ = tcdrain(io::stdout());
    let _ = reboot(RebootCommand::PowerOff);
    // If this is reached, power-off has failed. A first process must not return; the lab's time
    // limit ends the machine.
    loop {
        std::thread::park();
    }
}

/// Prints a line on the console. Line breaks in the text are removed, because the lab reads
/// single lines.
#[allow(
    clippy::print_stdout,
    reason = "the console is how it speaks to the lab"
)]
fn say(line: &str) {
    let line = line.replace('\n', " | ");
    println!("{line}");
    // Ignore errors: there is no other way to report them.
    let _ = io::stdout().flush();
}
