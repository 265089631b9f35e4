// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate-guest`: the only user space of the lab's virtual machine.
//!
//! It is the first process there, and also the program that the kernel calls to load a module.
//! It selects its role by its process ID and name. The job is done by [`weirgate_guest::agent`].

mod here;
mod init;

use std::env;
use std::path::Path;
use std::process::{self, ExitCode};

/// The help text, for a person who runs it.
const HELP: &str = "\
weirgate-guest: the user space of weirgate's virtual machines

It runs as the first process of a virtual machine that `weirgate lab run`
starts, and as /sbin/modprobe in it. There is nothing to call it for by hand.

      --here JOB RESULT  do a job in namespaces of the running kernel, as root
  -h, --help             this text
  -V, --version          its version";

fn main() -> ExitCode {
    if process::id() == 1 {
        init::run()
    }
    let mut words = env::args();
    let name = words.next().unwrap_or_default();
    let arguments: Vec<String> = words.collect();
    if Path::new(&name)
        .file_name()
        .is_some_and(|file| file == "modprobe")
    {
        return modprobe(&arguments);
    }
    by_hand(&arguments)
}

/// Loads modules: `modprobe [-q] [--] NAME...`, as called by the kernel.
fn modprobe(arguments: &[String]) -> ExitCode {
    for name in arguments.iter().filter(|word| !word.starts_with('-')) {
        // The kernel requests many names that no module provides. The exit status is its answer.
        if init::modules::load(name).is_err() {
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

#[allow(clippy::print_stdout, clippy::print_stderr, reason = "a person asked")]
fn by_hand(arguments: &[String]) -> ExitCode {
    match arguments {
        [word] if word == "-h" || word == "--help" => println!("{HELP}"),
        [word] if word == "-V" || word == "--version" => {
            println!("weirgate-guest {}", env!("CARGO_PKG_VERSION"));
        }
        [word, job, result] if word == "--here" => {
            if let Err(error) = here::run(Path::new(job), Path::new(result)) {
                eprintln!("error: {error:#}");
                return ExitCode::FAILURE;
            }
        }
        _ => {
            eprintln!("{HELP}");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}
