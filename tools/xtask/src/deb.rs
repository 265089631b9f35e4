// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Makes the Debian packages: builds the programs, arranges the files, and runs dpkg-deb.
//! `docs/decisions/0030-written-by-hand.md` says why not cargo-deb.

use crate::command::run;
use crate::files::{below, empty, epoch, put, put_all, target, text, version, write};
use anyhow::Result;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The first version with two packages: `weirgate-lab` takes over files that `weirgate` had before.
const SPLIT: &str = "0.1.0-2";

/// The revision of the packages of Debian, and the release of the RPM.
pub const REVISION: &str = "3";

/// The default maintainer. `DEBFULLNAME` and `DEBEMAIL` override it, as for dch(1).
const MAINTAINER: (&str, &str) = ("The weirgate maintainers", "weirgate@localhost");

/// One package.
struct Package {
    name: &'static str,
    /// The arguments with which cargo builds its programs.
    build: &'static [&'static str],
    /// The profile of that build.
    profile: &'static str,
    /// Its programs; the first has completions.
    programs: &'static [&'static str],
    /// Folders of the repository that are installed in `usr/share/weirgate`.
    data: &'static [&'static str],
    /// Whether it contains the units, the policies, the documents and the scripts.
    service: bool,
    /// The rest of its control file: relations and description.
    control: &'static str,
}

/// The packages. The guest keeps the laboratory's profile, because its instructions are the lab's
/// clock.
const PACKAGES: [Package; 2] = [
    Package {
        name: "weirgate",
        build: &["router"],
        profile: "dist",
        programs: &["weirgate"],
        data: &[],
        service: true,
        control: "Recommends: nftables, iproute2\nSuggests: weirgate-lab\n\
                  Description: keeps the queue of a shared link under control\n \
                  Shapes a link by one policy file, shows and proves what it promises, and\n \
                  changes a live router without cutting it off.\n",
    },
    Package {
        name: "weirgate-lab",
        // Of the whole workspace, as for the tests: with the features of two packages alone, the
        // guest is another one, and stored results are not its.
        build: &[
            "build",
            "--release",
            "--locked",
            "--workspace",
            "--bin",
            "weirgate-lab",
            "--bin",
            "weirgate-guest",
        ],
        profile: "release",
        programs: &["weirgate-lab", "weirgate-guest"],
        data: &["experiments", "policies", "domains"],
        service: false,
        control: "Recommends: qemu-system-x86, clang-19\n\
                  Description: laboratory for policies of weirgate\n \
                  Runs experiments on stock kernels in virtual machines under virtual time,\n \
                  draws reports, compares settings, and has the workshop for disciplines.\n",
    },
];

/// Shells with the folders of their completions, and the prefix and suffix of file names.
const COMPLETIONS: [(&str, &str, &str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions", "", ""),
    ("zsh", "usr/share/zsh/vendor-completions", "_", ""),
    ("fish", "usr/share/fish/vendor_completions.d", "", ".fish"),
];

/// Builds the programs, then the packages, and returns their paths.
pub fn build(root: &Path) -> Result<Vec<PathBuf>> {
    for package in &PACKAGES {
        run(crate::command::cargo(root).args(package.build))?;
    }
    pack(root)
}

/// Packs the built programs as `target/NAME_VERSION_ARCH.deb`, and returns the paths.
#[allow(clippy::print_stdout, reason = "the package is this task's result")]
pub fn pack(root: &Path) -> Result<Vec<PathBuf>> {
    let mut made = Vec::new();
    for package in &PACKAGES {
        let place = package.make(root)?;
        println!("{}", place.display());
        made.push(place);
    }
    Ok(made)
}

/// Returns the paths of the packages.
pub fn places(root: &Path) -> Result<Vec<PathBuf>> {
    let arch = own_arch()?;
    let place = |package: &Package| package.place(root, &arch);
    PACKAGES.iter().map(place).collect()
}

/// Returns the version of the packages.
fn package_version(root: &Path) -> Result<String> {
    Ok(format!("{}-{REVISION}", version(root)?))
}

impl Package {
    fn make(&self, root: &Path) -> Result<PathBuf> {
        let target = target(root);
        let tree = target.join("deb").join(self.name);
        empty(&tree)?;
        for program in self.programs {
            let built = target.join(self.profile).join(program);
            put(&built, &tree.join("usr/bin").join(program), 0o755)?;
        }
        let program = self.programs[0];
        for (shell, folder, before, after) in COMPLETIONS {
            let mut command = Command::new(tree.join("usr/bin").join(program));
            let script = text(command.args(["completions", shell]))?;
            let place = tree.join(folder).join(format!("{before}{program}{after}"));
            write(&place, script.as_bytes(), 0o644)?;
        }
        self.manual(root, &tree)?;
        for folder in self.data {
            let place = tree.join("usr/share/weirgate").join(folder);
            put_all(&root.join(folder), &place)?;
        }
        let version = package_version(root)?;
        let epoch = epoch(root)?;
        let documents = tree.join("usr/share/doc").join(self.name);
        let copyright = root.join("packaging/debian/copyright");
        put(&copyright, &documents.join("copyright"), 0o644)?;
        let changes = documents.join("changelog.Debian");
        let log = changelog(self.name, &version, &epoch)?;
        write(&changes, log.as_bytes(), 0o644)?;
        run(Command::new("gzip").args(["-9n"]).arg(&changes))?;
        let overrides = root.join(format!("packaging/debian/{}.lintian-overrides", self.name));
        let place = tree.join("usr/share/lintian/overrides").join(self.name);
        put(&overrides, &place, 0o644)?;
        if self.service {
            service(root, &tree, &documents)?;
        }
        self.seal(root, &tree, &own_arch()?, &self.depends(&version)?)
    }

    /// Writes the control file and the checksums of a tree, packs it, and returns the package's
    /// path.
    fn seal(&self, root: &Path, tree: &Path, arch: &str, depends: &str) -> Result<PathBuf> {
        let control = self.control(tree, &package_version(root)?, arch, depends)?;
        let sums = sums(tree)?;
        write(&tree.join("DEBIAN/md5sums"), sums.as_bytes(), 0o644)?;
        write(&tree.join("DEBIAN/control"), control.as_bytes(), 0o644)?;
        let package = self.place(root, arch)?;
        run(Command::new("dpkg-deb")
            .args(["--root-owner-group", "-Zxz", "--build"])
            .env("SOURCE_DATE_EPOCH", epoch(root)?)
            .arg(tree)
            .arg(&package))?;
        Ok(package)
    }

    /// Returns the path of the package's file.
    fn place(&self, root: &Path, arch: &str) -> Result<PathBuf> {
        let version = package_version(root)?;
        Ok(target(root).join(format!("{}_{version}_{arch}.deb", self.name)))
    }

    /// Installs the program's manual pages; those of sections 5 and 7 are in the router's package.
    fn manual(&self, root: &Path, tree: &Path) -> Result<()> {
        for entry in fs::read_dir(root.join("docs/reference/man"))? {
            let page = entry?.path();
            let name = page.file_name().unwrap_or_default().to_string_lossy();
            let (stem, section) = name.rsplit_once('.').unwrap_or((&name, ""));
            let lab = stem == "weirgate-lab" || stem.starts_with("weirgate-lab-");
            if lab == self.service {
                continue;
            }
            let place = tree.join(format!("usr/share/man/man{section}/{name}"));
            put(&page, &place, 0o644)?;
            run(Command::new("gzip").args(["-9n"]).arg(&place))?;
        }
        Ok(())
    }

    /// Returns the packages that it needs. The programs need the version of the C library with which
    /// they were linked.
    fn depends(&self, version: &str) -> Result<String> {
        let libc = text(Command::new("dpkg-query").args(["-W", "-f", "${Version}", "libc6"]))?;
        let libc = libc.split('-').next().unwrap_or_default().to_owned();
        let libraries = format!("libc6 (>= {libc}), libelf1 | libelf1t64, zlib1g");
        Ok(if self.service {
            format!("Depends: {libraries}\n")
        } else {
            // Before, one package had these files (Debian policy 7.6.1).
            format!(
                "Depends: {libraries}, weirgate (= {version})\n\
                 Breaks: weirgate (<< {SPLIT})\nReplaces: weirgate (<< {SPLIT})\n"
            )
        })
    }

    /// Returns the control file.
    fn control(&self, tree: &Path, version: &str, arch: &str, depends: &str) -> Result<String> {
        // Count each file in whole KiB, as dpkg-gencontrol does.
        let mut size = 0;
        for file in below(tree)? {
            size += tree.join(file).symlink_metadata()?.len().div_ceil(1024);
        }
        Ok(format!(
            "Package: {}\nVersion: {version}\nArchitecture: {arch}\nSection: net\n\
             Priority: optional\nInstalled-Size: {size}\n\
             Maintainer: {}\n{depends}{}",
            self.name,
            maintainer(),
            self.control
        ))
    }
}

/// Packs the router's package for another processor of Debian: the files of this machine's package
/// around a static program, which needs no library. Returns its tree and its path.
pub fn foreign(root: &Path, arch: &str, program: &Path) -> Result<(PathBuf, PathBuf)> {
    let package = &PACKAGES[0];
    let folder = target(root).join("deb");
    let tree = folder.join(format!("{}-{arch}", package.name));
    empty(&tree)?;
    put_all(&folder.join(package.name), &tree)?;
    put(program, &tree.join("usr/bin").join(package.name), 0o755)?;
    let packed = package.seal(root, &tree, arch, "")?;
    Ok((tree, packed))
}

/// Returns this machine's architecture, by Debian's name.
pub fn own_arch() -> Result<String> {
    let arch = text(Command::new("dpkg").arg("--print-architecture"))?;
    Ok(arch.trim().to_owned())
}

/// Installs units, policies, documents, and the maintainer scripts of the service.
fn service(root: &Path, tree: &Path, documents: &Path) -> Result<()> {
    for unit in [
        "weirgate.service",
        "weirgate-watch.service",
        "weirgate-circuits.service",
        "weirgate-links.service",
    ] {
        let from = root.join("packaging/systemd").join(unit);
        put(
            &from,
            &tree.join("usr/lib/systemd/system").join(unit),
            0o644,
        )?;
    }
    // Keep the repository's paths, so that the README's links work.
    let mut pages = crate::docs::pages(root)?;
    pages.extend(["docs/before-after.svg", "docs/inbound-campaign.svg"].map(PathBuf::from));
    for page in pages {
        put(&root.join(&page), &documents.join(&page), 0o644)?;
    }
    put_all(&root.join("policies"), &documents.join("policies"))?;
    for file in ["names.conf", "track.conf"] {
        let from = root.join("packaging/systemd").join(file);
        put(&from, &documents.join("systemd").join(file), 0o644)?;
    }
    for file in ["grafana.json", "alerts.yaml"] {
        let from = root.join("packaging/monitoring").join(file);
        put(&from, &documents.join("monitoring").join(file), 0o644)?;
    }
    for script in ["postinst", "prerm", "postrm"] {
        let from = root.join("packaging/debian").join(script);
        put(&from, &tree.join("DEBIAN").join(script), 0o755)?;
    }
    Ok(())
}

/// Returns the maintainer for the control file.
fn maintainer() -> String {
    let set = |name: &str, other: &str| std::env::var(name).unwrap_or_else(|_| other.to_owned());
    let (name, address) = MAINTAINER;
    format!(
        "{} <{}>",
        set("DEBFULLNAME", name),
        set("DEBEMAIL", address)
    )
}

/// Returns the Debian changelog (deb-changelog(5)): one entry, which refers to the project's
/// changelog.
fn changelog(name: &str, version: &str, epoch: &str) -> Result<String> {
    let mut date = Command::new("date");
    let date = text(
        date.args(["-u", "-R", "-d", &format!("@{epoch}")])
            .env("LC_ALL", "C"),
    )?;
    Ok(format!(
        "{name} ({version}) unstable; urgency=medium\n\n  * What changed is in CHANGELOG.md of \
         the sources.\n\n -- {}  {}\n",
        maintainer(),
        date.trim()
    ))
}

/// Returns the checksum of each file (deb-md5sums(5)), by which `dpkg --verify` finds changes.
fn sums(tree: &Path) -> Result<String> {
    let mut sums = String::new();
    let files = below(tree)?;
    for file in files.iter().filter(|file| !file.starts_with("DEBIAN")) {
        let sum = text(Command::new("md5sum").arg("-b").arg(tree.join(file)))?;
        let sum = sum.split_whitespace().next().unwrap_or_default();
        let _ = writeln!(sums, "{sum}  {}", file.display());
    }
    Ok(sums)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guest_of_the_package_has_the_features_of_the_workspace() {
        let build = PACKAGES[1].build;
        assert!(build.contains(&"--workspace"));
        let fewer = ["-p", "--package", "--exclude"];
        assert!(!build.iter().any(|word| fewer.contains(word)));
    }
}
