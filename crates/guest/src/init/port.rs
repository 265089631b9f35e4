// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The port through which the result leaves the machine.

use anyhow::{Context, Result, bail};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use std::fs::{self, File};
use std::io::Write;
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};

/// The name that the lab gives the port.
const NAME: &str = "weirgate.result";

/// Where the kernel lists ports.
const PORTS: &str = "/sys/class/virtio-ports";

/// Writes the whole result; returns when the host has it.
pub(crate) fn send(result: &[u8]) -> Result<()> {
    let path = device()?;
    let mut port = File::options()
        .write(true)
        .open(&path)
        .with_context(|| path.display().to_string())?;
    port.write_all(result)
        .with_context(|| path.display().to_string())
}

/// The port's device file, waited for where the driver is still at work.
fn device() -> Result<PathBuf> {
    // Watched before it is looked for, so that it cannot come in between.
    let changes = inotify::init(CreateFlags::empty()).context("inotify")?;
    inotify::add_watch(&changes, "/dev", WatchFlags::CREATE).context("/dev")?;
    let mut space = [MaybeUninit::uninit(); 4096];
    let mut events = inotify::Reader::new(changes, &mut space);
    loop {
        if let Some(path) = named_port(Path::new(PORTS)) {
            return Ok(path);
        }
        let event = events.next().context("/dev cannot be watched")?;
        if event.events().contains(ReadFlags::QUEUE_OVERFLOW) {
            bail!("/dev changes too fast");
        }
    }
}

/// The device of the port with our name, once it exists.
fn named_port(ports: &Path) -> Option<PathBuf> {
    fs::read_dir(ports)
        .ok()?
        .flatten()
        .find(|port| {
            fs::read_to_string(port.path().join("name")).is_ok_and(|name| name.trim() == NAME)
        })
        .map(|port| Path::new("/dev").join(port.file_name()))
        .filter(|device| device.exists())
}
