// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The virtual machine's command line. Every option serves speed or equal results in every run;
//! docs/lab.md has the measurements.

use super::Machine;
use crate::error::LabError;
use crate::tool::{CHRT, SETPRIV};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::process::{Command, Stdio};

/// The machine: a plain PC without what no guest of ours uses.
const MACHINE: &str = "pc,usb=off,vmport=off,smbus=off,i8042=off";

/// The emulator, with room for 256 MiB of translated code: more than a guest
/// fills, less than qemu would take.
const ACCELERATOR: &str = "tcg,tb-size=256";

/// A plain 64-bit processor. `rdrand` lets the kernel seed its random numbers
/// at once, from qemu's own seeded ones.
const PROCESSOR: &str = "qemu64,+rdrand";

/// The policy of qemu's threads. The first wakes at every timer of the guest and mostly finds
/// nothing to do: a thread of a batch process does not interrupt the one that emulates the
/// processor when it wakes (sched(7)).
const BATCH: [&str; 2] = ["--batch", "0"];

/// The word that leaves the processor's own timer out.
const NO_LOCAL_TIMER: &str = "noapictimer";

/// Words of every guest's kernel command line.
const BOOT_OPTIONS: [&str; 12] = [
    "console=ttyS0",
    "quiet",
    // A panic ends the machine at once; other ways of restarting wait for
    // devices that are not there.
    "panic=-1",
    "reboot=t",
    // The same addresses in every run.
    "nokaslr",
    // The local timer is calibrated by 0.1 s of busy waiting, in which each
    // pause leaves the emulated processor: half of the boot. The HPET needs no
    // calibration and serves just as exactly.
    NO_LOCAL_TIMER,
    "no_timer_check",
    // One instruction is one nanosecond by construction.
    "tsc=reliable",
    // Work that costs virtual time and changes no traffic.
    "mitigations=off",
    "init_on_alloc=0",
    "cryptomgr.notests",
    "initcall_blacklist=hpet_late_init,trace_eval_init",
];

/// Files that qemu inherits.
pub(super) struct Files<'a> {
    /// The guest's file system.
    pub(super) initrd: &'a File,
    /// Where its result goes.
    pub(super) result: &'a File,
}

/// The command; the console comes on its standard output, qemu's own messages
/// on its standard error.
pub(super) fn build(machine: &Machine<'_>, files: &Files<'_>) -> Result<Command, LabError> {
    let mut command = SETPRIV.command()?;
    command.args(["--pdeathsig", "KILL", "--"]);
    command.arg(CHRT.path()?).args(BATCH);
    command.args(&machine.emulator.words);
    command.args(["-M", MACHINE, "-accel", ACCELERATOR]);
    let processors = machine.limits.processors;
    command.args(["-cpu", PROCESSOR, "-smp", &processors.to_string()]);
    command.args(["-m", &machine.limits.memory_mib.to_string()]);
    // One instruction, one nanosecond; idle time is skipped. Recording is on
    // although nobody wants the record: it keeps qemu's two threads from
    // working at the same time. Without it, the one that skips idle time may
    // look at the clock before the other has added the instructions it just
    // ran, and on a busy host time then jumps too far. That can happen to a
    // machine of several processors, which qemu does not record.
    let recorded = if processors > 1 {
        ""
    } else {
        ",rr=record,rrfile=/dev/null"
    };
    command.args(["-icount", &format!("shift=0,sleep=off{recorded}")]);
    command.args(["-rtc", "base=2026-01-01T00:00:00,clock=vm"]);
    // qemu takes 64 bits and the guest's own generators are seeded from it.
    command.args(["-seed", &machine.seed.to_string()]);
    command.args(["-no-user-config", "-nodefaults", "-no-reboot"]);
    command.args(["-display", "none", "-monitor", "none", "-nic", "none"]);
    // A file's writes are never partial, so the guest cannot see how fast its
    // output is read.
    command.args(["-chardev", "file,id=console,path=/proc/self/fd/1"]);
    command.args(["-serial", "chardev:console"]);
    let result = format!(
        "file,id=result,path=/proc/self/fd/{}",
        files.result.as_raw_fd()
    );
    command.args(["-chardev", &result]);
    // With event descriptors, qemu's other thread would serve the guest's
    // notices, at a moment that depends on how busy the host is.
    command.args(["-device", "virtio-serial-pci,ioeventfd=off"]);
    command.args([
        "-device",
        "virtserialport,chardev=result,name=weirgate.result",
    ]);
    command.arg("-kernel").arg(&machine.kernel.boot);
    command.arg("-initrd");
    command.arg(format!("/proc/self/fd/{}", files.initrd.as_raw_fd()));
    // An arm's words go last, so that they override these.
    let mut words: Vec<&str> = BOOT_OPTIONS.to_vec();
    if processors > 1 {
        // Others have no timer but that.
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
