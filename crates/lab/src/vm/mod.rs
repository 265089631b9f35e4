// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One virtual machine from start to end: its command line, its limits, its output while it runs,
//! and the clean-up after it.

mod command;
mod console;
mod memory;
pub(crate) mod processors;

use crate::emulator::Emulator;
use crate::error::{Failure, LabError};
use crate::kernel::Kernel;
use crate::tool::command_line;
use command::Files;
use console::Console;
use processors::Pinned;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::fs::{self, File};
use std::io::{Read, Seek, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};
use weirgate_experiment::unseal;

pub use console::Progress;

/// The memory that the guest needs besides its kernel and its image, in MiB.
const WORK_MIB: u64 = 128;

/// The limits of one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Wall time after which the virtual machine is stopped.
    pub wall: Duration,
    /// The guest's memory in MiB.
    pub memory_mib: u32,
    /// The number of processors. They take turns on one of the host's, and share its instruction
    /// per nanosecond.
    pub processors: u32,
    /// The bytes on its console after which it is stopped.
    pub console_bytes: usize,
}

impl Default for Limits {
    /// Returns ten minutes, 512 MiB, one processor, and 4 MiB.
    fn default() -> Self {
        Self {
            wall: Duration::from_mins(10),
            memory_mib: 512,
            processors: 1,
            console_bytes: 4 << 20,
        }
    }
}

/// The inputs of one run.
#[derive(Debug)]
pub(crate) struct Machine<'a> {
    pub(crate) emulator: &'a Emulator,
    pub(crate) kernel: &'a Kernel,
    pub(crate) image: &'a Path,
    /// The archive that follows the image.
    pub(crate) job: &'a [u8],
    pub(crate) seed: u64,
    /// Further words of the kernel's command line.
    pub(crate) boot_options: &'a [String],
    pub(crate) limits: Limits,
    /// The host's processor on which it runs.
    pub(crate) processor: usize,
    /// The name of the arm, for errors.
    pub(crate) arm: &'a str,
}

/// The output of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) result: Vec<u8>,
    pub(crate) wall: Duration,
    pub(crate) boot: Option<Duration>,
    pub(crate) traffic: Option<Duration>,
    pub(crate) memory_bytes: u64,
    pub(crate) command: String,
}

impl Machine<'_> {
    /// Boots the machine, waits for its end and returns the guest's result.
    ///
    /// It blocks the calling thread, which must outlive the call, because the emulator ends with
    /// it.
    pub(crate) fn run(&self, progress: &mut dyn FnMut(Progress)) -> Result<Run, LabError> {
        self.check_memory()?;
        // Use memory files, which vanish with the processes that hold them, however these end.
        let mut initrd = memory_file("initrd")?;
        let image = fs::read(self.image).map_err(LabError::file("cannot be read", self.image))?;
        initrd
            .write_all(&image)
            .and_then(|()| initrd.write_all(self.job))
            .map_err(LabError::host("the guest's image cannot be written"))?;
        let mut result = memory_file("result")?;
        let mut command = command::build(
            self,
            &Files {
                initrd: &initrd,
                result: &result,
            },
        )?;
        let shown = command_line(&command);
        let start = Instant::now();
        let child = {
            let _pinned = Pinned::to(self.processor);
            command
                .spawn()
                .map_err(LabError::host("qemu cannot be started"))?
        };
        let mut emulator = Process { child: Some(child) };
        let mut monitor = Monitor {
            console: Console::new(start),
            messages: Vec::new(),
            memory_bytes: 0,
            start,
            limits: self.limits,
        };
        let outcome = monitor.until_end(&mut emulator, progress);
        let wall = start.elapsed();
        let failed = |failure| LabError::Run {
            arm: self.arm.to_owned(),
            failure,
            console: monitor.console.last_lines(),
        };
        // The guest's message is more specific than how its machine ended.
        let outcome = outcome?;
        if let Some(failure) = monitor.console.failure() {
            return Err(failed(failure));
        }
        let status = outcome.map_err(failed)?;
        let mut sealed = Vec::new();
        result
            .rewind()
            .and_then(|()| result.read_to_end(&mut sealed))
            .map_err(LabError::host("the guest's result cannot be read"))?;
        if !status.success() || sealed.is_empty() {
            return Err(failed(Failure::Ended {
                status: status.to_string(),
                emulator: String::from_utf8_lossy(&monitor.messages).into_owned(),
            }));
        }
        let (boot, traffic) = (monitor.console.started(), monitor.console.under_way());
        let memory_bytes = monitor.memory_bytes;
        let result = unseal(sealed).map_err(|error| failed(error.into()))?;
        Ok(Run {
            result,
            wall,
            boot,
            traffic,
            memory_bytes,
            command: shown,
        })
    }
}

impl Machine<'_> {
    /// Checks the memory, because firmware without room for the kernel stops silently.
    fn check_memory(&self) -> Result<(), LabError> {
        let size = |path: &Path| {
            let file = fs::metadata(path).map_err(LabError::file("cannot be read", path));
            file.map(|file| file.len() >> 20)
        };
        // The image needs memory twice, packed and unpacked.
        let needed = size(&self.kernel.boot)? + 2 * size(self.image)? + WORK_MIB;
        let given = self.limits.memory_mib;
        if u64::from(given) < needed {
            return Err(LabError::Memory { given, needed });
        }
        Ok(())
    }
}

/// Makes an anonymous file, which child processes inherit.
fn memory_file(name: &str) -> Result<File, LabError> {
    memfd_create(name, MemfdFlags::empty())
        .map(File::from)
        .map_err(LabError::host("no memory file"))
}

/// The process of the emulator, which never outlives this value.
struct Process {
    child: Option<Child>,
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // Both fail only if the process has already ended.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Monitors a running machine.
struct Monitor {
    console: Console,
    /// The messages of qemu itself.
    messages: Vec<u8>,
    /// The largest memory of the emulator at the last sample.
    memory_bytes: u64,
    start: Instant,
    limits: Limits,
}

impl Monitor {
    /// Reads the output of the machine until it ends or a limit is reached. The outer error is
    /// that of the host, the inner one that of the guest.
    fn until_end(
        &mut self,
        emulator: &mut Process,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Result<ExitStatus, Failure>, LabError> {
        let Some(child) = emulator.child.as_mut() else {
            unreachable!("the emulator was just started");
        };
        let (Some(mut console), Some(mut messages)) = (child.stdout.take(), child.stderr.take())
        else {
            unreachable!("both are pipes");
        };
        let pid = Pid::from_child(child);
        let ended = pidfd_open(pid, PidfdFlags::empty())
            .map_err(LabError::host("the emulator cannot be watched"))?;
        let mut buffer = vec![0; 1 << 16];
        let (mut console_open, mut messages_open) = (true, true);
        loop {
            let left = self.limits.wall.saturating_sub(self.start.elapsed());
            if left.is_zero() {
                let limit = self.limits.wall;
                return Ok(Err(Failure::Hang { limit }));
            }
            // Both pipes close when the machine ends; wait for its process only then, so that no
            // output is lost.
            let mut watched = Vec::new();
            if console_open {
                watched.push(PollFd::new(&console, PollFlags::IN));
            }
            if messages_open {
                watched.push(PollFd::new(&messages, PollFlags::IN));
            }
            if watched.is_empty() {
                watched.push(PollFd::new(&ended, PollFlags::IN));
            }
            let timeout = Timespec {
                tv_sec: left.as_secs().min(i64::MAX as u64) as i64,
                tv_nsec: left.subsec_nanos().into(),
            };
            match poll(&mut watched, Some(&timeout)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(LabError::host("the emulator cannot be watched")(error)),
            }
            if !console_open && !messages_open {
                if watched[0].revents().is_empty() {
                    continue;
                }
                let status = child
                    .wait()
                    .map_err(LabError::host("the emulator cannot be waited for"))?;
                emulator.child = None;
                return Ok(Ok(status));
            }
            let ready: Vec<bool> = watched
                .iter()
                .map(|descriptor| !descriptor.revents().is_empty())
                .collect();
            let mut ready = ready.into_iter();
            if console_open && ready.next() == Some(true) {
                let count = read_some(&mut console, &mut buffer)?;
                console_open = count > 0;
                // The guest writes regularly, and once more at the end.
                if let Some(bytes) = memory::peak(pid) {
                    self.memory_bytes = bytes;
                }
                self.console.take(&buffer[..count], progress);
                if self.console.taken() > self.limits.console_bytes {
                    let limit = self.limits.console_bytes;
                    return Ok(Err(Failure::Flood { limit }));
                }
            }
            if messages_open && ready.next() == Some(true) {
                let count = read_some(&mut messages, &mut buffer)?;
                messages_open = count > 0;
                // qemu writes little; truncate the output of a broken one.
                let room = (1_usize << 16).saturating_sub(self.messages.len());
                self.messages.extend_from_slice(&buffer[..count.min(room)]);
            }
        }
    }
}

/// Reads once, ignoring signals; returns 0 at the end.
fn read_some(source: &mut (impl Read + AsFd), buffer: &mut [u8]) -> Result<usize, LabError> {
    loop {
        match source.read(buffer) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            outcome => {
                return outcome.map_err(LabError::host("the emulator's output cannot be read"));
            }
        }
    }
}
