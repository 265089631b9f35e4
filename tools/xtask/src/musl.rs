// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The router's program as one file that needs no library, linked with musl.
//!
//! Debian has no standard library of Rust for musl, but its sources, in the release under
//! development, with the compiler of the same version. So the program is built in a root of
//! its own with that release (`packaging/static/build`), which changes nothing here.

use crate::files::{target, text};
use crate::packages::clean::apt_options;
use crate::run;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What is installed there. clang is of the version that the sources ask for, from the
/// release before.
const INCLUDED: &str = "rustc,cargo,rust-src,gcc,libc6-dev,musl-tools,make,pkg-config,\
    clang-19,llvm-19,libclang-19-dev,lld,ca-certificates,m4,flex,bison,gawk,autoconf,\
    automake,autopoint,libtool,gettext,git";

/// The releases, the first of which has Rust.
const RELEASES: [&str; 2] = ["sid", "trixie"];

/// Debian's keys, which its mirrors are checked with.
const KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Builds it, and says where it is.
#[allow(clippy::print_stdout, reason = "the program is this task's result")]
pub fn build(root: &Path) -> Result<()> {
    let folder = target(root).join("static");
    fs::create_dir_all(folder.join("work"))?;
    let system = folder.join("root");
    if !system.join("src").exists() {
        debian(&folder, &system)?;
    }
    let enter = format!(
        "set -e; cd {system}; mkdir -p src w; mount --bind /proc proc; mount --bind /dev dev; \
         mount --bind /etc/ssl etc/ssl; cp /etc/resolv.conf etc/resolv.conf; \
         mount --bind {root} src; mount --bind {work} w; \
         exec chroot . env -i HOME=/root PATH=/usr/bin:/bin:/usr/sbin /src/packaging/static/build",
        system = system.display(),
        root = root.display(),
        work = folder.join("work").display(),
    );
    run(Command::new("unshare").args(["--mount", "sh", "-c", &enter]))?;
    let built = folder.join("work/target/x86_64-unknown-linux-musl/dist/weirgate");
    let bytes = fs::metadata(&built)?.len();
    println!("{}: {:.2} MB", built.display(), bytes as f64 / 1e6);
    Ok(())
}

/// Fetches the root from where this machine's own packages come.
fn debian(folder: &Path, system: &Path) -> Result<()> {
    let mirror = mirror()?;
    let mut command = Command::new("mmdebstrap");
    command.args([
        "--quiet",
        "--mode=root",
        "--variant=apt",
        "--include",
        INCLUDED,
    ]);
    command.arg("--aptopt=APT::Install-Recommends \"false\"");
    command.arg(format!("--aptopt={}", apt_options(folder)?.display()));
    command.arg(RELEASES[0]).arg(system);
    for release in RELEASES {
        command.arg(format!("deb [signed-by={KEYS}] {mirror} {release} main"));
    }
    run(&mut command)
}

/// The first address that this machine's apt has of Debian.
fn mirror() -> Result<String> {
    let listed = text(Command::new("apt-get").args([
        "indextargets",
        "--format",
        "$(SITE) $(LABEL) $(ORIGIN)",
    ]))?;
    let debian = listed.lines().find(|line| line.ends_with("Debian Debian"));
    let site = debian.and_then(|line| line.split(' ').next());
    Ok(site
        .context("this machine's apt knows no Debian")?
        .to_owned())
}

/// Where the program is, if it was built.
pub fn built(root: &Path) -> Option<PathBuf> {
    let place = "static/work/target/x86_64-unknown-linux-musl/dist/weirgate";
    Some(target(root).join(place)).filter(|place| place.exists())
}
