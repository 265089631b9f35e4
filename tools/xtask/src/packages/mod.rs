// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests the Debian package as on a router: an older one is upgraded, downgraded and removed under
//! systemd, on a stock kernel, while 1,000 packets a second pass.
//!
//! The machine is built here: its own Debian ([`clean`]), booted by qemu ([`machine`]) with systemd
//! as its first process. In the machine, this program runs again ([`inside`]), tests the packages,
//! and reports what it observed. Traffic is in [`traffic`].

pub mod clean;
mod inside;
mod machine;
mod traffic;

use crate::bench::{Figure, Goal, load, report};
use crate::command::run;
use crate::deb;
use crate::files::{empty, target, text};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The version of an older package that is made from the newer one's files.
const OLDER: &str = "0.0.9-1";

/// The figures: the name that the machine prints, a description, and the goal.
const FIGURES: [(&str, &str, Goal); 11] = [
    (
        "program",
        "the router's program in the package, MB",
        Goal::AtMost(8.0),
    ),
    (
        "sent",
        "packets sent, 1,000 a second",
        Goal::AtLeast(30_000.0),
    ),
    ("lost", "of these lost", Goal::AtMost(0.0)),
    (
        "beside",
        "packets that left the device beside the shaper",
        Goal::AtMost(0.0),
    ),
    (
        "windows",
        "windows of 100 ms, of them",
        Goal::AtLeast(300.0),
    ),
    ("above", "above the rate and its burst", Goal::AtMost(0.0)),
    (
        "full",
        "the line's mean use, Mbit/s of 8",
        Goal::AtLeast(7.5),
    ),
    (
        "latest",
        "longest wait of one of these packets, ms",
        Goal::Beside,
    ),
    (
        "deleted",
        "qdiscs and classes deleted by an upgrade or downgrade",
        Goal::AtMost(0.0),
    ),
    (
        "checks",
        "checks of state, units and program that held",
        Goal::AtLeast(20.0),
    ),
    ("broken", "checks that did not hold", Goal::AtMost(0.0)),
];

#[derive(clap::Args)]
pub struct Arguments {
    /// The package to upgrade from; without it, the current files under a lower version.
    #[arg(long)]
    older: Option<PathBuf>,
    /// The package to upgrade to; without it, it is built and checked with lintian.
    #[arg(long)]
    newer: Option<PathBuf>,
    /// The folder of a kernel with `vmlinuz` and `kernel/`; without it, the laboratory's.
    #[arg(long)]
    kernel: Option<PathBuf>,
    /// The part that the machine's unit runs.
    #[arg(long, hide = true)]
    inside: bool,
    /// The sender in the machine.
    #[arg(long, hide = true)]
    send: bool,
    /// The receiver in the machine.
    #[arg(long, hide = true)]
    receive: bool,
}

/// Builds the packages, checks them with lintian, and tests them in the machine.
pub fn test(root: &Path, arguments: &Arguments) -> Result<()> {
    if arguments.inside {
        inside::run();
        return Ok(());
    }
    if arguments.send {
        return traffic::send();
    }
    if arguments.receive {
        return traffic::receive();
    }
    for (program, package) in [
        ("lintian", "lintian"),
        ("mmdebstrap", "mmdebstrap"),
        ("cpio", "cpio"),
        ("qemu-system-x86_64", "qemu-system-x86"),
    ] {
        let here = Command::new("which").arg(program).output()?;
        ensure!(here.status.success(), "missing: apt-get install {package}");
    }
    let before = load();
    let folder = target(root).join("packages");
    fs::create_dir_all(&folder)?;
    let newer = if let Some(given) = &arguments.newer {
        given.clone()
    } else {
        let packages = deb::build(root)?;
        lint(&packages)?;
        packages.into_iter().next().context("no package")?
    };
    let older = match &arguments.older {
        Some(given) => given.clone(),
        None => repacked(&newer, &folder)?,
    };
    let kernel = arguments.kernel.clone().map_or_else(machine::kernel, Ok)?;
    let image = clean::image(&folder, &kernel, &older, &newer)?;
    let printed = machine::boot(&kernel, &image, &folder.join("console"))?;
    let mut figures = Vec::new();
    for (word, what, goal) in FIGURES {
        let value = printed.iter().find(|(name, _)| name == word);
        let value = value
            .with_context(|| format!("the machine did not say `{word}`"))?
            .1;
        figures.push(Figure { what, value, goal });
    }
    report(&figures, &before)
}

/// Runs lintian, and fails on an error or a warning.
fn lint(packages: &[PathBuf]) -> Result<()> {
    let mut lintian = Command::new("lintian");
    lintian.args(["--allow-root", "--fail-on", "error,warning"]);
    run(lintian.args(packages))
}

/// Repacks the package under a lower version.
fn repacked(package: &Path, folder: &Path) -> Result<PathBuf> {
    let tree = folder.join("older");
    empty(&tree)?;
    run(Command::new("dpkg-deb").arg("-R").arg(package).arg(&tree))?;
    let place = tree.join("DEBIAN/control");
    let control = fs::read_to_string(&place)?;
    let version = control
        .lines()
        .find(|line| line.starts_with("Version: "))
        .context("a package without a version")?;
    let lower = control.replace(version, &format!("Version: {OLDER}"));
    fs::write(&place, lower)?;
    let made = folder.join("older.deb");
    text(
        Command::new("dpkg-deb")
            .args(["--root-owner-group", "--build"])
            .arg(&tree)
            .arg(&made),
    )?;
    Ok(made)
}
