// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Debian packages that the lab needs, installed by apt where that is allowed.

use crate::run as execute;
use anyhow::{Result, bail};
use std::path::Path;
use std::process::Command;

/// A package, a file that shows it is there, and what it is for.
const PACKAGES: [(&str, &str, &str); 9] = [
    (
        "qemu-system-x86",
        "/usr/bin/qemu-system-x86_64",
        "the lab's virtual machine",
    ),
    (
        "iproute2",
        "/usr/sbin/tc",
        "rival arms of experiments are set up with tc itself",
    ),
    (
        "nftables",
        "/usr/sbin/nft",
        "tests compare with what nft itself lists",
    ),
    ("gcc", "/usr/bin/cc", "linking Rust programs"),
    ("make", "/usr/bin/make", "building libbpf"),
    (
        "clang-19",
        "/usr/bin/clang-19",
        "compiling queueing disciplines for the kernel",
    ),
    (
        "libclang-rt-19-dev",
        "/usr/lib/llvm-19/lib/clang/19/lib/linux/libclang_rt.asan-x86_64.a",
        "running queueing disciplines under sanitizers",
    ),
    (
        "libelf-dev",
        "/usr/include/libelf.h",
        "loading programs into the kernel",
    ),
    ("zlib1g-dev", "/usr/include/zlib.h", "the same"),
];

/// Installs what is missing; without root, says so with the command to run.
#[allow(clippy::print_stdout, reason = "set-up tells what it does")]
pub fn run() -> Result<()> {
    let missing: Vec<_> = PACKAGES
        .iter()
        .filter(|package| !Path::new(package.1).exists())
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    for (package, _, purpose) in &missing {
        println!("missing: {package} ({purpose})");
    }
    let names: Vec<&str> = missing.iter().map(|package| package.0).collect();
    let install = format!(
        "apt-get update && apt-get install -y --no-install-recommends {}",
        names.join(" ")
    );
    if !is_root() {
        bail!("run as root, then start again: {install}");
    }
    println!("installing: {}", names.join(" "));
    execute(Command::new("apt-get").args(["-q", "update"]))?;
    execute(
        Command::new("apt-get")
            .env("DEBIAN_FRONTEND", "noninteractive")
            .args(["-q", "install", "-y", "--no-install-recommends"])
            .args(names),
    )
}

/// Whether this process may install packages: the owner of /proc/self is root.
fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}
