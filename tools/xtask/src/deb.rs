// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The Debian packages: builds the programs, lays the files out, calls
//! dpkg-deb. `docs/decisions/0030-written-by-hand.md` says why not cargo-deb.

use crate::run;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The version of the packages that first came as two: `weirgate-lab` takes over
/// files that `weirgate` had before.
const SPLIT: &str = "0.1.0-2";

/// The revision of the packages, which the version of the programs lacks.
const REVISION: &str = "2";

/// One package.
struct Package {
    name: &'static str,
    /// The cargo packages and profile that it is built of.
    build: &'static [&'static str],
    /// Its programs, the first with completions.
    programs: &'static [&'static str],
    /// Folders of the repository that go to `usr/share/weirgate`.
    data: &'static [&'static str],
    /// Whether it has the units, the policies, the documents and the scripts.
    service: bool,
    /// What else stands in its control file: relations and description.
    control: &'static str,
}

/// The guest keeps the profile of the laboratory: its instructions are the
/// clock there.
const PACKAGES: [Package; 2] = [
    Package {
        name: "weirgate",
        build: &["--profile", "dist", "-p", "weirgate-cli"],
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
        build: &[
            "--release",
            "-p",
            "weirgate-lab-cli",
            "-p",
            "weirgate-guest",
        ],
        programs: &["weirgate-lab", "weirgate-guest"],
        data: &["experiments", "policies", "domains"],
        service: false,
        control: "Recommends: qemu-system-x86, clang-19\n\
                  Description: laboratory for policies of weirgate\n \
                  Runs experiments on stock kernels in virtual machines under virtual time,\n \
                  draws reports, compares settings, and has the workshop for disciplines.\n",
    },
];

/// Shells with the folders of their completions, and how a file is called there.
const COMPLETIONS: [(&str, &str, &str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions", "", ""),
    ("zsh", "usr/share/zsh/vendor-completions", "_", ""),
    ("fish", "usr/share/fish/vendor_completions.d", "", ".fish"),
];

/// Builds `target/NAME_VERSION_ARCH.deb` of each package and prints its place.
pub fn build(root: &Path) -> Result<()> {
    PACKAGES.iter().try_for_each(|package| package.make(root))
}

impl Package {
    #[allow(clippy::print_stdout, reason = "the package is this task's result")]
    fn make(&self, root: &Path) -> Result<()> {
        run(crate::cargo(root).arg("build").args(self.build))?;
        let target = target(root);
        let tree = target.join("deb").join(self.name);
        if tree.exists() {
            fs::remove_dir_all(&tree)?;
        }
        let profile = if self.build.contains(&"dist") {
            "dist"
        } else {
            "release"
        };
        for program in self.programs {
            let built = target.join(profile).join(program);
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
        let documents = tree.join("usr/share/doc").join(self.name);
        let copyright = copyright(root)?;
        write(&documents.join("copyright"), copyright.as_bytes(), 0o644)?;
        if self.service {
            service(root, &tree, &documents)?;
        }
        let version = format!("{}-{REVISION}", version(root)?);
        let arch = text(Command::new("dpkg").arg("--print-architecture"))?;
        let arch = arch.trim();
        let control = self.control(&tree, &version, arch)?;
        write(&tree.join("DEBIAN/control"), control.as_bytes(), 0o644)?;
        let package = target.join(format!("{}_{version}_{arch}.deb", self.name));
        run(Command::new("dpkg-deb")
            .args(["--root-owner-group", "--build"])
            .arg(&tree)
            .arg(&package))?;
        println!("{}", package.display());
        Ok(())
    }

    /// Manual pages of the program; those of section 5 and 7 go with the router's.
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

    /// The C library that the programs were linked with is what they need.
    fn control(&self, tree: &Path, version: &str, arch: &str) -> Result<String> {
        let libc = text(Command::new("dpkg-query").args(["-W", "-f", "${Version}", "libc6"]))?;
        let libc = libc.split('-').next().unwrap_or_default().to_owned();
        let size = text(Command::new("du").arg("-sk").arg(tree))?;
        let size = size.split_whitespace().next().unwrap_or("0").to_owned();
        let libraries = format!("libc6 (>= {libc}), libelf1 | libelf1t64, zlib1g");
        let relations = if self.service {
            format!("Depends: {libraries}\n")
        } else {
            // Before, one package had what is here now (Debian policy 7.6.1).
            format!(
                "Depends: {libraries}, weirgate (= {version})\n\
                 Breaks: weirgate (<< {SPLIT})\nReplaces: weirgate (<< {SPLIT})\n"
            )
        };
        Ok(format!(
            "Package: {}\nVersion: {version}\nArchitecture: {arch}\nSection: net\n\
             Priority: optional\nInstalled-Size: {size}\n\
             Maintainer: The weirgate maintainers <weirgate@localhost>\n{relations}{}",
            self.name, self.control
        ))
    }
}

/// Units, policies, documents, and the scripts that start and stop the service.
fn service(root: &Path, tree: &Path, documents: &Path) -> Result<()> {
    for unit in ["weirgate.service", "weirgate-watch.service"] {
        let from = root.join("packaging/systemd").join(unit);
        put(&from, &tree.join("lib/systemd/system").join(unit), 0o644)?;
    }
    // As in the repository, so that the README's links work.
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

/// A folder with all that is in it.
fn put_all(from: &Path, to: &Path) -> Result<()> {
    for entry in fs::read_dir(from).with_context(|| from.display().to_string())? {
        let path = entry?.path();
        let place = to.join(path.file_name().unwrap_or_default());
        if path.is_dir() {
            put_all(&path, &place)?;
        } else {
            put(&path, &place, 0o644)?;
        }
    }
    Ok(())
}

fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
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
