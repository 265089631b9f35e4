// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Makes all release files of one version, in one folder: packages, an archive, a container image,
//! roles and manifests, a bill of materials, checksums and their signature.
//!
//! Everything is made from the same sources with their date, so that releases are reproducible;
//! `--twice` makes two and compares.

mod archive;
mod bill;
mod image;
mod released;
mod rpm;

use crate::command::run;
use crate::files::{below, empty, epoch, put, put_all, target, text, version, write};
use crate::{deb, musl};
use anyhow::{Context, Result, ensure};
use released::{Release, sum};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(clap::Args)]
pub struct Arguments {
    /// Sign the checksums with this SSH key (ssh-keygen(1), `-Y sign`).
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// The folder of the release, which is replaced; the default is `release-files` below target.
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
    /// A program for the archive and the image, such as a static one; the default is the package's.
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Use programs and packages that are already built.
    #[arg(long)]
    built: bool,
    /// Leave out the static programs, which need root and a separate Debian.
    #[arg(long)]
    without_static: bool,
    /// Make everything twice, and compare.
    #[arg(long)]
    twice: bool,
}

/// Folders of the sources that are released unchanged, with their names in the release.
const FOLDERS: [(&str, &str); 5] = [
    ("packaging/ansible", "ansible"),
    ("packaging/kubernetes", "kubernetes"),
    ("packaging/nix", "nix"),
    ("packaging/openwrt", "openwrt"),
    ("packaging/sweeps", "sweeps"),
];

/// The file of checksums, which is written last but for its signature.
const SUMS: &str = "SHA256SUMS";

/// Files with the version, and the text before it.
const VERSIONS: [(&str, &str); 3] = [
    ("packaging/kubernetes/daemonset.yaml", "image: weirgate:"),
    ("packaging/nix/package.nix", "version = \""),
    ("packaging/openwrt/Makefile", "PKG_VERSION:="),
];

/// The namespace of the signature (`-n` of ssh-keygen).
const NAMESPACE: &str = "weirgate-release";

/// Makes the release.
#[allow(clippy::print_stdout, reason = "tells what was made")]
pub fn make(root: &Path, arguments: &Arguments) -> Result<()> {
    let own = target(root).join("release-files");
    let folder = arguments.folder.clone().unwrap_or(own);
    if let Some(given) = &arguments.folder {
        replaceable(given)?;
    }
    build(root, arguments.built)?;
    once(root, &folder, arguments)?;
    if arguments.twice {
        let again = target(root).join("release-again");
        if !arguments.built {
            rebuild(root, arguments.without_static)?;
        }
        once(root, &again, arguments)?;
        compare(&folder, &again)?;
        fs::remove_dir_all(&again)?;
        println!("made twice: the same bytes");
    }
    for file in below(&folder)? {
        let bytes = fs::metadata(folder.join(&file))?.len();
        println!("{bytes:>10}  {}", file.display());
    }
    Ok(())
}

/// Fails if the folder has files and is not of a release, because it is emptied.
fn replaceable(folder: &Path) -> Result<()> {
    let shown = folder.display();
    let used = folder.exists() && fs::read_dir(folder)?.next().is_some();
    ensure!(
        !used || folder.join(SUMS).is_file(),
        "{shown} has files, and is not the folder of a release: it has no {SUMS}"
    );
    Ok(())
}

fn build(root: &Path, built: bool) -> Result<()> {
    if !built {
        deb::build(root)?;
    }
    Ok(())
}

/// Compiles the programs again from scratch.
fn rebuild(root: &Path, without_static: bool) -> Result<()> {
    if !without_static {
        musl::clean(&target(root))?;
    }
    for profile in [&["--profile", "dist"][..], &["--release"]] {
        let mut clean = crate::command::cargo(root);
        run(clean.arg("clean").args(profile))?;
    }
    build(root, false)
}

fn once(root: &Path, folder: &Path, arguments: &Arguments) -> Result<()> {
    let version = version(root)?;
    versions(root, &version)?;
    empty(folder)?;
    let tree = target(root).join("deb/weirgate");
    let release = Release {
        root,
        folder,
        name: format!("weirgate-{version}"),
        epoch: epoch(root)?,
        arch: deb::own_arch()?,
        machine: std::env::consts::ARCH.to_owned(),
        program: arguments
            .program
            .clone()
            .unwrap_or_else(|| tree.join("usr/bin/weirgate")),
        tree,
        version,
    };
    for package in deb::places(root)? {
        let name = package.file_name().context("a package's name")?;
        put(&package, &folder.join(name), 0o644)?;
    }
    archive::make(&release)?;
    rpm::make(&release)?;
    image::make(&release)?;
    if !arguments.without_static {
        for built in musl::all(root)? {
            let name = format!("{}-{}", release.name, built.name);
            put(&built.place, &folder.join(name), 0o755)?;
            if let Some((machine, arch)) = built.foreign {
                foreign(&release, machine, arch, built.place)?;
            }
        }
    }
    for (from, name) in FOLDERS {
        put_all(&root.join(from), &folder.join(name))?;
    }
    bill::make(&release, !arguments.without_static)?;
    sums(folder)?;
    if let Some(key) = &arguments.key {
        sign(folder, key)?;
    }
    Ok(())
}

/// Makes the packages for another processor, with a static program.
fn foreign(release: &Release<'_>, machine: &str, arch: &str, program: PathBuf) -> Result<()> {
    let (tree, package) = deb::foreign(release.root, arch, &program)?;
    let name = package.file_name().context("a package's name")?;
    put(&package, &release.folder.join(name), 0o644)?;
    let release = Release {
        name: release.name.clone(),
        version: release.version.clone(),
        epoch: release.epoch.clone(),
        arch: arch.to_owned(),
        machine: machine.to_owned(),
        tree,
        program,
        ..*release
    };
    archive::make(&release)?;
    rpm::make(&release)?;
    image::make(&release)
}

/// Fails if a file of a package names another version.
fn versions(root: &Path, version: &str) -> Result<()> {
    for (file, before) in VERSIONS {
        let text = fs::read_to_string(root.join(file)).context(file)?;
        let named = text
            .lines()
            .filter_map(|line| line.trim().strip_prefix(before));
        let named: Vec<&str> = named
            .map(|rest| rest.trim_end_matches(['"', ';']))
            .collect();
        let same = !named.is_empty() && named.iter().all(|one| *one == version);
        ensure!(same, "{file} has version {named:?}, Cargo.toml {version}");
    }
    Ok(())
}

/// Writes `SHA256SUMS` of all files, for sha256sum(1).
fn sums(folder: &Path) -> Result<()> {
    let mut lines = String::new();
    for file in below(folder)? {
        let _ = writeln!(lines, "{}  {}", sum(&folder.join(&file))?, file.display());
    }
    write(&folder.join(SUMS), lines.as_bytes(), 0o644)
}

/// Signs the checksums, and verifies the signature with the public key.
fn sign(folder: &Path, key: &Path) -> Result<()> {
    let sums = folder.join(SUMS);
    run(Command::new("ssh-keygen")
        .args(["-q", "-Y", "sign", "-n", NAMESPACE, "-f"])
        .arg(key)
        .arg(&sums))?;
    let public = text(Command::new("ssh-keygen").args(["-y", "-f"]).arg(key))?;
    let signers = folder.join("allowed-signers");
    let line = format!("release namespaces=\"{NAMESPACE}\" {public}");
    write(&signers, line.as_bytes(), 0o644)?;
    let mut check = Command::new("ssh-keygen");
    check.args(["-q", "-Y", "verify", "-n", NAMESPACE, "-I", "release", "-f"]);
    check
        .arg(&signers)
        .arg("-s")
        .arg(folder.join("SHA256SUMS.sig"));
    run(check.stdin(fs::File::open(&sums)?))
}

/// Fails if two folders do not have the same files with the same bytes.
fn compare(one: &Path, other: &Path) -> Result<()> {
    let (here, there) = (below(one)?, below(other)?);
    ensure!(here == there, "not the same files: {here:?} and {there:?}");
    for file in here {
        let same = fs::read(one.join(&file))? == fs::read(other.join(&file))?;
        ensure!(same, "{} was made with other bytes", file.display());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Stdio;

    fn succeeds(command: &mut Command) -> bool {
        let quiet = command.stdout(Stdio::null()).stderr(Stdio::null());
        quiet.status().is_ok_and(|status| status.success())
    }

    /// Verifies as docs/install.md says: the signature, then the checksums.
    fn verifies(folder: &Path, signers: &Path) -> Result<bool> {
        let mut signature = Command::new("ssh-keygen");
        signature.args(["-Y", "verify", "-n", NAMESPACE, "-I", "release"]);
        signature.arg("-f").arg(signers);
        signature.args(["-s", "SHA256SUMS.sig"]).current_dir(folder);
        signature.stdin(fs::File::open(folder.join("SHA256SUMS"))?);
        let mut sums = Command::new("sha256sum");
        sums.args(["-c", "SHA256SUMS"]).current_dir(folder);
        Ok(succeeds(&mut signature) && succeeds(&mut sums))
    }

    fn key(at: &Path) -> Result<()> {
        let mut make = Command::new("ssh-keygen");
        run(make.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(at))
    }

    #[test]
    fn only_a_folder_of_a_release_is_replaced() -> Result<()> {
        let all = tempfile::tempdir()?;
        let folder = all.path().join("release");
        replaceable(&folder)?;
        fs::create_dir(&folder)?;
        replaceable(&folder)?;
        write(&folder.join("photo.jpg"), b"a photo", 0o644)?;
        assert!(replaceable(&folder).is_err());
        sums(&folder)?;
        replaceable(&folder)
    }

    #[test]
    fn all_files_have_the_version_of_the_sources() -> Result<()> {
        let root = crate::root();
        let own = version(&root)?;
        versions(&root, &own)?;
        assert!(versions(&root, &format!("{own}1")).is_err());
        Ok(())
    }

    #[test]
    fn a_changed_file_and_another_key_are_seen() -> Result<()> {
        let all = tempfile::tempdir()?;
        let (folder, own) = (all.path().join("release"), all.path().join("key"));
        let package = folder.join("weirgate_1_amd64.deb");
        write(&package, b"a package", 0o644)?;
        write(&folder.join("kubernetes/daemonset.yaml"), b"pods", 0o644)?;
        key(&own)?;
        sums(&folder)?;
        sign(&folder, &own)?;
        let signers = all.path().join("trusted");
        fs::copy(folder.join("allowed-signers"), &signers)?;
        assert!(verifies(&folder, &signers)?);

        write(&package, b"another one", 0o644)?;
        assert!(!verifies(&folder, &signers)?, "its sum is another");
        fs::remove_file(folder.join("SHA256SUMS"))?;
        sums(&folder)?;
        assert!(!verifies(&folder, &signers)?, "sums that nobody signed");
        for left in ["SHA256SUMS", "SHA256SUMS.sig", "allowed-signers"] {
            fs::remove_file(folder.join(left))?;
        }
        let strange = all.path().join("strange");
        key(&strange)?;
        sums(&folder)?;
        sign(&folder, &strange)?;
        assert!(verifies(&folder, &folder.join("allowed-signers"))?);
        assert!(!verifies(&folder, &signers)?, "signed by somebody else");
        Ok(())
    }
}
