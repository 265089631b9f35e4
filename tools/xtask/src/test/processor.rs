// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures the processor time of programs, because wall-clock time depends on the machine's load.

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use std::fs;
use std::io::{self, Read};
use std::process::{Command, ExitStatus};

/// The number of ticks of `/proc` per second (`USER_HZ` of the kernel's
/// include/asm-generic/param.h).
const TICKS: f64 = 100.0;

/// Runs a command. Returns its output, and the processor time in seconds of the command and its
/// finished children.
pub fn executed(mut command: Command) -> io::Result<(ExitStatus, String, f64)> {
    let (mut reader, writer) = io::pipe()?;
    command.stdout(writer.try_clone()?).stderr(writer);
    let mut child = command.spawn()?;
    // The command holds the other end of the pipe.
    drop(command);
    let mut text = Vec::new();
    reader.read_to_end(&mut text)?;
    // A process that ended but was not waited for still has its counters.
    let end = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    waitid(WaitId::Pid(Pid::from_child(&child)), end)?;
    let stat = fs::read_to_string(format!("/proc/{}/stat", child.id()))?;
    let status = child.wait()?;
    let text = String::from_utf8_lossy(&text).into_owned();
    Ok((status, text, busy(&stat).unwrap_or_default()))
}

/// Returns the processor time in seconds of a process and its finished children, in user space and
/// in the kernel. It is read from a line of `/proc` (proc_pid_stat(5), fields 14 to 17).
pub fn busy(stat: &str) -> Option<f64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    // The first of them is field 3.
    let ticks = fields.get(11..15)?.iter().map(|field| field.parse::<u64>());
    let ticks: u64 = ticks.sum::<Result<_, _>>().ok()?;
    Some(ticks as f64 / TICKS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_of_a_process_and_its_children() {
        let stat = "7 (a ) b) Z 1 7 7 0 -1 4 9 9 0 0 250 30 1000 20 20 0 1 0 99 0 0";
        assert_eq!(busy(stat), Some(13.0));
        assert_eq!(busy("7 (a) Z 1"), None);
        assert_eq!(busy(""), None);
    }

    #[test]
    fn what_a_run_starts_counts_as_its_own() {
        let mut command = Command::new("sh");
        let endless = "(while :; do :; done) & sleep 0.5; kill $!; wait; echo done; echo end >&2";
        command.args(["-c", endless]);
        let (status, output, busy) = executed(command).unwrap();
        assert!(status.success());
        assert_eq!(output, "done\nend\n");
        assert!((0.05..5.0).contains(&busy), "{busy} s");
    }
}
