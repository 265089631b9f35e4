// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The file systems that a first process has to mount.

use anyhow::{Context, Result};
use rustix::mount::{MountFlags, mount};
use std::fs;

/// Type, target and data of each. /run has the names of namespaces. The control groups and BPF's
/// file system are for programs that need them.
const MOUNTS: [(&str, &str, &str); 6] = [
    ("devtmpfs", "/dev", ""),
    ("proc", "/proc", ""),
    ("sysfs", "/sys", ""),
    ("tmpfs", "/run", "mode=755"),
    ("cgroup2", "/sys/fs/cgroup", ""),
    ("bpf", "/sys/fs/bpf", "mode=700"),
];

/// Kernel settings of the machine itself. The agent sets those of networks in its own
/// namespaces.
const SETTINGS: [(&str, &str); 2] = [
    // Warnings of the kernel are printed on the console, and so are part of the lab's errors.
    ("/proc/sys/kernel/printk", "5"),
    // A kernel with an oops must not continue and produce results.
    ("/proc/sys/kernel/panic_on_oops", "1"),
];

/// Mounts everything and applies the settings.
pub(crate) fn mount_all() -> Result<()> {
    for (kind, target, data) in MOUNTS {
        let data = std::ffi::CString::new(data)?;
        mount(kind, target, kind, MountFlags::empty(), data.as_c_str())
            .with_context(|| format!("{target} cannot be mounted as {kind}"))?;
    }
    for (path, value) in SETTINGS {
        fs::write(path, value).context(path)?;
    }
    Ok(())
}
