// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The command line of the virtual machine. Every option improves speed or makes runs
//! reproducible; docs/lab.md has the measurements.

use super::Machine;
use crate::error::LabError;
use crate::tool::{CHRT, SETPRIV};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::process::{Command, Stdio};

/// The machine: a plain PC without devices that the guest does not use.
const MACHINE: &str = "pc,usb=off,vmport=off,smbus=off,i8042=off";

/// The emulator, with room for 256 MiB of translated code: more than a guest fills, less than
/// qemu's default.
const ACCELERATOR: &str = "tcg,tb-size=256";

/// A plain 64-bit processor. `rdrand` lets the kernel seed its random numbers immediately, from
/// the seeded generator of qemu.
const PROCESSOR: &str = "qemu64,+rdrand";

/// The scheduling policy of qemu's threads. The first thread wakes at every timer of the guest
/// and mostly has nothing to do. Under the batch policy, its wake-up does not preempt the thread
/// that emulates the processor (sched(7)).
const BATCH: [&str; 2] = ["--batch", "0"];

/// The word that disables the processor's local timer.
const NO_LOCAL_TIMER: &str = "noapictimer";

/// Words of the kernel's command line in every guest.
const BOOT_OPTIONS: [&str; 12] = [
    "console=ttyS0",
    "quiet",
    // A panic ends the machine immediately; other ways to restart wait for missing devices.
    "panic=-1",
    "reboot=t",
    // Use the same addresses in every run.
    "nokaslr",
    // The local timer would be calibrated by 0.1 s of busy waiting, in which each pause leaves
    // the emulated processor: half of the boot time. The HPET needs no calibration and is
    // equally exact.
    NO_LOCAL_TIMER,
    "no_timer_check",
    // An instruction takes one nanosecond by construction.
    "tsc=reliable",
    // Disable work that takes virtual time but does not affect traffic.
    "mitigations=off",
    "init_on_alloc=0",
    "cryptomgr.notests",
    "initcall_blacklist=hpet_late_init,trace_eval_init",
];

/// Files that qemu inherits.
pub(super) struct Files<'a> {
    /// The guest's file system.
    pub(super) initrd: &'a File,
    /// The file for its result.
    pub(super) result: &'a File,
}

/// Returns the command. The console is on its standard output, qemu's own messages are on its
/// standard error.
pub(super) fn build(machine: &Machine<'_>, files: &Files<'_>) -> Result<Command, LabError> {
    let mut command = SETPRIV.command()?;
    command.args(["--pdeathsig", "KILL", "--"]);
    command.arg(CHRT.path()?).args(BATCH);
    command.args(&machine.emulator.words);
    command.args(["-M", MACHINE, "-accel", ACCELERATOR]);
    let processors = machine.limits.processors;
    command.args(["-cpu", PROCESSOR, "-smp", &processors.to_string()]);
    command.args(["-m", &machine.limits.memory_mib.to_string()]);
    // An instruction takes one nanosecond; idle time is skipped. Recording prevents qemu's two
    // threads from running concurrently, although the recording is not used. Otherwise the
    // thread that skips idle time could read the clock before the other one has added the
    // instructions it just executed. On a busy host, time would then jump too far. This can
    // happen to a machine with several processors, which qemu does not record.
    let recorded = if processors > 1 {
        ""
    } else {
        ",rr=record,rrfile=/dev/null"
    };
    command.args(["-icount", &format!("shift=0,sleep=off{recorded}")]);
    command.args(["-rtc", "base=2026-01-01T00:00:00,clock=vm"]);
    // qemu accepts 64 bits and seeds the guest's generators from them.
    command.args(["-seed", &machine.seed.to_string()]);
    command.args(["-no-user-config", "-nodefaults", "-no-reboot"]);
    command.args(["-display", "none", "-monitor", "none", "-nic", "none"]);
    // Writes to a file are never partial, so the guest cannot notice how fast its output is
    // read.
    command.args(["-chardev", "file,id=console,path=/proc/self/fd/1"]);
    command.args(["-serial", "chardev:console"]);
    let result = format!(
        "file,id=result,path=/proc/self/fd/{}",
        files.result.as_raw_fd()
    );
    command.args(["-chardev", &result]);
    // With event descriptors, qemu's other thread would handle the guest's notifications, at a
    // time that depends on the load of the host.
    command.args(["-device", "virtio-serial-pci,ioeventfd=off"]);
    command.args([
        "-device",
        "virtserialport,chardev=result,name=weirgate.result",
    ]);
    command.arg("-kernel").arg(&machine.kernel.boot);
    command.arg("-initrd");
    command.arg(format!("/proc/self/fd/{}", files.initrd.as_raw_fd()));
    // The words of an arm come last, so that they take precedence.
    let mut words: Vec<&str> = BOOT_OPTIONS.to_vec();
    if processors > 1 {
        // Additional processors have no other timer.
        words.retain(|word| *word != NO_LOCAL_TIMER);
    }
    words.extend(machine.boot_options.iter().map(String::as_str));
    command.args(["-append", &words.join(" ")]);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    Ok(command)
}
