// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The Debian package: builds the programs, lays the files out, calls
//! dpkg-deb.

use crate::run;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Shells with the places of their completions in a package.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions/weirgate"),
    ("zsh", "usr/share/zsh/vendor-completions/_weirgate"),
    ("fish", "usr/share/fish/vendor_completions.d/weirgate.fish"),
];

/// Builds `target/weirgate_VERSION_ARCH.deb` and prints its place.
#[allow(clippy::print_stdout, reason = "the package is this task's result")]
pub fn build(root: &Path) -> Result<()> {
    let cargo = [
        "build",
        "--release",
        "-p",
        "weirgate-cli",
        "-p",
        "weirgate-guest",
    ];
    run(Command::new("cargo").args(cargo).current_dir(root))?;
    let target = target(root);
    let tree = target.join("deb");
    if tree.exists() {
        fs::remove_dir_all(&tree)?;
    }
    for program in ["weirgate", "weirgate-guest"] {
        let built = target.join("release").join(program);
        put(&built, &tree.join("usr/bin").join(program), 0o755)?;
    }
    let weirgate = tree.join("usr/bin/weirgate");
    for (shell, place) in COMPLETIONS {
        let script = text(Command::new(&weirgate).args(["completions", shell]))?;
        write(&tree.join(place), script.as_bytes(), 0o644)?;
    }
    for entry in fs::read_dir(root.join("docs/reference/man"))? {
        let page = entry?.path();
        // The section is what the name ends in: 1 for commands, 7 for others.
        let section = page.extension().unwrap_or_default().to_string_lossy();
        let place = tree
            .join(format!("usr/share/man/man{section}"))
            .join(page.file_name().unwrap_or_default());
        put(&page, &place, 0o644)?;
        run(Command::new("gzip").args(["-9n"]).arg(&place))?;
    }
    for unit in ["weirgate.service", "weirgate-watch.service"] {
        put(
            &root.join("packaging/systemd").join(unit),
            &tree.join("lib/systemd/system").join(unit),
            0o644,
        )?;
    }
    let documents = tree.join("usr/share/doc/weirgate");
    let mut pages = crate::docs::pages(root)?;
    pages.extend(["docs/before-after.svg", "docs/inbound-campaign.svg"].map(PathBuf::from));
    for page in pages {
        put(&root.join(&page), &documents.join(&page), 0o644)?;
    }
    for entry in fs::read_dir(root.join("policies"))? {
        let policy = entry?.path();
        if policy.is_file() {
            let name = policy.file_name().unwrap_or_default().to_owned();
            put(&policy, &documents.join("policies").join(name), 0o644)?;
        }
    }
    for file in ["names.conf", "track.conf"] {
        let from = root.join("packaging/systemd").join(file);
        put(&from, &documents.join("systemd").join(file), 0o644)?;
    }
    for file in ["grafana.json", "alerts.yaml"] {
        let from = root.join("packaging/monitoring").join(file);
        put(&from, &documents.join("monitoring").join(file), 0o644)?;
    }
    write(
        &documents.join("copyright"),
        copyright(root)?.as_bytes(),
        0o644,
    )?;
    for script in ["postinst", "prerm", "postrm"] {
        let from = root.join("packaging/debian").join(script);
        put(&from, &tree.join("DEBIAN").join(script), 0o755)?;
    }
    let version = version(root)?;
    let arch = text(Command::new("dpkg").arg("--print-architecture"))?;
    let arch = arch.trim();
    let control = control(&tree, &version, arch)?;
    write(&tree.join("DEBIAN/control"), control.as_bytes(), 0o644)?;
    let package = target.join(format!("weirgate_{version}_{arch}.deb"));
    run(Command::new("dpkg-deb")
        .args(["--root-owner-group", "--build"])
        .arg(&tree)
        .arg(&package))?;
    println!("{}", package.display());
    Ok(())
}

fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}

/// The C library that the programs were linked with is what they need.
fn control(tree: &Path, version: &str, arch: &str) -> Result<String> {
    let libc = text(Command::new("dpkg-query").args(["-W", "-f", "${Version}", "libc6"]))?;
    let libc = libc.split('-').next().unwrap_or_default().to_owned();
    let size = text(Command::new("du").arg("-sk").arg(tree))?;
    let size = size.split_whitespace().next().unwrap_or("0").to_owned();
    Ok(format!(
        "Package: weirgate\nVersion: {version}\nArchitecture: {arch}\nSection: net\n\
         Priority: optional\nInstalled-Size: {size}\nDepends: libc6 (>= {libc}), libelf1 | libelf1t64, zlib1g\n\
         Recommends: nftables, iproute2\nSuggests: qemu-system-x86\n\
         Maintainer: The weirgate maintainers <weirgate@localhost>\n\
         Description: keeps the queue of a shared link under control\n \
         Shapes a link by one policy file, shows and proves what it promises, and\n \
         changes a live router without cutting it off.\n"
    ))
}

fn copyright(root: &Path) -> Result<String> {
    let mut all = String::from("weirgate is licensed under Apache-2.0 or MIT, as you choose.\n");
    let mut files: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(root.join("LICENSES"))? {
        files.push(entry?.path());
    }
    files.sort();
    for file in files {
        all.push('\n');
        all.push_str(&fs::read_to_string(&file)?);
    }
    Ok(all)
}

fn version(root: &Path) -> Result<String> {
    let manifest = fs::read_to_string(root.join("Cargo.toml"))?;
    let line = manifest
        .lines()
        .find_map(|line| line.strip_prefix("version = \""));
    let version = line.and_then(|rest| rest.split('"').next());
    Ok(version.context("Cargo.toml names no version")?.to_owned())
}

fn text(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    ensure!(
        output.status.success(),
        "{command:?} ended with {}",
        output.status
    );
    Ok(String::from_utf8(output.stdout)?)
}

fn put(from: &Path, to: &Path, mode: u32) -> Result<()> {
    let bytes = fs::read(from).with_context(|| from.display().to_string())?;
    write(to, &bytes, mode)
}

fn write(to: &Path, bytes: &[u8], mode: u32) -> Result<()> {
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(to, bytes).with_context(|| to.display().to_string())?;
    fs::set_permissions(to, fs::Permissions::from_mode(mode))?;
    Ok(())
}
