// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Builds the router's program as one file that needs no library, linked with musl.
//!
//! Debian has no binaries of Rust's standard library for musl, but its unstable release has the
//! sources, with a compiler of the same version. So the program is built in a separate root file
//! system of that release (`packaging/static/build`), without changes to this machine.

use crate::bench::{self, Figure, Goal};
use crate::command::run;
use crate::files::{put, target, text};
use crate::packages::clean::apt_options;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The processors for which it can be built, by the names of Rust and the kernel. The first is the
/// machine's own; `INCLUDED` has a C compiler and musl for the others.
const PROCESSORS: [&str; 2] = ["x86_64", "aarch64"];

/// Their names in Debian.
const ARCHITECTURES: [&str; 2] = ["amd64", "arm64"];

/// The packages of the root file system. clang has the version that the sources require, from the
/// previous release.
const INCLUDED: &str = "rustc,cargo,rust-src,gcc,libc6-dev,musl-dev,make,pkg-config,clang-19,\
    llvm-19,libclang-19-dev,lld,ca-certificates,m4,flex,bison,gawk,autoconf,automake,autopoint,\
    libtool,gettext,git,gcc-aarch64-linux-gnu,musl-dev:arm64,qemu-user";

/// The releases; the first one has Rust.
const RELEASES: [&str; 2] = ["sid", "trixie"];

/// Debian's keys, with which its mirrors are verified.
const KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

#[derive(clap::Args)]
pub struct Arguments {
    /// The processor.
    #[arg(long, default_value = PROCESSORS[0], value_parser = PROCESSORS)]
    processor: String,
    /// Build only what a small router needs: the commands that apply and keep a policy.
    #[arg(long)]
    small: bool,
}

/// The maximum sizes of both variants, in MB.
const SMALL_MB: f64 = 3.0;
const WHOLE_MB: f64 = 8.0;

/// A policy with a mistake.
const WRONG: &str = "version = 1\n[link]\ndevice = 7\n";

/// A built program, and its name in a release.
pub struct Built {
    /// Such as `x86_64-static-small`.
    pub name: String,
    /// The processor's name in Rust and in Debian, if it is not this machine's and the program is
    /// the whole one.
    pub foreign: Option<(&'static str, &'static str)>,
    /// Its path.
    pub place: PathBuf,
}

/// Builds one program and prints its path; fails if it exceeds its maximum size.
#[allow(clippy::print_stdout, reason = "the program is this task's result")]
pub fn build(root: &Path, arguments: &Arguments) -> Result<()> {
    let before = bench::load();
    let built = one(root, &arguments.processor, arguments.small)?;
    println!("{}", built.place.display());
    let bytes = fs::metadata(&built.place)?.len();
    let (what, most) = if arguments.small {
        ("the static program of small routers, MB", SMALL_MB)
    } else {
        ("the whole static program, MB", WHOLE_MB)
    };
    let size = Figure {
        what,
        value: bytes as f64 / 1e6,
        goal: Goal::AtMost(most),
    };
    bench::report(&[size], &before)
}

/// Returns the root file system in which they are built.
pub fn system(root: &Path) -> PathBuf {
    target(root).join("static/root")
}

/// Removes what was compiled below cargo's target folder, so that the next build compiles everything
/// again.
pub fn clean(target: &Path) -> Result<()> {
    let compiled = target.join("static/work/target");
    if compiled.exists() {
        fs::remove_dir_all(&compiled).with_context(|| compiled.display().to_string())?;
    }
    Ok(())
}

/// Builds both variants for each processor.
pub fn all(root: &Path) -> Result<Vec<Built>> {
    let each = PROCESSORS
        .into_iter()
        .flat_map(|processor| [(processor, false), (processor, true)]);
    each.map(|(processor, small)| one(root, processor, small))
        .collect()
}

fn one(root: &Path, processor: &str, small: bool) -> Result<Built> {
    let folder = target(root).join("static");
    fs::create_dir_all(folder.join("work"))?;
    let system = system(root);
    if !system.join("src").exists() {
        debian(&folder, &system)?;
    }
    let features = if small { "static" } else { "static,whole" };
    let enter = format!(
        "set -e; cd {system}; mkdir -p src w; mount --bind /proc proc; mount --bind /dev dev; \
         mount --bind /etc/ssl etc/ssl; cp /etc/resolv.conf etc/resolv.conf; \
         mount --bind {root} src; mount --bind {work} w; exec chroot . \
         env -i HOME=/root PATH=/usr/bin:/bin:/usr/sbin {certificates} \
         /src/packaging/static/build {processor} {features}",
        system = system.display(),
        root = root.display(),
        work = folder.join("work").display(),
        certificates = certificates(),
    );
    run(Command::new("unshare").args(["--mount", "sh", "-c", &enter]))?;
    let made = folder.join(format!(
        "work/target/{processor}-unknown-linux-musl/dist/weirgate"
    ));
    let name = format!("{processor}-static{}", if small { "-small" } else { "" });
    let place = folder.join(&name);
    put(&made, &place, 0o755)?;
    put(&made, &system.join("weirgate"), 0o755)?;
    tells_mistakes(&system, processor)?;
    let mut named = PROCESSORS.into_iter().zip(ARCHITECTURES).skip(1);
    Ok(Built {
        name,
        foreign: named.find(|(other, _)| !small && *other == processor),
        place,
    })
}

/// Runs the program with backtraces enabled: a mistake in a policy, and an error of the system,
/// must still be reported.
fn tells_mistakes(system: &Path, processor: &str) -> Result<()> {
    let emulator = (processor != PROCESSORS[0]).then(|| format!("qemu-{processor}"));
    // Every write to it fails (full(4)).
    let full = fs::File::options().write(true).open("/dev/full")?;
    let trials = [
        (&["check", "-"][..], Stdio::null(), 2),
        (&["schema"], full.into(), 1),
    ];
    for (arguments, output, status) in trials {
        let mut weirgate = Command::new("chroot");
        weirgate.arg(system).args(&emulator).arg("/weirgate");
        weirgate.args(arguments).env("RUST_BACKTRACE", "1");
        weirgate.stdin(Stdio::piped()).stdout(output);
        let mut running = weirgate.stderr(Stdio::piped()).spawn()?;
        let policy = running.stdin.take().context("its standard input")?;
        // Ignore errors: a program that does not read its input may have ended.
        let _ = (&policy).write_all(WRONG.as_bytes());
        drop(policy);
        let ended = running.wait_with_output()?;
        let stderr = String::from_utf8_lossy(&ended.stderr);
        ensure!(
            ended.status.code() == Some(status) && stderr.contains("weirgate"),
            "with RUST_BACKTRACE, {arguments:?} ended with {}: {stderr}",
            ended.status
        );
    }
    Ok(())
}

/// Returns where this machine's cargo finds certificates, if it is configured.
fn certificates() -> String {
    let variables = ["SSL_CERT_FILE", "SSL_CERT_DIR"].into_iter();
    variables
        .filter_map(|name| Some(format!("{name}={}", std::env::var(name).ok()?)))
        .collect::<Vec<_>>()
        .join(" ")
}

/// Fetches the root file system from the mirror of this machine's packages.
fn debian(folder: &Path, system: &Path) -> Result<()> {
    let here = text(Command::new("dpkg").arg("--print-architecture"))?;
    ensure!(
        here.trim() == "amd64",
        "static programs are built on x86-64"
    );
    let mirror = mirror()?;
    let mut command = Command::new("mmdebstrap");
    command.args([
        "--quiet",
        "--mode=root",
        "--variant=apt",
        "--include",
        INCLUDED,
    ]);
    command.args(["--architectures", &ARCHITECTURES.join(",")]);
    command.arg("--aptopt=APT::Install-Recommends \"false\"");
    command.arg(format!("--aptopt={}", apt_options(folder)?.display()));
    command.arg(RELEASES[0]).arg(system);
    for release in RELEASES {
        command.arg(format!("deb [signed-by={KEYS}] {mirror} {release} main"));
    }
    run(&mut command)
}

/// Returns the first mirror in the configuration of this machine's apt.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_compiled_is_left_for_the_second_build() -> Result<()> {
        let target = tempfile::tempdir()?;
        let work = target.path().join("static/work");
        fs::create_dir_all(work.join("target/x86_64-unknown-linux-musl/dist"))?;
        fs::create_dir_all(work.join("cargo/registry"))?;
        clean(target.path())?;
        assert!(!work.join("target").exists());
        assert!(work.join("cargo/registry").exists(), "fetched again");
        clean(target.path())
    }
}
