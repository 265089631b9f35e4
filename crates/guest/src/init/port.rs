// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The virtio port through which the result leaves the machine.

use anyhow::{Context, Result, bail};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use std::fs::{self, File};
use std::io::Write;
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};

/// The name of the port, chosen by the lab.
const NAME: &str = "weirgate.result";

/// The directory where the kernel lists ports.
const PORTS: &str = "/sys/class/virtio-ports";

/// Writes the whole result. Returns when the host has it.
pub(crate) fn send(result: &[u8]) -> Result<()> {
    let path = device()?;
    let mut port = File::options()
        .write(true)
        .open(&path)
        .with_context(|| path.display().to_string())?;
    port.write_all(result)
        .with_context(|| path.display().to_string())
}

/// Returns the port's device file, and waits for it while the driver is being loaded.
fn device() -> Result<PathBuf> {
    // Watch before looking, so that its creation cannot be missed.
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

/// Returns the device of the port with this name, once it exists.
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
