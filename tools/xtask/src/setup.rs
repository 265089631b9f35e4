// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Installs what building, tests and the lab need: Debian packages, by apt if that is permitted.
//! The Rust toolchain is only checked.

use crate::command::run as execute;
use anyhow::{Result, bail};
use std::path::Path;
use std::process::Command;

/// A package, a file that shows that it is installed, and its purpose.
const PACKAGES: [(&str, &str, &str); 20] = [
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
    ("g++", "/usr/bin/c++", "the fuzzer's library"),
    ("make", "/usr/bin/make", "the Makefile, and building libbpf"),
    (
        "clang-19",
        "/usr/bin/clang-19",
        "compiling queueing disciplines for the kernel",
    ),
    (
        "llvm-19",
        "/usr/bin/llvm-strip-19",
        "objects for the kernel without debugging information",
    ),
    (
        "clang-format-19",
        "/usr/bin/clang-format-19",
        "the format of C",
    ),
    (
        "libclang-19-dev",
        "/usr/lib/llvm-19/lib/libclang.so",
        "Rust's types of what maps hold, read from C headers",
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
    (
        "util-linux",
        "/usr/bin/setpriv",
        "ends the lab's machines with weirgate; tests make namespaces",
    ),
    (
        "tcpdump",
        "/usr/bin/tcpdump",
        "tests read captures with it as a second opinion",
    ),
    (
        "chromium",
        "/usr/bin/chromium",
        "tests look at the page of `weirgate watch` with it",
    ),
    (
        "python3-prometheus-client",
        "/usr/lib/python3/dist-packages/prometheus_client/openmetrics/parser.py",
        "tests read the metrics with it as a second opinion",
    ),
    (
        "iperf3",
        "/usr/bin/iperf3",
        "tests measure a line with its server",
    ),
    (
        "iputils-ping",
        "/usr/bin/ping",
        "tests and the lab's hosts send echoes with it",
    ),
    (
        "openssh-client",
        "/usr/bin/ssh-keygen",
        "the sums of a release are signed with it",
    ),
    (
        "ethtool",
        "/usr/sbin/ethtool",
        "tests look at the offloads of devices",
    ),
];

/// Programs of packages that would start a service when installed. These packages are only
/// unpacked, into [`TOOLS`]. Each entry has the program, its package and its purpose.
const OTHERS: [(&str, &str, &str); 2] = [
    (
        "promtool",
        "prometheus",
        "tests evaluate alert rules and the dashboard with it",
    ),
    (
        "irtt",
        "irtt",
        "a test measures round trips with its server",
    ),
];

/// The folder into which they are unpacked.
const TOOLS: &str = "target/tools";

/// The oldest Rust version that builds this project.
const RUST: &str = env!("CARGO_PKG_RUST_VERSION");

/// Components of the toolchain that `make check` uses: the component, and the subcommand that shows
/// its presence.
const COMPONENTS: [(&str, &str); 2] = [("rustfmt", "fmt"), ("clippy", "clippy")];

/// Installs what is missing; without root, prints the command to run.
pub fn run() -> Result<()> {
    rust()?;
    packages()?;
    others();
    collector();
    Ok(())
}

/// Unpacks what is missing; if that fails, reports which tests will be skipped.
#[allow(clippy::print_stdout, reason = "set-up tells what it does")]
fn others() {
    let mut listed = false;
    for (program, package, why) in OTHERS {
        if Path::new("/usr/bin").join(program).exists()
            || Path::new(TOOLS).join("usr/bin").join(program).exists()
        {
            continue;
        }
        println!("unpacking: {package} ({why})");
        let mut found = unpack(package);
        // Without package lists, apt finds no packages.
        if found.is_err() && is_root() && !listed {
            listed = true;
            found = execute(Command::new("apt-get").args(["-q", "update"]))
                .and_then(|()| unpack(package));
        }
        if let Err(error) = found {
            println!("missing: {program}; its tests are skipped ({error:#})");
        }
    }
}

/// Downloads a package and unpacks it, without installing it.
fn unpack(package: &str) -> Result<()> {
    let folder = Path::new(TOOLS).join(package);
    std::fs::create_dir_all(&folder)?;
    execute(
        Command::new("apt-get")
            .args(["-q", "download", package])
            .current_dir(&folder),
    )?;
    for file in std::fs::read_dir(&folder)? {
        let file = file?.path();
        execute(
            Command::new("dpkg-deb")
                .arg("--extract")
                .arg(&file)
                .arg(TOOLS),
        )?;
    }
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}

/// Builds the OpenTelemetry collector's receiver, with which a test of crate watch reads what is
/// sent. That test reports that it is skipped if Go is missing or its modules cannot be fetched.
/// Debian's Go is too old for it.
#[allow(clippy::print_stdout, reason = "set-up tells what it does")]
fn collector() {
    const FOLDER: &str = "tests/otlp";
    const RECEIVER: &str = "target/otlp/receiver";
    let newer = |one: &str| {
        let changed = |path: &Path| path.metadata().and_then(|file| file.modified()).ok();
        changed(&Path::new(FOLDER).join(one)) > changed(Path::new(RECEIVER))
    };
    if Path::new(RECEIVER).exists() && !["main.go", "go.mod"].into_iter().any(newer) {
        return;
    }
    println!("building: {RECEIVER} (a test reads OTLP with it)");
    let mut go = Command::new("go");
    go.args(["build", "-o", "../../target/otlp/receiver", "."]);
    if let Err(error) = execute(go.current_dir(FOLDER)) {
        println!("missing: {RECEIVER}; its test is skipped ({error:#})");
    }
}

/// Refuses a Rust version that is too old, and reports missing components.
#[allow(clippy::print_stdout, reason = "set-up tells what it finds")]
fn rust() -> Result<()> {
    let asked = Command::new("rustc").arg("--version").output();
    let printed = asked.map_or_else(
        |error| error.to_string(),
        |output| String::from_utf8_lossy(&output.stdout).into_owned(),
    );
    if version(&printed).is_none_or(|found| Some(found) < version(RUST)) {
        bail!(
            "Rust {RUST} or later is needed; rustc says `{}`\n  run: rustup update stable",
            printed.trim()
        );
    }
    for (component, word) in COMPONENTS {
        let asked = Command::new("cargo").args([word, "--version"]).output();
        if !asked.is_ok_and(|output| output.status.success()) {
            println!(
                "missing: {component} (`make check` needs it); run: rustup component add {component}"
            );
        }
    }
    Ok(())
}

/// Returns the first two numbers of a version such as `rustc 1.95.0 (...)`.
fn version(text: &str) -> Option<(u32, u32)> {
    let numbers = text.split([' ', '.']).filter_map(|part| part.parse().ok());
    let numbers: Vec<u32> = numbers.take(2).collect();
    Some((*numbers.first()?, *numbers.get(1)?))
}

#[allow(clippy::print_stdout, reason = "set-up tells what it does")]
fn packages() -> Result<()> {
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

/// Returns whether this process may install packages: whether root owns /proc/self.
fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

#[cfg(test)]
mod tests {
    use super::version;

    #[test]
    fn versions_are_compared_by_number() {
        assert_eq!(version("rustc 1.95.0 (abc 2026-01-01)"), Some((1, 95)));
        assert_eq!(version("1.95"), Some((1, 95)));
        assert!(version("rustc 1.100.0-nightly") > version("1.95"));
        assert_eq!(version("No such file or directory"), None);
    }
}
