// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The machine in which packages are tested: qemu with a stock kernel, in virtual time, so that
//! this machine's load has no effect.

use anyhow::{Context, Result, ensure};
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The prefix of the guest's figures.
pub const MARK: &str = "@packages";

/// The kernel's command line; `docs/lab.md` explains the words about time.
const WORDS: &str = "console=ttyS0 quiet panic=-1 reboot=t noapictimer no_timer_check \
    tsc=reliable mitigations=off init_on_alloc=0 initcall_blacklist=hpet_late_init \
    rdinit=/usr/lib/systemd/systemd systemd.show_status=0 net.ifnames=0";

/// Returns the kernel that `weirgate-lab lab prepare` has fetched.
pub fn kernel() -> Result<PathBuf> {
    let cache = std::env::var_os("WEIRGATE_CACHE").map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache/weirgate"));
    let folder = cache
        .or_else(home)
        .context("neither WEIRGATE_CACHE nor HOME is set")?;
    let kernel = folder.join("kernels/current");
    ensure!(
        kernel.join("vmlinuz").exists(),
        "no kernel in {}; run `weirgate-lab lab prepare`",
        kernel.display()
    );
    Ok(kernel)
}

/// Boots, and returns the names and figures that the guest printed; stores its console.
#[allow(
    clippy::print_stdout,
    reason = "shows what the guest says while it works"
)]
pub fn boot(kernel: &Path, image: &Path, console: &Path) -> Result<Vec<(String, f64)>> {
    let mut machine = Command::new("setpriv");
    machine.args(["--pdeathsig", "KILL", "--", "qemu-system-x86_64"]);
    machine.args(["-M", "pc,usb=off,vmport=off,smbus=off,i8042=off"]);
    machine.args(["-accel", "tcg", "-cpu", "qemu64,+rdrand", "-smp", "1"]);
    machine.args(["-icount", "shift=0,sleep=off", "-m", "1536"]);
    machine.args(["-no-user-config", "-nodefaults", "-no-reboot"]);
    machine.args(["-display", "none", "-monitor", "none", "-nic", "none"]);
    machine.args(["-serial", "stdio", "-append", WORDS]);
    machine.arg("-kernel").arg(kernel.join("vmlinuz"));
    machine.arg("-initrd").arg(image);
    machine.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = machine.spawn().context("qemu")?;
    let output = child.stdout.take().context("its console")?;
    let mut kept = fs::File::create(console)?;
    let mut figures = Vec::new();
    for line in BufReader::new(output).split(b'\n') {
        let line = String::from_utf8_lossy(&line?).trim_end().to_owned();
        writeln!(kept, "{line}")?;
        let Some((_, words)) = line.split_once(MARK) else {
            continue;
        };
        println!("{}", words.trim());
        if let Some((name, value)) = words.trim().split_once(' ')
            && let Ok(value) = value.parse()
        {
            figures.push((name.to_owned(), value));
        }
    }
    let status = child.wait()?;
    ensure!(status.success(), "qemu ended with {status}");
    Ok(figures)
}
