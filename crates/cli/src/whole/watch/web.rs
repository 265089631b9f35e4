// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The process of `weirgate watch` that answers requests. It runs this program; its standard input
//! is the channel to the collector.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::str::FromStr;
use weirgate_console::exit::{Failure, Outcome, Status};
use weirgate_watch::EndWeb;

/// The number of a local user.
#[derive(Debug, Clone, Copy)]
pub struct User(u32);

impl FromStr for User {
    type Err = String;

    /// Parses a number, or a name that the system knows (nsswitch.conf(5)).
    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.parse().ok();
        number
            .or_else(|| uzers::get_user_by_name(text).map(|user| user.uid()))
            .map(Self)
            .ok_or_else(|| format!("there is no user `{text}`; a number is also accepted"))
    }
}

/// Returns the users who may connect besides root and the user of this process: the named ones, and
/// the user who called sudo.
///
/// `SUDO_UID` counts only in a process of root, where only sudo sets it.
pub fn users(named: &[User]) -> Vec<u32> {
    let root = rustix::process::getuid().is_root();
    let caller = std::env::var("SUDO_UID").ok().filter(|_| root);
    let caller = caller.and_then(|number| number.parse().ok());
    named.iter().map(|user| user.0).chain(caller).collect()
}

/// Starts the process.
///
/// It inherits no environment variable and no working folder. Of this process's descriptors it gets
/// only the channel and standard error. Ctrl-C at a terminal reaches only the collector, which then
/// ends it.
pub fn begin(channel: OwnedFd) -> io::Result<EndWeb> {
    // Run the same program, even if its file was replaced.
    let mut process = Command::new("/proc/self/exe")
        .arg0("weirgate")
        .args(["watch", "web"])
        .env_clear()
        .current_dir("/")
        .process_group(0)
        .stdin(channel)
        .stdout(Stdio::null())
        .spawn()?;
    Ok(Box::new(move || {
        // Ignore an error: the process may have ended already.
        let _ = process.kill();
        match process.wait() {
            Ok(status) => status.to_string(),
            Err(error) => error.to_string(),
        }
    }))
}

/// `weirgate watch web`.
pub fn run() -> Outcome {
    let channel = io::stdin().as_fd().try_clone_to_owned()?;
    let failed = |error| Failure::Input(format!("weirgate: the web process: {error}"));
    weirgate_watch::web(channel).map_err(failed)?;
    Ok(Status::Done)
}
