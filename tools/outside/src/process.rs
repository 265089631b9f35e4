// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs programs in the laboratory's machine, and in its namespaces.

use anyhow::{Context, Result};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::thread;

/// The result of a process.
pub struct Done {
    /// The exit status; `None` if a signal killed it.
    pub status: Option<i32>,
    pub output: String,
    pub error: String,
}

impl Done {
    /// Returns the first line of output that explains the exit status.
    pub fn message(&self) -> String {
        let lines = self.error.lines().chain(self.output.lines());
        let line = lines
            .map(str::trim)
            .find(|line| !line.is_empty() && !line.starts_with("Usage"));
        line.unwrap_or("it ends otherwise than expected").to_owned()
    }
}

/// Runs a program in this thread's namespace, in /tmp, so that it does not write to the root.
///
/// # Errors
///
/// Fails if it cannot be started.
pub fn direct(words: &[&str]) -> Result<Done> {
    in_folder("/tmp", words)
}

/// Runs a program in another folder.
///
/// # Errors
///
/// Fails if it cannot be started.
pub fn in_folder(folder: &str, words: &[&str]) -> Result<Done> {
    let output = Command::new(words[0])
        .args(&words[1..])
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .with_context(|| words.join(" "))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(Done {
        status: output.status.code(),
        output: text(&output.stdout),
        error: text(&output.stderr),
    })
}

/// Runs a function on a thread in a named namespace, which child processes inherit.
///
/// # Errors
///
/// Fails if there is no such namespace, or if `what` fails.
pub fn within<T: Send>(namespace: &str, what: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let place = format!("/run/netns/{namespace}");
    let file = File::open(&place).context(place)?;
    thread::scope(|scope| {
        let there = scope.spawn(|| {
            let kind = Some(LinkNameSpaceType::Network);
            move_into_link_name_space(file.as_fd(), kind)?;
            what()
        });
        let failed = || anyhow::anyhow!("the thread in {namespace} failed");
        there.join().map_err(|_| failed())?
    })
}
