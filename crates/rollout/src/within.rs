// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate domain within`: runs a program in a network namespace of this machine. Unlike `ip
//! netns exec`, it leaves all mounts as they are. That command hides the BPF file system, by which
//! routers on one kernel share the kit's disciplines.

use anyhow::Context as _;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::ffi::OsString;
use std::fs::File;
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use weirgate_console::exit::{Failure, Outcome};

/// The folder of named namespaces (ip-netns(8)).
const SPACES: &str = "/run/netns";

/// Executes the program there.
pub fn run(space: &str, program: &[OsString]) -> Outcome {
    let [first, arguments @ ..] = program else {
        return Err(Failure::Input("weirgate: name a program".to_owned()));
    };
    let path = Path::new(SPACES).join(space);
    let file = File::open(&path).with_context(|| path.display().to_string())?;
    let network = Some(LinkNameSpaceType::Network);
    move_into_link_name_space(file.as_fd(), network)
        .with_context(|| format!("entering {space}"))?;
    let error = Command::new(first).args(arguments).exec();
    Err(Failure::Other(anyhow::anyhow!(
        "{}: {error}",
        first.display()
    )))
}
