// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Inspects the machine instead of running a job. It checks that the machine boots, keeps time,
//! loads modules and has the devices that jobs need. `weirgate lab prepare` shows the result,
//! and the lab's own tests run it.

use super::modules;
use anyhow::{Context, Result, bail};
use rustix::rand::{GetRandomFlags, getrandom};
use std::fmt::Write;
use std::fs::{self, File};
use std::thread;
use std::time::{Duration, Instant};

/// A congestion control in a module: selecting it makes the kernel call its module loader.
const AUTOLOADED: &str = "bbr";

/// The duration of a test sleep, and how late it may end.
const NAP: Duration = Duration::from_secs(10);
const LATEST: Duration = Duration::from_millis(1);

/// Returns the results, one `name: value` per line.
pub(crate) fn look() -> Result<Vec<u8>> {
    let mut text = String::new();
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").context("kernel release")?;
    writeln!(text, "kernel: {}", release.trim())?;
    File::options()
        .read(true)
        .write(true)
        .open("/dev/net/tun")
        .context("/dev/net/tun")?;
    writeln!(text, "tap: yes")?;
    modules::load("net-sch-htb").or_else(|_| modules::load("sch_htb"))?;
    let loaded = fs::read_to_string("/proc/modules").context("/proc/modules")?;
    if !loaded.lines().any(|line| line.starts_with("sch_htb ")) {
        bail!("sch_htb was loaded and is not there");
    }
    writeln!(text, "sch_htb: loaded")?;
    let choice = "/proc/sys/net/ipv4/tcp_congestion_control";
    fs::write(choice, AUTOLOADED)
        .with_context(|| format!("the kernel cannot load {AUTOLOADED} by itself"))?;
    writeln!(text, "{AUTOLOADED}: loaded by the kernel")?;
    let before = Instant::now();
    thread::sleep(NAP);
    let slept = before.elapsed();
    if slept < NAP || slept > NAP + LATEST {
        bail!("asked to sleep {NAP:?}, the kernel slept {slept:?}");
    }
    writeln!(
        text,
        "late: {} ns after {} s",
        slept.saturating_sub(NAP).as_nanos(),
        NAP.as_secs()
    )?;
    let mut bytes = [0; 16];
    getrandom(&mut bytes, GetRandomFlags::empty()).context("random bytes")?;
    writeln!(text, "random: {bytes:02x?}")?;
    writeln!(text, "clock: {} ns", uptime_ns())?;
    Ok(text.into_bytes())
}

/// Returns the nanoseconds since boot.
fn uptime_ns() -> i128 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    i128::from(now.tv_sec) * 1_000_000_000 + i128::from(now.tv_nsec)
}
